"""Where segments go under a placement."""

import json
from dataclasses import asdict

import pytest
from fitproof.errors import CheckFailed
from fitproof.simulate.blocks import MIB
from fitproof.simulate.placement import ASCENDING, DESCENDING, H200, DriverEvent, Placement, RecordedPlacement


def placed(placement: Placement, *sizes_mib: int) -> list[int]:
    """MiB from the edge of the open address space."""
    space = placement.start()
    return [space.place(size * MIB) // MIB - 2**46 // MIB for size in sizes_mib]


def test_ascending_puts_one_segment_behind_the_other():
    assert placed(ASCENDING, 20, 2, 446) == [0, 20, 22]


def test_descending_goes_down_in_chunks_of_32_mib_and_fills_their_rests():
    assert placed(DESCENDING, 28, 20, 2, 594, 2, 12, 16) == [-32, -64, -44, -672, -78, -76, -704]


def test_the_lowest_hole_with_room_is_taken():
    placement = Placement(name="x", direction="down", holes=((100 * MIB, 4 * MIB), (50 * MIB, 8 * MIB)))
    assert placed(placement, 6, 2, 2, 2) == [50, 56, 100, 102]


def test_gaps_take_new_chunks_first_the_highest_before_the_others():
    placement = Placement(name="x", direction="down", gaps=((500 * MIB, 64 * MIB), (900 * MIB, 32 * MIB)))
    assert placed(placement, 30, 30, 30, 40) == [900, 532, 500, -64]


def test_the_driver_takes_and_gives_back_memory_between_segments():
    placement = Placement(
        name="x",
        direction="down",
        driver_events=(
            DriverEvent(after_segments=1, nbytes=2 * MIB),
            DriverEvent(after_segments=2, nbytes=40 * MIB, offset=200 * MIB),
        ),
    )
    assert placed(placement, 28, 2, 36, 4) == [-32, -2, 200, 236]


def test_released_segments_join_into_one_hole():
    space = ASCENDING.start()
    first, second, third, _ = (space.place(20 * MIB) for _ in range(4))
    for address in (first, third, second):
        space.release(address, 20 * MIB)
    assert space.place(60 * MIB) == first


def test_a_placement_survives_json():
    assert Placement.from_json(json.loads(json.dumps(asdict(H200)))) == H200


def test_recorded_addresses_are_given_only_to_the_recorded_sizes():
    space = RecordedPlacement(name="recorded", segments=((7 * MIB, 2 * MIB), (MIB, 20 * MIB))).start()
    assert space.place(2 * MIB) == 7 * MIB
    with pytest.raises(CheckFailed, match="segment 1 of the replay"):
        space.place(2 * MIB)
    assert space.place(20 * MIB) == MIB
    with pytest.raises(CheckFailed, match="no more segments"):
        space.place(2 * MIB)
