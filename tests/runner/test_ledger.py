"""The ledger survives torn writes and refuses company."""

import json

import pytest
from fitproof.errors import EvidenceError, UsageError
from fitproof.runner.ledger import Ledger, parse_ledger, read_ledger


def line(event: str, attempt: int = 1, status: str | None = None) -> dict:
    return {"event": event, "slot_id": "0" * 16, "attempt": attempt, "at": "2026-12-01T10:00:00.000000Z",
            "allocation_id": "a", "campaign": "first", "status": status, "failure_class": None}  # fmt: skip


def test_lines_are_read_back_in_order(tmp_path):
    path = tmp_path / "panel" / "ledger.jsonl"
    with Ledger(path) as ledger:
        ledger.append(line("start"))
        ledger.append(line("end", status="completed"))
        assert ledger.records == read_ledger(path)
    assert read_ledger(path) == [line("start"), line("end", status="completed")]
    assert read_ledger(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize("torn", [b"{", b'{"event": "end"', json.dumps(line("end")).encode()])
def test_a_torn_last_line_is_dropped_and_cut_before_the_next(tmp_path, torn):
    path = tmp_path / "ledger.jsonl"
    whole = json.dumps(line("start")).encode() + b"\n"
    path.write_bytes(whole + torn)
    assert read_ledger(path) == [line("start")]
    with Ledger(path) as ledger:
        assert path.read_bytes() == whole
        ledger.append(line("end", status="completed"))
    assert read_ledger(path) == [line("start"), line("end", status="completed")]


@pytest.mark.parametrize("bad", [b"{\n", b"[]\n", b"[" * 100_000 + b"\n", b'{"event": "start"}\n', b"\n"])
def test_a_whole_line_that_is_no_record_is_evidence_gone_bad(bad, tmp_path):
    with pytest.raises(EvidenceError, match="here line 1"):
        parse_ledger(bad, where="here")
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(bad)
    with pytest.raises(EvidenceError):
        Ledger(path)
    assert path.read_bytes() == bad
    path.write_bytes(b"")
    Ledger(path).close()  # the refused opening kept no lock


def test_a_second_ledger_on_the_same_file_is_refused(tmp_path):
    path = tmp_path / "ledger.jsonl"
    with Ledger(path), pytest.raises(UsageError, match="another supervisor"):
        Ledger(path)
    Ledger(path).close()


def test_a_record_that_breaks_the_layout_is_not_written(tmp_path):
    with Ledger(tmp_path / "ledger.jsonl") as ledger, pytest.raises(ValueError, match="missing field at"):
        ledger.append({k: v for k, v in line("start").items() if k != "at"})
    assert (tmp_path / "ledger.jsonl").read_bytes() == b""
