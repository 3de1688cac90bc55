"""Our canonical header is tarfile's, so that any tar program reads our archives."""

import pytest
from evidence_craft import member
from fitproof.evidence import tarformat

NAMES = [
    "a",
    "grpo/0123456789abcdef/attempt-1/stdout.log",
    "n" * 100,
    "n" * 101,
    "d/" * 60 + "f",
    "predictions/größe.json",
    "予測/" + "é" * 90,
    "𝛼/β",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 70_000])
def test_header_is_the_one_of_tarfile(name: str, size: int) -> None:
    data = b"x" * size
    whole = member(name, data)
    assert tarformat.header(name, size) + data + bytes(tarformat.padding(size)) == whole
    assert tarformat.stored_bytes(name, size) == len(whole)


@pytest.mark.parametrize("name_bytes", [87, 88, 89, 90, 91, 92, 93, 94, 95, 985, 986, 987, 988, 989, 990, 991])
def test_pax_record_counts_its_own_digits(name_bytes: int) -> None:
    record = tarformat.pax_record("n" * name_bytes)
    assert int(record.split(b" ", 1)[0]) == len(record)


@pytest.mark.parametrize("written", [0, 512, 8704, 9216, 9728, 10240])
def test_the_end_fills_a_record_with_at_least_two_blocks(written: int) -> None:
    zeros = tarformat.end_bytes(written)
    assert zeros >= 1024
    assert zeros < 1024 + 10240
    assert (written + zeros) % 10240 == 0
