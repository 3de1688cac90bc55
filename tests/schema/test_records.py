from fitproof.schema import records


def _good(spec):
    sample = {"str": "x", "int": 1, "bool": True, "object": {}, "list": [], "any": 1}
    return {f.name: sample[f.kind] for f in spec}


def test_a_good_record_has_no_problems_and_nulls_are_allowed_where_declared():
    for spec in (records.PLAN, records.SLOT, records.LEDGER, *records.FILES.values()):
        assert records.problems(_good(spec), spec, "r") == []
        nulls = {**_good(spec), **{f.name: None for f in spec if f.nullable}}
        assert records.problems(nulls, spec, "r") == []


def test_problems_are_collected():
    record = {**_good(records.RESULT), "completed_steps": True, "surprise": 1, "status": None, "wall_ns": 2**63}
    del record["ended_at"]
    assert records.problems(record, records.RESULT, "a/result.json") == [
        "a/result.json: missing field ended_at",
        "a/result.json: unknown field surprise",
        "a/result.json: status is null",
        "a/result.json: completed_steps is bool, expected int",
        "a/result.json: wall_ns does not fit 64 bits",
    ]
    assert records.problems([], records.RESULT, "a") == ["a: not a JSON object"]


def test_event_specs():
    assert {f.name for f in records.event_spec("finished")} == {"t_ns", "event", "completed_steps"}
    assert records.event_spec("party") is None
    assert records.event_spec(["x"]) is None
