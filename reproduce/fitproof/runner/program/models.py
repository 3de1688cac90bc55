"""The models of a trial: true architectures with random weights, made on the device at the price of one fill.

Weights are drawn per parameter, in place and in their own dtype (no float32 temporaries), from a generator seeded by
the slot: one seed gives one model, so a reference built from the same seed equals the actor's base.
"""

import contextlib
import importlib
from collections.abc import Iterator

import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig
from transformers.initialization import no_init_weights
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ...schema.models import catalogue, get_model
from ...schema.settings import Settings
from .. import bnb
from . import device as device_ops
from . import quantized

# Now rather than at first use: a fork server imports once for all its trials, and what a module makes while it is
# imported must not become part of a simulated trial.
for _type in sorted({m.model_type for m in catalogue().values()}):
    importlib.import_module(f"transformers.models.{_type}.modeling_{_type}")

INIT_STD = 0.02  # transformers' initializer_range of all five architectures
TEACHER = "teacher"  # name of the second adapter
ADAPTER_B_STD = 1e-3  # not zero, as fresh adapters would be: then they change what the model says

# For padding=none. transformers makes a mask itself when it gets none, after asking whether any position is padding: a
# branch on tensor values. Under a name that has no mask function it makes none, and attention is causal by flag.
MASKLESS_SDPA = "sdpa_without_mask"
ALL_ATTENTION_FUNCTIONS.register(MASKLESS_SDPA, sdpa_attention_forward)

_TARGETS = {
    "attention": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "all_linear": ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
}
_FUSED = {"q_proj": "qkv_proj", "k_proj": "qkv_proj", "v_proj": "qkv_proj", "gate_proj": "gate_up_proj",
          "up_proj": "gate_up_proj"}  # fmt: skip


class LanguageModel:
    """A causal language model, with or without a LoRA adapter, that can leave the device and come back.

    `causal` is transformers' model (LoRA layers sit inside it), `trunk` its decoder without the head, `head` the
    vocabulary projection. `moves` counts returns to the device: parameters have other addresses after each, so that a
    captured graph of an older count is stale.
    """

    def __init__(self, causal: nn.Module, adapter: nn.Module | None, device: torch.device):
        self.causal, self.adapter, self.device = causal, adapter, device
        self.trunk, self.head = causal.model, causal.lm_head
        self.config = causal.config
        self.logits_scaling = float(getattr(self.config, "logits_scaling", 1.0))  # Granite divides its logits
        self.moves = 0
        self._hosts: dict[torch.Tensor, torch.Tensor] | None = None
        self._is_away = False

    def parameters(self) -> list[nn.Parameter]:
        return list(self.causal.parameters())  # tied weights once

    def trainable(self) -> list[nn.Parameter]:
        return [p for p in self.causal.parameters() if p.requires_grad]

    def size(self) -> int:
        """Parameters, tied ones once, and nf4 weights as many as they stand for."""
        packed = [m for m in self.causal.modules() if quantized.is_quantized(m)]
        stand_for = sum(quantized.logical_size(m) - m.weight.numel() for m in packed)
        return sum(p.numel() for p in self.parameters()) + stand_for

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Vocabulary logits [..., V] in float32 of hidden states [..., H]."""
        logits = self.head(hidden).float()
        return logits if self.logits_scaling == 1.0 else logits / self.logits_scaling

    @contextlib.contextmanager
    def without_adapter(self) -> Iterator[None]:
        """The base model alone, as a reference policy."""
        with self.adapter.disable_adapter() if self.adapter is not None else contextlib.nullcontext():
            yield

    @contextlib.contextmanager
    def as_teacher(self) -> Iterator[None]:
        """With the teacher's adapter in place of the student's, where there is one; else as it is."""
        if self.adapter is None or TEACHER not in self.adapter.peft_config:
            yield
            return
        self.adapter.set_adapter(TEACHER)
        try:
            yield
        finally:
            self.adapter.set_adapter("default")  # and its parameters trainable again, the teacher's not

    def offload(self) -> None:
        """Move the parameters to (pinned) host memory. Gradients must be gone."""
        if self._is_away:
            return
        first = self._hosts is None
        if first:
            packed = (m for m in self.causal.modules() if quantized.is_quantized(m))
            moved = [*self.parameters(), *(t for m in packed for t in quantized.scales(m))]
            self._hosts = {p: device_ops.host_buffer(p.data) for p in moved}
        for p, host in self._hosts.items():
            if first or p.requires_grad:  # a frozen parameter's host copy is still right
                host.copy_(p.data, non_blocking=True)
        device_ops.synchronize(self.device)
        for p, host in self._hosts.items():
            p.data = host
        self._is_away = True

    def load(self) -> None:
        """Bring the parameters back to the device."""
        if not self._is_away:
            return
        for p, host in self._hosts.items():
            p.data = device_ops.to_device(host, self.device)
        self._is_away = False
        self.moves += 1


def build_actor(s: Settings, seed: int, device: torch.device) -> LanguageModel:
    """The policy under training, adapter and gradient checkpointing as the settings say."""
    causal = _build_causal(s, s.model_id, seed, device)
    adapter = _attach_lora(causal, s, seed, device) if s.adaptation == "lora" else None
    if s.gradient_checkpointing:
        _checkpoint_layers(causal)
    return LanguageModel(causal, adapter, device)


def build_frozen(s: Settings, model_id: str, seed: int, device: torch.device) -> LanguageModel:
    """A second model that is only read: a reference, a rollout copy, a teacher."""
    causal = _build_causal(s, model_id, seed, device)
    causal.requires_grad_(False)
    causal.eval()
    return LanguageModel(causal, None, device)


def build_critic(s: Settings, seed: int, device: torch.device) -> LanguageModel:
    """A value model: the actor's architecture with a scalar head, every parameter trainable."""
    causal = _build_causal(s, s.model_id, seed, device, is_critic=True)
    if s.gradient_checkpointing:
        _checkpoint_layers(causal)
    return LanguageModel(causal, None, device)


