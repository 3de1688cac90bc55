"""Tables and JSON on stdout."""

import json

from fitproof.cli.output import emit_rows, text_table

ROWS = [{"name": "trials", "rows": 1234, "ok": True}, {"name": "attempts with\nbreaks", "rows": None, "ok": False}]


def test_a_table_aligns_numbers_right_and_says_null_as_a_dash():
    assert text_table(["name", "rows", "ok"], [[r["name"], r["rows"], r["ok"]] for r in ROWS]).splitlines() == [
        "name                   rows  ok",
        "trials                1,234  yes",
        "attempts with breaks      -  no",
    ]


def test_rows_come_as_a_table_or_as_json(capsys):
    emit_rows(ROWS, as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS
    emit_rows(ROWS, as_json=False, columns=("rows", "name"))
    assert capsys.readouterr().out.splitlines()[0].split() == ["rows", "name"]


def test_no_rows_are_an_empty_table_and_an_empty_list(capsys):
    emit_rows([], as_json=False)
    assert capsys.readouterr().out == ""
    emit_rows([], as_json=True)
    assert json.loads(capsys.readouterr().out) == []


def test_json_is_ascii_only(capsys):
    emit_rows([{"name": "Ω"}], as_json=True)
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == [{"name": "Ω"}]
