"""The ballast over a fake driver library: what it asks of the driver, call by call, and where it stops."""

import random
from types import SimpleNamespace

import pytest
from fake_card import CONTEXT, MIB, UUID, FakeCard, store
from fitproof.errors import EnvironmentLacks
from fitproof.runner import driver as driver_module
from fitproof.runner.ballast import GRANULARITY, Ballast, probe
from fitproof.runner.driver import Driver, DriverError


def ballast_on(card: FakeCard) -> Ballast:
    driver = Driver(card.library)
    driver.make_context()
    return Ballast(driver, CONTEXT)


def test_addresses_and_sizes_are_64_bit():
    card = FakeCard(total=2**40)
    driver = Driver(card.library)
    assert driver.memory() == (2**40, 2**40)
    address = driver.allocate(2**37)
    assert address > 2**32
    assert card.free == 2**40 - 2**37
    driver.release(address)
    assert card.free == 2**40


@pytest.mark.parametrize("page_table_every", [0, 1, 3])
@pytest.mark.parametrize("capacity", [8192 * MIB, 12_345 * MIB, 8192 * MIB + 1, 300 * MIB, 5 * MIB])
def test_it_leaves_the_wanted_capacity_and_never_more(capacity, page_table_every):
    card = FakeCard(page_table_every=page_table_every)
    reply = ballast_on(card).hold(capacity)
    assert reply["free"] == card.free
    assert capacity - 2 * GRANULARITY < card.free <= capacity
    assert reply["total"] == card.total
    if not page_table_every:
        assert capacity - card.free < GRANULARITY
        assert reply["held"] == card.used


def test_it_follows_from_capacity_to_capacity():
    card = FakeCard(used=700 * MIB)
    ballast, choose = ballast_on(card), random.Random(3)
    for _ in range(60):
        capacity = choose.randrange(GRANULARITY, 14_000 * MIB)
        assert capacity - GRANULARITY < ballast.hold(capacity)["free"] <= capacity
    assert ballast.hold(2048 * MIB) == ballast.hold(2048 * MIB)


def test_fragmented_memory_is_taken_in_smaller_pieces():
    card = FakeCard(largest=64 * MIB)
    assert ballast_on(card).hold(4096 * MIB)["free"] == 4096 * MIB
    assert max(card.allocations.values()) <= 64 * MIB


def test_more_than_the_card_has_is_refused():
    card = FakeCard()
    ballast = ballast_on(card)
    ballast.hold(1024 * MIB)
    with pytest.raises(ValueError, match="free without ballast"):
        ballast.hold(card.total)
    assert card.allocations == {}


def test_the_probe_tells_runtime_and_monitor_apart():
    card = FakeCard(used=100 * MIB)
    monitor = SimpleNamespace(free=lambda: card.free - 615 * MIB)
    found = probe(Driver(card.library), monitor)
    assert found == {
        "name": "Fake H200",
        "uuid": str(UUID),
        "cuda": "13.0",
        "total": card.total,
        "free": card.total - 100 * MIB,  # before the probe's own context
        "runtime_minus_monitor": 615 * MIB,
        "context": CONTEXT,
    }


def test_errors_carry_the_drivers_words():
    card = FakeCard()
    card.answer(
        cuInit=lambda flags: 100,
        cuGetErrorName=lambda code, out: store(out, b"CUDA_ERROR_NO_DEVICE"),
        cuGetErrorString=lambda code, out: store(out, b"no CUDA-capable device is detected"),
    )
    with pytest.raises(DriverError, match="cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"):
        Driver(card.library)
    card.answer(cuGetErrorName=lambda code, out: 1, cuGetErrorString=lambda code, out: 1)
    with pytest.raises(DriverError, match="cuInit: error 100"):
        Driver(card.library)


def test_a_machine_without_driver_is_told_so(monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(driver_module.ctypes, "CDLL", missing)
    with pytest.raises(EnvironmentLacks, match=r"libcuda\.so\.1"):
        Driver()


def test_managed_memory_is_never_asked_for():
    assert not any("Managed" in name for name in driver_module._SIGNATURES)
