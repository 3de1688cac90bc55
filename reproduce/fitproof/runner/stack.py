"""The imports of a trial, done once in the fork server so that each trial starts in a fraction of a second.

Nothing here may touch the device: a CUDA context does not survive a fork. The fork server therefore sets
PYTORCH_NVML_BASED_CUDA_CHECK, with which `torch.cuda.is_available` (called by libraries while they are imported) asks
the management library instead of starting CUDA. bitsandbytes asks for the device's properties and stays out: peft,
which would import it, is imported by `bnb` without it.
"""

import sys

import torch
import torch._dynamo  # the first optimizer step would import it, a second or more in every trial
import torch.utils.checkpoint
import transformers
import transformers.integrations.sdpa_attention
import transformers.models.granite.modeling_granite
import transformers.models.llama.modeling_llama
import transformers.models.phi3.modeling_phi3
import transformers.models.qwen2.modeling_qwen2
import transformers.models.qwen3.modeling_qwen3

from . import bnb

__all__ = ["bnb", "torch", "transformers"]

if bnb.NAME in sys.modules:
    raise RuntimeError(f"importing the stack imported {bnb.NAME}, which starts CUDA; is it imported before `bnb`?")

if torch.cuda.is_initialized():
    raise RuntimeError("importing the stack started CUDA; trials forked from here could not use the device")
