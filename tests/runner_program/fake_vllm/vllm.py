"""What the vllm engine touches of vLLM, with the signatures of vLLM 0.33.0 and transformers' model inside.

Like the real one it knows of the model only what lies in the folder, seeds torch's generators when it starts, and
loses its weights in a deep sleep. Unlike it, it refuses whatever the real one would accept and we do not mean.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import transformers

ENGINE_ARGUMENTS = {"load_format", "max_model_len", "max_num_seqs", "enable_sleep_mode", "enable_prefix_caching"}
BLOCK_SIZE = 16
made: list["LLM"] = []


@dataclass(kw_only=True)
class SamplingParams:
    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    detokenize: bool = True


class LLM:
    def __init__(
        self,
        model: str,
        *,
        runner: str = "auto",
        convert: str = "auto",
        tokenizer: str | None = None,
        tokenizer_mode: str = "auto",
        skip_tokenizer_init: bool = False,
        trust_remote_code: bool = False,
        allowed_local_media_path: str = "",
        allowed_media_domains: list[str] | None = None,
        tensor_parallel_size: int = 1,
        dtype: str = "auto",
        quantization: str | None = None,
        revision: str | None = None,
        tokenizer_revision: str | None = None,
        chat_template: Path | str | None = None,
        seed: int = 0,
        gpu_memory_utilization: float = 0.92,
        cpu_offload_gb: float = 0,
        offload_group_size: int = 0,
        offload_num_in_group: int = 1,
        offload_prefetch_step: int = 1,
        offload_params: set[str] | None = None,
        enforce_eager: bool = False,
        enable_return_routed_experts: bool = False,
        return_sampling_mask: bool = False,
        disable_custom_all_reduce: bool = False,
        hf_token: bool | str | None = None,
        hf_overrides: Any | None = None,
        mm_processor_kwargs: dict[str, Any] | None = None,
        pooler_config: Any | None = None,
        structured_outputs_config: Any | None = None,
        profiler_config: Any | None = None,
        attention_config: Any | None = None,
        kv_cache_memory_bytes: int | None = None,
        compilation_config: Any | None = None,
        quantization_config: Any | None = None,
        logits_processors: list[Any] | None = None,
        spec_method: str | None = None,
        spec_model: str | None = None,
        spec_tokens: int | None = None,
        **kwargs: Any,
    ) -> None:
        assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
        assert set(kwargs) == ENGINE_ARGUMENTS
        assert kwargs["load_format"] == "dummy"
        assert skip_tokenizer_init  # there is no tokenizer in the folder
        made.append(self)
        self.folder, self.gpu_memory_utilization, self.arguments = Path(model), gpu_memory_utilization, kwargs
        self.files = sorted(path.name for path in self.folder.iterdir())
        self.config = json.loads((self.folder / "config.json").read_text())
        torch.manual_seed(seed)
        config = transformers.AutoConfig.from_pretrained(model)
        (architecture,) = self.config["architectures"]
        self.model = getattr(transformers, architecture)._from_config(config, dtype=getattr(torch, dtype))
        self.model.load_weights = self._load_weights
        self.model.eval()
        self._discard_weights()
        self.awake = {"weights", "kv_cache"}
        self.calls: list[str] = []
        cache = SimpleNamespace(num_gpu_blocks=1000, block_size=BLOCK_SIZE)
        self.llm_engine = SimpleNamespace(vllm_config=SimpleNamespace(cache_config=cache))

    def generate(
        self,
        prompts: list[dict],
        sampling_params: SamplingParams | None = None,
        *,
        use_tqdm: bool = True,
        lora_request: Any | None = None,
        priority: Any | None = None,
        tokenization_kwargs: dict[str, Any] | None = None,
        mm_processor_kwargs: dict[str, Any] | None = None,
    ) -> list[SimpleNamespace]:
        assert self.awake == {"weights", "kv_cache"}
        assert sampling_params.ignore_eos
        assert sampling_params.min_tokens == 0
        self.calls.append("generate")
        is_greedy = sampling_params.temperature == 0.0
        outputs = []
        for prompt in prompts:
            ids = torch.tensor([prompt["prompt_token_ids"]])
            full = self.model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=sampling_params.max_tokens,
                do_sample=not is_greedy, pad_token_id=0, **({} if is_greedy else dict(top_k=0)),
            )  # fmt: skip
            new = full[0, ids.shape[1] :].tolist()
            outputs.append(SimpleNamespace(outputs=[SimpleNamespace(token_ids=new)]))
        return outputs

    def apply_model(self, func: Any) -> list[Any]:
        self.calls.append("apply_model")
        return [func(self.model)]

    def sleep(self, level: int = 1, mode: str = "abort") -> None:
        assert self.arguments["enable_sleep_mode"]
        self.calls.append(f"sleep {level}")
        self.awake = set()
        if level == 2:
            self._discard_weights()

    def wake_up(self, tags: list[str] | None = None) -> bool:
        self.calls.append(f"wake_up {tags}")
        self.awake |= set(tags or ("weights", "kv_cache"))
        return self.awake == {"weights", "kv_cache"}

    def _discard_weights(self) -> None:
        with torch.no_grad():
            for p in self.model.parameters():
                p.fill_(float("nan"))

    def _load_weights(self, weights: Any) -> set[str]:
        """As vLLM's models do: an unknown name is a KeyError; the names that were loaded come back."""
        assert "weights" in self.awake
        own, loaded = dict(self.model.named_parameters()), set()
        for name, tensor in weights:
            assert not tensor.requires_grad
            own[name].data.copy_(tensor)
            loaded.add(name)
        return loaded
