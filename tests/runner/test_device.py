"""The device between trials: capacity facts as the contract defines them, and no trial on a device in use."""

import json
import sys
from types import SimpleNamespace

import fake_child
import pytest
from fake_card import CONTEXT, MIB, FakeCard
from fake_panels import TARGET, fake_panel
from fitproof.errors import CheckFailed, EnvironmentLacks, UsageError
from fitproof.runner import device as device_module
from fitproof.runner import supervisor
from fitproof.runner.ballast import Ballast, probe
from fitproof.runner.companion import CompanionLost
from fitproof.runner.device import CudaDevice, RocmDevice
from fitproof.runner.driver import Driver
from fitproof.runner.plan import Panel, Slot, freeze
from fitproof.schema.settings import resolve

RESERVED = 615 * MIB
WHOLE = resolve(model_id="Qwen3-0.6B")
EIGHT = resolve(model_id="Qwen3-0.6B", capacity=8192)
TWELVE = resolve(model_id="Qwen3-0.6B", capacity=12288)


class FakeMonitor:
    """Sees the card as NVML does: the firmware's share counts as neither used nor free."""

    device_index = 0

    def __init__(self, card: FakeCard):
        self.card = card

    def read(self, pid):
        return self.card.used, None

    def free(self):
        return self.card.free - RESERVED


class FakeBallastProcess:
    """The ballast's companion, run in place: closing it gives its memory and context back."""

    def __init__(self, card: FakeCard):
        driver = Driver(card.library)
        driver.make_context()
        self.card, self.ballast = card, Ballast(driver, CONTEXT)

    def receive(self, timeout_seconds):
        return {"ready": True}

    def ask(self, request, *, timeout_seconds):
        try:
            return self.ballast.hold(request["hold"])
        except ValueError as error:
            raise CompanionLost(str(error)) from None

    def close(self):
        for address in list(self.card.allocations):
            self.card._free(address)
        self.card.used -= CONTEXT


@pytest.fixture
def card(monkeypatch):
    card = FakeCard(total=16_384 * MIB, used=100 * MIB)

    def probed():
        facts = probe(Driver(card.library), FakeMonitor(card))
        card.used -= CONTEXT  # the probe's process has ended
        return facts

    monkeypatch.setattr(device_module, "_probe", probed)
    monkeypatch.setattr(device_module, "open_monitor", lambda kind, uuid: FakeMonitor(card))
    monkeypatch.setattr(device_module, "Companion", lambda module: FakeBallastProcess(card))
    monkeypatch.setattr(device_module, "CLEAN_PATIENCE_SECONDS", 0.05)
    return card


def test_the_whole_card_is_what_the_runtime_would_call_free(card):
    capacity = CudaDevice().prepare(WHOLE)
    assert (capacity.capacity_mib, capacity.capacity_source) == (16_384, "device")
    assert capacity.effective_capacity_bytes == card.free  # with no context held
    assert capacity.monitor_free_bytes == card.free - RESERVED
    assert (capacity.baseline_used_bytes, capacity.ballast_bytes) == (100 * MIB, 0)
    assert card.allocations == {}


def test_an_emulated_capacity_counts_the_ballasts_context_as_ballast(card):
    device = CudaDevice()
    for settings, mib in ((EIGHT, 8192), (TWELVE, 12_288), (EIGHT, 8192)):
        capacity = device.prepare(settings)
        assert (capacity.capacity_mib, capacity.capacity_source) == (mib, "emulated")
        assert capacity.effective_capacity_bytes == card.free == mib * MIB
        assert capacity.baseline_used_bytes == card.used
        assert capacity.ballast_bytes == card.used - 100 * MIB
    assert device.prepare(WHOLE).effective_capacity_bytes == 16_284 * MIB  # the ballast has left
    device.prepare(EIGHT)
    device.close()
    assert card.used == 100 * MIB


