"""The trial program: build the models, roll out, score, update, repeat.

One program for three executors (measured on a GPU, measured on a CPU, simulated on fake tensors), so nothing here
branches on tensor values on the host: no `.item()`, no `if tensor`, no data-dependent shapes. Sequences are padded to
their limits and response lengths are forced. The few places where an executor may step in are functions of `device.py`.
"""

from .. import bnb  # noqa: F401  first: it imports peft without bitsandbytes
