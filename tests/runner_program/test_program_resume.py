"""An interrupted run that a fresh process takes up equals the uninterrupted one, byte for byte."""

import itertools
import json
import multiprocessing
import os
import random
from pathlib import Path

import pytest
import torch
from fitproof.errors import EvidenceError
from fitproof.runner import child
from fitproof.runner.files import checkpoint_folder
from fitproof.runner.program import checkpoint, trial
from fitproof.runner.program.models import build_actor
from fitproof.runner.program.recorder import CpuMeter, Recorder
from fitproof.runner.program.training_state import export_adapter, trained
from peft import PeftModel, get_peft_model_state_dict
from program_cases import CPU, TINY, all_facts, events_of, facts, run_events, stages, tiny, write_trial
from safetensors.torch import load_file

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
ALL = dict(deterministic=True, checkpoint_every=2, total_training_steps=4)


def _main(attempt: str) -> None:
    random.seed(int.from_bytes(os.urandom(4)))  # none of these may matter
    torch.manual_seed(random.randrange(2**31))
    os._exit(child.main(Path(attempt)))


def attempt(run: Path, number: int, **given: object) -> list[dict]:
    """Events of one attempt in a process of its own, in the layout of a run directory."""
    folder = write_trial(run / "hand" / ("0" * 16) / f"attempt-{number}", **given)
    process = multiprocessing.get_context("fork").Process(target=_main, args=(str(folder),))
    process.start()
    process.join(120)
    assert process.exitcode == 0, (folder / "events.jsonl").read_text()[-2000:]
    return events_of(folder)


def final_files(run: Path) -> dict[str, bytes]:
    found = checkpoint.latest(checkpoint_folder(run / "hand" / ("0" * 16) / "attempt-1"))
    assert checkpoint.step_of(found) == 4
    return {path.name: path.read_bytes() for path in found.iterdir()}


CASES = [
    dict(algorithm=algorithm, adaptation=adaptation, engine=engine)
    for algorithm, adaptation, engine in itertools.product(
        ("grpo", "ppo", "opd"), ("lora", "full"), ("cuda_graph", "hf_generate", "hf_paged")
    )
]
CASES += [
    dict(parameter_offload=True, optimizer_offload=True, free_cache_engine=False),
    dict(algorithm="ppo", adaptation="full", parameter_offload=True, optimizer_offload=True),
    dict(rollout_weights="copy", parameter_offload=True, dtype="bfloat16", adapter_dtype="bfloat16"),
    dict(engine="hf_paged", kv_reservation="0.5", capacity_mib=256, capacity_source="device", free_cache_engine=False),
    dict(quantization="nf4"),
    dict(quantization="nf4", algorithm="opd", engine="hf_generate", optimizer="adamw_8bit", dtype="bfloat16"),
    dict(quantization="nf4", algorithm="ppo", optimizer="adamw_8bit", rollout_weights="copy", parameter_offload=True),
    dict(adaptation="full", optimizer="adamw_8bit", optimizer_offload=True),
    # On a CPU the pool follows from the process's own memory: the second process would make another.
    dict(kv_reservation="0.5", capacity_mib=256, capacity_source="device", max_num_seqs=6),
]


@pytest.mark.parametrize("given", CASES, ids=lambda given: "-".join(map(str, given.values())))
def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path, given):
    given = ALL | given
    if given.get("algorithm") == "opd":
        given |= dict(teacher=TINY[0])
    through = attempt(tmp_path / "through", 1, **given)
    first = attempt(tmp_path / "cut", 1, **given | dict(total_training_steps=2))
    second = attempt(tmp_path / "cut", 2, **given)

    assert "resumed_from_step" not in facts(first)
    assert facts(second)["resumed_from_step"] == 2
    assert [s for s in stages(through) if s[1] > 2] == [s for s in stages(second) if s[1]]
    assert [s for s in stages(through) if s[0] == "checkpoint"] == [("checkpoint", 2), ("checkpoint", 4)]
    trajectories = all_facts(through, "rollout_sha256")
    assert len(set(trajectories)) == 4
    assert all_facts(first, "rollout_sha256") + all_facts(second, "rollout_sha256") == trajectories

    one, other = final_files(tmp_path / "through"), final_files(tmp_path / "cut")
    if "kv_reservation" in given:  # the size of the pool is of the process that made it
        for files in (one, other):
            assert json.loads(files.pop("state.json"))["pool_tokens"] > 0
            del files["manifest.json"]
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []
    expected = {"actor-optimizer.safetensors", "random.safetensors"}
    lora = given.get("adaptation", "lora") == "lora"
    expected |= {"adapter_model.safetensors", "adapter_config.json"} if lora else {"actor.safetensors"}
    if given.get("algorithm") == "ppo":
        expected |= {"critic.safetensors", "critic-optimizer.safetensors"}
    assert set(one) - {"state.json", "manifest.json"} == expected


