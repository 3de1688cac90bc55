"""8-bit Adam and its paged form: fewer bytes of state, the same stages, nothing shared is multiplied or moved."""

from types import SimpleNamespace

import pytest
import torch
from fitproof.errors import EnvironmentLacks, SettingsError
from fitproof.runner import bnb
from fitproof.runner.program import device as device_ops
from fitproof.runner.program.micro_batches import MicroBatches
from fitproof.runner.program.models import build_actor
from fitproof.runner.program.optimizers import LEARNING_RATE, own_state
from fitproof.runner.program.tensor_file import read_tensors, write_tensors
from fitproof.runner.program.updates import Updater
from program_cases import CPU, TINY, facts, run_events, stages, tiny


def updater(seed: int = 1, steps: int = 1, **given) -> Updater:
    s = tiny(adaptation="full", use_kl=False, **{"optimizer": "adamw_8bit", **given})
    made = Updater(build_actor(s, seed, CPU), s, CPU)
    for _ in range(steps):
        step(made)
    return made


def step(made: Updater) -> None:
    def loss_of(x: torch.Tensor) -> torch.Tensor:
        return sum(p.float().pow(2).sum() for p in made.model.trainable()) * (1 + x[0])

    made.update(MicroBatches(tiny(), CPU), "pass", loss_of, [torch.arange(4)], 2)


def held(made: Updater) -> list[torch.Tensor]:
    """The tensors of the whole state, each storage once."""
    tensors = [v for state in made.optimizer.state.values() for v in state.values() if torch.is_tensor(v)]
    return list({t.untyped_storage().data_ptr(): t for t in tensors}.values())


