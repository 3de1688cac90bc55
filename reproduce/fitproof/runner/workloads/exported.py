"""The exported adapter, loaded by plain peft on a plain transformers model, in a process of its own.

<folder>/base.json                                   {"model_id": ..., "dtype": ...}
<folder>/adapter_model.safetensors, adapter_config.json
"""

import json
import shutil
from pathlib import Path

from ...schema.settings import Settings
from ..spawn import Spawner

FILES = ("adapter_model.safetensors", "adapter_config.json")
BASE = "base.json"
LOADER = f"{__name__}:main"
_LOAD_SECONDS = 120


def export(checkpoint: Path, folder: Path, settings: Settings) -> int:
    """Copy the adapter of a checkpoint into a folder that `peft.PeftModel.from_pretrained` takes; its bytes."""
    folder.mkdir(parents=True)
    for name in FILES:
        shutil.copyfile(checkpoint / name, folder / name)
    base = {"model_id": settings.model_id, "dtype": settings.dtype}
    (folder / BASE).write_text(json.dumps(base) + "\n", encoding="utf-8")
    return sum((folder / name).stat().st_size for name in FILES)


def load_problem(folder: Path, spawner: Spawner) -> str | None:
    """Why plain peft does not load the adapter in `folder`, or None. Logs of the process stay there."""
    ended = spawner.run(
        folder, time_limit_seconds=_LOAD_SECONDS, on_start=lambda pid: None, stop=lambda: False, target=LOADER
    )
    if ended.exit_code == 0:
        return None
    lines = (folder / "stderr.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {ended.exit_code}, signal {ended.signal}"


def main(folder: Path) -> int:
    """Load the adapter and compare every tensor with the file. Raises where peft does, and for a tensor that differs.

    The base is never read, so it has no values: a plain model on the CPU whose pages are not even touched.
    """
    import torch
    from peft import PeftModel, get_peft_model_state_dict
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    from ...schema.models import get_model
    from ..bnb import hidden

    base = json.loads((folder / BASE).read_text(encoding="utf-8"))
    model = get_model(base["model_id"])
    with no_init_weights(), torch.device("meta"):
        plain = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(model.model_type, **model.config), dtype=getattr(torch, base["dtype"])
        )
    # Without a device named, peft reads the file onto the GPU; bitsandbytes asks for one. Neither is needed here.
    with hidden():
        adapted = PeftModel.from_pretrained(plain.to_empty(device="cpu"), str(folder), torch_device="cpu")
    loaded = get_peft_model_state_dict(adapted)
    wanted = load_file(folder / FILES[0])
    if loaded.keys() != wanted.keys():
        raise ValueError(f"peft holds other tensors than the file: {sorted(loaded.keys() ^ wanted.keys())[:3]}")
    # peft keeps adapters in float32 whatever the file's type: both sides are taken there, which loses nothing.
    wrong = [name for name, tensor in wanted.items() if not torch.equal(loaded[name].float(), tensor.float())]
    if wrong:
        raise ValueError(f"peft holds other values than the file in {len(wrong)} tensors, first {wrong[0]}")
    return 0