def _checkpoint_layers(causal: nn.Module) -> None:
    """Recompute each decoder layer in the backward pass.

    Nothing in a layer is random, so the generators' states are not kept: saving and restoring them costs host time in
    every layer and cannot be captured.
    """
    causal.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})


def add_teacher_adapter(model: LanguageModel, s: Settings, seed: int, device: torch.device) -> None:
    """A second, frozen adapter on the same backbone, of the student's shape and with weights of its own."""
    with no_init_weights(), torch.device(device):
        model.adapter.add_adapter(
            TEACHER, _lora_config(model.causal, s), autocast_adapter_dtype=s.adapter_dtype == "float32"
        )
    _fill_adapter(model.causal, TEACHER, s, seed, device)
    model.adapter.set_adapter("default")
    for name, p in model.causal.named_parameters():
        if f".{TEACHER}." in name:
            p.requires_grad_(False)


def synchronise(target: LanguageModel, source: LanguageModel) -> None:
    """Write the source's effective weights into `target`, a plain model of the same architecture; adapters are merged.

    Per matrix: copy, then add scale * B @ A in place, so no matrix-sized temporary arises. An nf4 matrix is unpacked,
    merged and rounded to nf4 again, one at a time.
    """
    layers, targets = dict(source.causal.named_modules()), dict(target.causal.named_modules())
    with torch.no_grad():
        for name, p in target.causal.named_parameters():
            owner, _, leaf = name.rpartition(".")
            module = layers[owner]
            base = getattr(module, "base_layer", module)
            is_packed = leaf == "weight" and quantized.is_quantized(base)
            weight = quantized.unpacked(base) if is_packed else p.data.copy_(getattr(base, leaf).data)
            if leaf == "weight" and is_lora(module):
                a, b, scale = lora_weights(module)
                weight.addmm_(b.to(weight.dtype), a.to(weight.dtype), alpha=scale)
            if is_packed:
                quantized.store(targets[owner], weight)
            del weight  # not while the next one is unpacked


def merged_weights(source: LanguageModel) -> Iterator[tuple[str, torch.Tensor]]:
    """What `synchronise` writes, as (name in a plain checkpoint of the architecture, tensor). A merged matrix is a copy
    that lives until the next one is asked for.
    """
    layers = dict(source.causal.named_modules())
    for name, p in source.causal.named_parameters():
        owner, _, leaf = name.rpartition(".")
        plain = owner.removesuffix(".base_layer")
        if ".lora_" in name:
            continue
        weight = p.data
        if leaf == "weight" and is_lora(layers[plain]):
            a, b, scale = lora_weights(layers[plain])
            weight = torch.addmm(weight, b.to(p.dtype), a.to(p.dtype), alpha=scale)
        yield f"{plain}.{leaf}", weight