def test_state_bytes():
    full = sum(t.nbytes for t in held(updater(optimizer="adamw")) if t.ndim)
    made = updater()
    sizes = [p.numel() for p in made.model.trainable()]
    large, small = [n for n in sizes if n >= 4096], [n for n in sizes if n < 4096]
    assert large
    assert small
    blocks = sum(-(-n // 256) for n in large)
    assert full == 2 * 4 * sum(sizes)
    assert sum(t.nbytes for t in held(made)) == 2 * (sum(large) + 4 * blocks + 4 * sum(small)) + 2 * 256 * 4
    assert {t.dtype for t in held(made)} == {torch.uint8, torch.float32}


def test_a_step_is_adams_up_to_the_rounding_of_its_state():
    eight, exact = updater(steps=2), updater(steps=2, optimizer="adamw")
    start = updater(steps=0)
    for p, q, o in zip(*(u.model.trainable() for u in (eight, exact, start)), strict=True):
        assert (p - q).abs().mean() < 0.1 * LEARNING_RATE
        assert (q - o).abs().max() > 1.5 * LEARNING_RATE


@pytest.mark.parametrize("given", [dict(), dict(algorithm="ppo", adaptation="full"),
                                   dict(algorithm="opd", teacher=TINY[0], quantization="nf4")],
                         ids=["grpo", "ppo", "opd-nf4"])  # fmt: skip
def test_a_trial_has_the_stages_and_facts_of_one_with_adamw(given):
    eight, plain = (run_events(tiny(optimizer=o, **given)) for o in ("adamw_8bit", "adamw"))
    assert eight[-1]["event"] == "finished"
    assert stages(eight) == stages(plain)
    assert facts(eight).keys() == facts(plain).keys()


def test_the_shared_tables_stay_one_and_stay_where_they_are():
    made = updater()
    before = held(made)
    for _ in range(2):
        made.offload()
        away = [v for _, _, v in own_state(made.optimizer) if torch.is_tensor(v)]
        assert not {t.data_ptr() for t in away} & {t.data_ptr() for t in before}
        made.load()
        step(made)
    assert sum(t.nbytes for t in held(made)) == sum(t.nbytes for t in before)
    tables = {id(s[name]) for s in made.optimizer.state.values() for name in ("qmap1", "qmap2") if name in s}
    assert len(tables) == 2
    still = updater(steps=3)
    assert all(torch.equal(p, q) for p, q in zip(made.model.trainable(), still.model.trainable(), strict=True))


@pytest.mark.parametrize("is_away", [False, True])
def test_a_restored_state_is_as_large_and_goes_on_alike(tmp_path, is_away):
    made = updater(steps=2)
    state = made.state()
    tensors = {name: value for name, value in state.items() if torch.is_tensor(value)}
    assert not [name for name in state if "qmap" in name]
    with (tmp_path / "state").open("wb") as file:
        write_tensors(file, tensors)
    again = updater(steps=0)
    again.restore(read_tensors(tmp_path / "state"), is_away=is_away)
    again.restore(((n, v) for n, v in state.items() if n not in tensors), is_away=False)
    for p, q in zip(again.model.trainable(), made.model.trainable(), strict=True):
        p.data.copy_(q.data)
    if is_away:
        again.load()
    assert sum(t.nbytes for t in held(again)) == sum(t.nbytes for t in held(made))
    for u in (made, again):
        step(u)
    assert all(torch.equal(p, q) for p, q in zip(made.model.trainable(), again.model.trainable(), strict=True))
    one, other = made.state(), again.state()
    assert one.keys() == other.keys()
    assert all(torch.equal(one[n], other[n]) if torch.is_tensor(one[n]) else one[n] == other[n] for n in one)


def test_a_paged_optimizer_is_refused_where_nothing_is_paged():
    with pytest.raises(EnvironmentLacks, match="optimizer=paged_adamw_8bit") as caught:
        run_events(tiny(optimizer="paged_adamw_8bit"))
    assert "optimizer=adamw_8bit" in str(caught.value)


def test_every_trial_asks_whether_paging_is_safe(monkeypatch):
    monkeypatch.setattr(device_ops, "free_bytes", lambda device: 100_000)
    with pytest.raises(EnvironmentLacks, match="a quarter"):
        run_events(tiny(optimizer="paged_adamw_8bit"))
    assert run_events(tiny(optimizer="adamw_8bit", total_training_steps=1))[-1]["event"] == "finished"


@pytest.mark.parametrize("given", [dict(optimizer_offload=True), dict(capacity_mib=8192, capacity_source="emulated")])
def test_settings_that_contradict_paging(given):
    with pytest.raises(SettingsError, match="paged_adamw_8bit"):
        tiny(optimizer="paged_adamw_8bit", **given)


@pytest.fixture
def _paged(monkeypatch):
    """bitsandbytes' paged optimizer with ordinary memory for the managed memory that only a GPU has."""
    library = bnb.library("a test")

    class Paged(library.optim.PagedAdamW8bit):
        def get_state_buffer(self, p, dtype=torch.float32):
            buffer = torch.zeros_like(p, dtype=dtype)
            if p.numel() >= 4096:
                buffer.is_paged = True
            return buffer

        def prefetch_state(self, p):
            pass

    optim = SimpleNamespace(PagedAdamW8bit=Paged)
    monkeypatch.setattr(bnb, "library", lambda setting: SimpleNamespace(optim=optim))


def paged_updater(steps: int) -> Updater:
    s = tiny(adaptation="full", use_kl=False, optimizer="paged_adamw_8bit")
    made = Updater(build_actor(s, 1, CPU), s, torch.device("meta"))  # anything but a CPU
    made.device = CPU
    for _ in range(steps):
        step(made)
    return made


@pytest.mark.usefixtures("_paged")
def test_paged_state_is_not_moved_and_is_restored_into_managed_memory():
    made = paged_updater(steps=1)
    buffers = [v for _, _, v in own_state(made.optimizer) if getattr(v, "is_paged", False)]
    assert len(buffers) == 2 * sum(p.numel() >= 4096 for p in made.model.trainable())
    made.offload()
    assert all(v is b for v, b in zip((v for _, _, v in own_state(made.optimizer) if getattr(v, "is_paged", False)),
                                      buffers, strict=True))  # fmt: skip
    made.load()
    again = paged_updater(steps=0)
    again.restore(made.state().items(), is_away=False)
    restored = {f"{id(p)}/{n}": v for p, n, v in own_state(again.optimizer)}
    assert sum(getattr(v, "is_paged", False) for v in restored.values()) == len(buffers)
    for p, q in zip(again.model.trainable(), made.model.trainable(), strict=True):
        p.data.copy_(q.data)
    step(again)
    step(made)
    one, other = made.state(), again.state()
    assert all(torch.equal(one[n], other[n]) for n in one if torch.is_tensor(one[n]))