def test_the_pool_keeps_its_size(tmp_path):
    given = ALL | CASES[-1]
    first = attempt(tmp_path, 1, **given | dict(total_training_steps=2))
    second = attempt(tmp_path, 2, **given)
    assert facts(first)["kv_pool_bytes"] == facts(second)["kv_pool_bytes"]


def test_a_checkpoint_of_the_last_step_leaves_nothing_to_do(tmp_path):
    s = tiny(checkpoint_every=1, total_training_steps=1)
    for _ in range(2):
        out = (tmp_path / "events").open("w+")
        trial.run(s, seed=1, device=CPU, recorder=Recorder(out, CpuMeter()), checkpoints=tmp_path / "c")
        out.seek(0)
        events = [json.loads(line) for line in out]
        out.close()
    assert facts(events)["resumed_from_step"] == 1
    assert stages(events) == [("initializing", 0)]
    assert events[-1]["completed_steps"] == 1


@pytest.mark.parametrize("other", [dict(seed=2), dict(logits_chunk=7)])
def test_a_checkpoint_of_another_trial_is_refused(tmp_path, other):
    def run(seed: int = 1, **given):
        s = tiny(checkpoint_every=1, total_training_steps=1, **given)
        trial.run(s, seed=seed, device=CPU, recorder=Recorder(None, CpuMeter()), checkpoints=tmp_path)

    run()
    with pytest.raises(EvidenceError, match="checkpoint step-00000001"):
        run(**other)


def test_optimizer_state_that_waits_on_the_host_is_restored_there(tmp_path, monkeypatch):
    from fitproof.runner.program.recipes.grpo import Grpo

    s = tiny(checkpoint_every=1, total_training_steps=1, optimizer_offload=True)
    trial.run(s, seed=1, device=CPU, recorder=Recorder(None, CpuMeter()), checkpoints=tmp_path)
    recipe = Grpo(s, seed=1, device=CPU, recorder=Recorder(None, CpuMeter()), checkpoints=tmp_path)
    hosts = recipe.updater._hosts
    assert len(hosts) == 2 * len(recipe.actor.trainable())
    assert all(recipe.updater.optimizer.state[p][name] is host for (p, name), host in hosts.items())


def test_without_a_folder_checkpoints_take_their_stage_and_write_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    events = run_events(tiny(checkpoint_every=1, total_training_steps=1))
    assert stages(events)[-1] == ("checkpoint", 1)
    assert facts(events)["checkpoint_bytes"] > 3 * facts(events)["adapter_bytes"]
    assert list(tmp_path.iterdir()) == []


def test_digests_of_trajectories_are_for_deterministic_runs():
    assert all_facts(run_events(tiny(total_training_steps=1)), "rollout_sha256") == []


def test_no_step_draws_from_pythons_generator():
    """It is in no checkpoint."""
    before = random.getstate()
    for engine in ("hf_generate", "cuda_graph"):
        run_events(tiny(engine=engine, total_training_steps=1))
    assert random.getstate() == before


def outputs(causal: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return causal.eval()(input_ids=torch.arange(3, 40)[None]).logits


@pytest.mark.parametrize("dtypes", [("float32", "float32"), ("bfloat16", "float32"), ("bfloat16", "bfloat16")])
@pytest.mark.parametrize("model", TINY)
def test_an_exported_adapter_loads_in_plain_peft(tmp_path, model, dtypes):
    s = tiny(model=model, dtype=dtypes[0], adapter_dtype=dtypes[1])
    actor = build_actor(s, 1, CPU)
    total = export_adapter(actor, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    assert total == sum(p.stat().st_size for p in tmp_path.iterdir())

    base = build_actor(tiny(model=model, dtype=dtypes[0], adaptation="full"), 1, CPU).causal
    plain = outputs(base)
    loaded = PeftModel.from_pretrained(base, tmp_path, autocast_adapter_dtype=dtypes[1] == "float32")
    expected = outputs(actor.causal)
    assert torch.equal(outputs(loaded), expected)
    assert not torch.equal(plain, expected)
    its = get_peft_model_state_dict(actor.adapter, save_embedding_layers=False)
    assert its.keys() == trained(actor).keys()


def test_a_checkpoint_is_an_exported_adapter(tmp_path):
    s = tiny(checkpoint_every=2, algorithm="opd", teacher=TINY[0])
    trial.run(s, seed=1, device=CPU, recorder=Recorder(None, CpuMeter()), checkpoints=tmp_path)
    folder = checkpoint.latest(tmp_path)
    base = build_actor(tiny(adaptation="full"), 1, CPU).causal
    loaded = get_peft_model_state_dict(PeftModel.from_pretrained(base, folder), save_embedding_layers=False)
    written = load_file(folder / "adapter_model.safetensors")
    assert loaded.keys() == written.keys()
    assert all(torch.equal(loaded[name], written[name]) for name in written)