def is_lora(module: nn.Module) -> bool:
    return hasattr(module, "lora_A") and "default" in module.lora_A


def lora_weights(module: nn.Module) -> tuple[torch.Tensor, torch.Tensor, float]:
    """A [r, in], B [out, r] and the factor on their product, of a peft LoRA layer."""
    return module.lora_A["default"].weight.data, module.lora_B["default"].weight.data, module.scaling["default"]


def attention_name(s: Settings) -> str:
    return MASKLESS_SDPA if s.attn_implementation == "sdpa" and s.padding == "none" else s.attn_implementation


def _build_causal(s: Settings, model_id: str, seed: int, device: torch.device, *, is_critic: bool = False) -> nn.Module:
    model = get_model(model_id)
    config = AutoConfig.for_model(model.model_type, **model.config)
    causal = _skeleton(s, config, is_critic=is_critic)
    # No end token: responses have forced lengths, and `generate` would look at the values to find one.
    config.eos_token_id = causal.generation_config.eos_token_id = None
    with torch.device(device):
        causal.model.rotary_emb = type(causal.model.rotary_emb)(config)  # its only state are computed buffers
    generator = torch.Generator(device).manual_seed(seed)
    made: dict[nn.Parameter, nn.Parameter] = {}
    with torch.no_grad():
        for module in causal.modules():
            for name, meta in module._parameters.items():
                if meta is None:
                    continue
                if meta not in made:
                    p = nn.Parameter(torch.empty_like(meta, device=device))
                    _fill(p, name, generator)
                    # Packed at once: only one weight of the whole model exists unquantised at a time.
                    is_packed = name == "weight" and quantized.is_quantized(module)
                    made[meta] = quantized.packed(module, p.data) if is_packed else p
                    del p
                module._parameters[name] = made[meta]
    return causal


def _skeleton(s: Settings, config: PreTrainedConfig, *, is_critic: bool) -> nn.Module:
    """The model on the meta device. A tied head is thus never allocated beside the embedding that replaces it."""
    dtype = getattr(torch, s.dtype)
    with no_init_weights(), torch.device("meta"):
        causal = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention_name(s))
    causal.tie_weights()
    if is_critic:
        causal.lm_head = nn.Linear(config.hidden_size, 1, bias=False, dtype=dtype, device="meta")
    elif s.quantization == "nf4":  # a critic is trained, all of it
        quantized.replace_linears(causal.model, dtype)
        causal.is_loaded_in_4bit = True  # peft asks
    return causal


def _fill(p: nn.Parameter, name: str, generator: torch.Generator) -> None:
    if p.ndim >= 2:
        p.normal_(0.0, INIT_STD, generator=generator)
    elif name == "bias":
        p.zero_()
    else:
        p.fill_(1.0)  # norm scales


def _attach_lora(causal: nn.Module, s: Settings, seed: int, device: torch.device) -> nn.Module:
    # Where nf4 needed bitsandbytes it is imported by now; nobody else waits for it.
    with bnb.hidden(), no_init_weights(), torch.device(device):
        peft = get_peft_model(causal, _lora_config(causal, s), autocast_adapter_dtype=s.adapter_dtype == "float32")
    _fill_adapter(causal, "default", s, seed + 1, device)
    return peft


def _lora_config(causal: nn.Module, s: Settings) -> LoraConfig:
    names = _TARGETS[s.lora_targets]
    if causal.config.model_type == "phi3":
        names = tuple(dict.fromkeys(_FUSED.get(n, n) for n in names))
    return LoraConfig(r=s.lora_rank, lora_alpha=s.lora_alpha, target_modules=list(names), lora_dropout=0.0,
                      bias="none", task_type="CAUSAL_LM", init_lora_weights=False)  # fmt: skip


def _fill_adapter(causal: nn.Module, name: str, s: Settings, seed: int, device: torch.device) -> None:
    generator = torch.Generator(device).manual_seed(seed)
    with torch.no_grad():
        for module in (m for m in causal.modules() if is_lora(m)):
            for matrices, std in ((module.lora_A, module.in_features**-0.5), (module.lora_B, ADAPTER_B_STD)):
                matrices.to(getattr(torch, s.adapter_dtype))  # peft gives float32 or the base's dtype, nothing else
                matrices[name].weight.normal_(0.0, std, generator=generator)
