"""The trial program on fake tensors: whatever reads a value on the host raises there.

The patches are the seams that a simulation needs today; the list may only get shorter.
"""

import contextlib
import importlib
import io
import json
from unittest.mock import patch

import pytest
import torch
from fitproof.runner import bnb
from fitproof.runner.program import device as device_ops
from fitproof.runner.program import models, trial
from fitproof.runner.program.recorder import CpuMeter, Recorder
from fitproof.simulate.bnb import Bitsandbytes
from fitproof.simulate.profile import load_profile
from fitproof.simulate.tape import Tape
from program_cases import CPU, TINY, run_events, stages, tiny
from torch._subclasses.fake_tensor import FakeTensorMode


def _apply(self, fn, recurse=True):
    """Module.to without swap_tensors, which refuses fake parameters."""
    for module in self.children() if recurse else ():
        module._apply(fn)
    for name, p in self._parameters.items():
        if p is not None:
            with torch.no_grad():
                self._parameters[name] = torch.nn.Parameter(fn(p), p.requires_grad)
    for name, b in self._buffers.items():
        if b is not None:
            self._buffers[name] = fn(b)
    return self


@contextlib.contextmanager
def seams():
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(torch.nn.Module, "_apply", _apply))
        for name in ("torch.optim.adam", "torch.optim.adamw"):
            module = importlib.import_module(name)
            if hasattr(module, "_get_value"):
                stack.enter_context(patch.object(module, "_get_value", lambda x: 1.0))
        stack.enter_context(
            patch.object(device_ops, "host_tokens", lambda ids: [[0] * ids.shape[1] for _ in range(ids.shape[0])])
        )
        # Its 4-bit parameters cannot be built there; the dry run's can.
        library = Bitsandbytes(Tape(), load_profile())
        stack.enter_context(patch.object(bnb, "library", lambda setting: library))
        stack.enter_context(patch.object(models, "get_peft_model", library.attach))
        yield


@pytest.mark.parametrize(
    "given",
    [
        dict(model=TINY[0]),
        dict(model=TINY[1], adaptation="full", reference="copy"),
        dict(gradient_checkpointing=False, logits_chunk=7, dtype="bfloat16"),
        dict(rollout_weights="copy", padding="none", parameter_offload=True, optimizer_offload=True),
        dict(algorithm="ppo", parameter_offload=True),
        dict(algorithm="opd", teacher=TINY[0]),
        dict(algorithm="ppo", checkpoint_every=1, deterministic=True, optimizer_offload=True),
        dict(quantization="nf4", optimizer="adamw_8bit", parameter_offload=True, optimizer_offload=True),
        dict(
            quantization="nf4", algorithm="opd", teacher=TINY[0], rollout_weights="copy", gradient_checkpointing=False
        ),
        dict(attn_implementation="eager", free_cache_engine=False, decode_coverage="edges", max_response_length=40),
    ],
    ids=lambda given: "-".join(map(str, given)),
)
def test_no_value_is_read_on_the_host(given):
    s = tiny(**given)
    out = io.StringIO()
    with seams(), FakeTensorMode():
        trial.run(s, seed=1, device=CPU, recorder=Recorder(out, CpuMeter()))
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert stages(events) == stages(run_events(s))