def test_a_trial_that_stays_on_the_device_stops_the_panel(card):
    device = CudaDevice()
    device.prepare(EIGHT)
    card.used += 300 * MIB
    assert not device.wait_until_clean()
    with pytest.raises(CheckFailed, match="in use with no trial running"):
        device.prepare(EIGHT)
    card.used -= 290 * MIB  # a desktop's own changes are no trial
    assert device.wait_until_clean()
    assert device.prepare(EIGHT).effective_capacity_bytes == 8192 * MIB


def test_a_capacity_beyond_the_card_is_refused(card):
    device = CudaDevice()
    with pytest.raises(CheckFailed, match="free without ballast"):
        device.prepare(resolve(model_id="Qwen3-0.6B", capacity=20_000))
    assert card.used == 100 * MIB
    assert device.prepare(EIGHT).effective_capacity_bytes == 8192 * MIB


def test_amd_devices_have_no_ballast(monkeypatch):
    monitor = SimpleNamespace(
        name=lambda: "AMD", read=lambda pid: (MIB, None), free=lambda: 5 * MIB, total=lambda: 6 * MIB
    )
    monkeypatch.setattr(device_module, "open_monitor", lambda kind: monitor)
    assert RocmDevice().prepare(WHOLE).effective_capacity_bytes == 5 * MIB
    with pytest.raises(EnvironmentLacks, match="ballast"):
        RocmDevice().prepare(EIGHT)


def test_trial_records_carry_the_capacity_facts(card, run_fake, tmp_path):
    panel = fake_panel(fake_child.COMPLETES)
    slots = tuple(Slot(settings=s, seed=fake_child.COMPLETES, estimate_seconds=1) for s in (EIGHT, WHOLE))
    plan = freeze(Panel(name="cards", reason=panel.reason, device_kind="cuda", slots=slots))
    summary = supervisor.run_panel(plan, tmp_path, target=TARGET, preload=(), sampler=False)
    assert summary.statuses == {"completed": 2}
    trials = [json.loads(p.read_text()) for p in summary.folder.glob("*/*/trial.json")]
    facts = {t["capacity_source"]: (t["device"], t["capacity_mib"], t["effective_capacity_bytes"]) for t in trials}
    assert facts == {
        "emulated": ("Fake H200", 8192, 8192 * MIB),
        "device": ("Fake H200", 16_384, 16_284 * MIB),
    }


def test_unsafe_requests_stop_before_the_first_trial(card, run_fake, tmp_path):
    paged = resolve(model_id="Qwen3-8B", adaptation="full", optimizer="paged_adamw_8bit")
    slots = tuple(Slot(settings=s, seed=0, estimate_seconds=1) for s in (EIGHT, paged))
    plan = freeze(Panel(name="unsafe", reason="a test", device_kind="cuda", slots=slots))
    with pytest.raises(EnvironmentLacks, match="a quarter"):
        supervisor.run_panel(plan, tmp_path, target=TARGET, preload=(), sampler=False)
    assert (tmp_path / "unsafe" / "ledger.jsonl").read_bytes() == b""


def test_a_plan_for_an_engine_that_is_not_installed_stops_before_the_first_trial(run_fake, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    vllm = resolve(engine="vllm", kv_reservation="0.5")
    plan = freeze(
        Panel(name="p", reason="r", device_kind="cpu", slots=(Slot(settings=vllm, seed=0, estimate_seconds=1),))
    )
    with pytest.raises(EnvironmentLacks, match=r"pip install 'vllm>=0\.33'"):
        supervisor.run_panel(plan, tmp_path, target=TARGET, preload=())
    assert (tmp_path / "p" / "ledger.jsonl").read_bytes() == b""


def test_capacities_on_a_cpu_are_refused(run_fake, tmp_path):
    plan = freeze(
        Panel(name="p", reason="r", device_kind="cpu", slots=(Slot(settings=EIGHT, seed=0, estimate_seconds=1),))
    )
    with pytest.raises(UsageError, match="emulated capacities on the CPU"):
        supervisor.run_panel(plan, tmp_path, target=TARGET, preload=())
