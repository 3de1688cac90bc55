"""A stand-in for bitsandbytes in a dry run, and what its use takes from the device outside the allocator."""

from types import SimpleNamespace

import torch
from peft import LoraConfig, get_peft_model

from .adam_8bit import Adam8bit
from .nf4 import Nf4
from .profile import GpuProfile
from .tape import Tape

_PAGE = 2 * 2**20  # of managed memory on the device


class Bitsandbytes:
    """What the trial program and its layers ask of the library.

    `slack` is (bytes, bytes): how much lower and higher the driver's bytes may be than the events say. What the
    library's kernels take is guessed, and may be nothing or twice as much; managed memory may lie on the host, or take
    whole pages.
    """

    def __init__(self, tape: Tape, profile: GpuProfile):
        self._tape, self._profile = tape, profile
        self._is_loaded = False
        self.slack = (0, 0)
        nf4 = Nf4(profile, self._load)
        self.nn, self.functional, self._lora_layers = nf4.nn, nf4.functional, nf4.lora_layers
        self.optim = SimpleNamespace(AdamW8bit=self._adam, PagedAdamW8bit=self._paged_adam)

    def attach(self, causal: torch.nn.Module, config: LoraConfig, **kwargs: object) -> torch.nn.Module:
        """peft's get_peft_model, told of the layers that stand for bitsandbytes'."""
        config._register_custom_module(self._lora_layers)
        return get_peft_model(causal, config, **kwargs)

    def _load(self) -> None:
        if not self._is_loaded:
            self._is_loaded = True
            nbytes = self._profile.driver_bytes["bitsandbytes"]
            self._tape.mark("driver", nbytes, "bitsandbytes")
            self._widen(nbytes, nbytes)

    def _widen(self, below: int, above: int) -> None:
        self.slack = (self.slack[0] + below, self.slack[1] + above)

    def _adam(self, parameters: list[torch.nn.Parameter], **defaults: float) -> Adam8bit:
        return Adam8bit(parameters, load=self._load, **defaults)

    def _paged_adam(self, parameters: list[torch.nn.Parameter], **defaults: float) -> Adam8bit:
        return Adam8bit(parameters, load=self._load, managed=self._managed, **defaults)

    def _managed(self, like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        with self._tape.on_host():
            buffer = torch.zeros_like(like, dtype=dtype)
        buffer.is_paged = True
        self._tape.mark("driver", buffer.nbytes, "paged optimizer state")
        self._widen(buffer.nbytes, -buffer.nbytes % _PAGE)
        return buffer
