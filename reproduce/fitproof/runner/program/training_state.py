"""What a checkpoint holds, and how a fresh process takes it up again.

    adapter_model.safetensors, adapter_config.json   adaptation=lora: the policy's adapter, as plain peft loads it
    actor.safetensors                                adaptation=full: every parameter of the policy
    critic.safetensors                               ppo: every parameter of the critic
    actor-optimizer.safetensors, critic-...          the state of their optimizers
    random.safetensors                               the generators of the CPU and of every device
    state.json                                       step, next step, settings_id, seed, size of the KV pool

Not in it, because the seed gives them again: the frozen base, reference, teacher. A rollout copy is written anew from
the policy. Prompts depend on their number alone, so the next step is the data cursor; Python's and numpy's generators
are not used. The pool's size is kept because it follows from what was reserved when it was first made.

After restoring, a run with deterministic=true repeats the uninterrupted one byte for byte. One exception: with
decode_coverage=edges and a resident pool, positions that were skipped show what an earlier rollout left there.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from ...errors import EvidenceError
from ...schema.settings import Settings
from . import checkpoint
from . import device as device_ops
from .models import LanguageModel
from .tensor_file import read_tensors, write_tensors
from .updates import Updater

STATE, RANDOM = "state.json", "random.safetensors"
ADAPTER, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"


class TrainingState:
    """The state of one run: what its updaters train, by name ('actor', 'critic'), and its engine's pool."""

    def __init__(self, s: Settings, seed: int, device: torch.device, updaters: Mapping[str, Updater], engine):
        self.s, self.seed, self.device, self.updaters, self.engine = s, seed, device, updaters, engine

    def save(self, root: Path | None, step: int) -> int:
        """Write the checkpoint of `step` below `root`; the bytes of its files.

        Nothing moves between device and host but the copies, one tensor at a time. With `root` None, as in a
        simulation, they are made and written nowhere.
        """
        if root is None:
            tensors = [t for u in self.updaters.values() for t in (*trained(u.model).values(), *_split(u)[0].values())]
            return sum(device_ops.host_copy(t).nbytes for t in tensors)
        files: dict[str, Callable[[checkpoint.NewFile], None]] = {}
        numbers = {}
        for name, updater in self.updaters.items():
            if updater.model.adapter is None:
                files[f"{name}.safetensors"] = _tensor_writer(trained(updater.model))
            else:
                files |= _adapter_files(updater.model)
            tensors, numbers[name] = _split(updater)
            files[f"{name}-optimizer.safetensors"] = _tensor_writer(tensors)
        files[RANDOM] = _tensor_writer(device_ops.random_states())
        state = {
            "step": step,
            "next_step": step + 1,
            "settings_id": self.s.settings_id,
            "seed": self.seed,
            "pool_tokens": self.engine.pool_tokens,
            "optimizer_numbers": numbers,
        }
        files[STATE] = lambda file: file.write((json.dumps(state, indent=1, sort_keys=True) + "\n").encode())
        return checkpoint.save(root, step, files)

    def restore(self, folder: Path) -> int:
        """Take up the checkpoint in `folder`; the step it was made after. Everything must be freshly built.

        Raises EvidenceError for a checkpoint of another seed or other settings (steps and capacity may differ).
        """
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        wanted = {"settings_id": self.s.settings_id, "seed": self.seed}
        found = {key: state[key] for key in wanted}
        if found != wanted:
            raise EvidenceError(f"checkpoint {folder.name}", found=str(found), expected=str(wanted),
                                hint="run without --resume, which starts anew")  # fmt: skip
        for name, updater in self.updaters.items():
            file = ADAPTER if updater.model.adapter is not None else f"{name}.safetensors"
            _fill(updater.model, folder / file)
            updater.restore(read_tensors(folder / f"{name}-optimizer.safetensors"),
                            is_away=self.s.optimizer_offload)  # fmt: skip
            updater.restore(state["optimizer_numbers"][name].items(), is_away=False)
        self.engine.pool_tokens = state["pool_tokens"]
        device_ops.set_random_states(dict(read_tensors(folder / RANDOM)))  # last: nothing may draw after it
        return state["step"]


def export_adapter(model: LanguageModel, folder: Path) -> int:
    """Write the policy's adapter so that `peft.PeftModel.from_pretrained(base, folder)` loads it; its bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [checkpoint.write_file(folder / name, write) for name, write in _adapter_files(model).items()]
    return sum(entry["bytes"] for entry in written)


def trained(model: LanguageModel) -> dict[str, torch.Tensor]:
    """Trainable parameters by name, where they live; an adapter's under the names that peft gives them in a file."""
    return {_file_name(model, n): p.data for n, p in model.causal.named_parameters() if p.requires_grad}


def _file_name(model: LanguageModel, name: str) -> str:
    return name if model.adapter is None else "base_model.model." + name.replace(".default.", ".")


def _fill(model: LanguageModel, path: Path) -> None:
    parameters = {_file_name(model, n): p for n, p in model.causal.named_parameters() if p.requires_grad}
    for name, tensor in read_tensors(path):
        parameters.pop(name).data.copy_(tensor)
    if parameters:
        raise EvidenceError(f"checkpoint file {path.name}", found="no " + ", ".join(parameters))


def _adapter_files(model: LanguageModel) -> dict[str, Callable[[checkpoint.NewFile], None]]:
    config = model.adapter.peft_config["default"].to_dict() | {"inference_mode": True}
    # Sets come in any order; a file of equal settings is to have equal bytes.
    plain = {key: sorted(value) if isinstance(value, set) else value for key, value in config.items()}
    text = json.dumps(plain, indent=2, sort_keys=True) + "\n"
    return {ADAPTER: _tensor_writer(trained(model)), ADAPTER_CONFIG: lambda file: file.write(text.encode())}


def _tensor_writer(tensors: Mapping[str, torch.Tensor]) -> Callable[[checkpoint.NewFile], None]:
    return lambda file: write_tensors(file, tensors)


def _split(updater: Updater) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """(tensors, plain numbers) of an optimizer's state; which of the two a step count is depends on the optimizer."""
    state = updater.state()
    tensors = {name: value for name, value in state.items() if torch.is_tensor(value)}
    return tensors, {name: value for name, value in state.items() if name not in tensors}
