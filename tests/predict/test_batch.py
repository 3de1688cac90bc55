"""Many predictions: spread over processes, shared between capacities, kept in the cache, each as if it were alone."""

from dataclasses import replace

import pytest
from fitproof.predict import batch, cache
from fitproof.predict.batch import predict_all
from fitproof.predict.prediction import predict


def untimed(answer):
    return answer if isinstance(answer, str) else replace(answer, seconds=0)


def test_processes_and_capacities_change_no_answer(tiny):
    asked = [tiny(), tiny(capacity_mib=700), tiny(actor_micro_batch=1), tiny(rollout_engine="hf_paged"), tiny()]
    found = predict_all(asked, workers=2, use_cache=False)
    assert list(found) == asked[:4]
    assert found[asked[3]] == "rollout_engine=hf_paged: an engine with an allocator of its own"
    for s in asked[:3]:
        assert untimed(found[s]) == untimed(predict(s))
    assert (found[asked[0]].completes, found[asked[1]].completes) == (True, False)


def test_a_program_is_run_once_whatever_the_number_of_capacities(tiny, monkeypatch):
    from fitproof.predict import prediction

    traced, trace = [], prediction.trace
    monkeypatch.setattr(prediction, "trace", lambda s, gpu: (traced.append(s), trace(s, gpu))[1])
    predict_all([tiny(capacity_mib=size) for size in (8192, 4096, None)], use_cache=False)
    assert len(traced) == 1
    predict_all([tiny(capacity_mib=size, kv_reservation="0.5") for size in (8192, 4096)], use_cache=False, workers=1)
    assert len(traced) == 3  # with a reservation the pool follows the capacity


def test_what_the_cache_has_is_not_simulated_again(tiny, monkeypatch, cache_folder):
    first, progress = predict_all([tiny()]), []
    assert len(list(cache_folder.iterdir())) == 1
    monkeypatch.setattr(batch, "_answers", lambda group, gpu: [f"simulated {len(group)}"] * len(group))
    assert predict_all([tiny()]) == first
    assert predict_all([tiny()], use_cache=False) == {tiny(): "simulated 1"}
    again = predict_all([tiny(), tiny(actor_micro_batch=1)], progress=lambda *counts: progress.append(counts))
    assert [again[s] == first.get(s) for s in again] == [True, False]
    assert progress == [(2, 2)]


def test_other_code_and_damaged_files_are_no_cache(tiny, monkeypatch, cache_folder):
    predict_all([tiny()])
    assert cache.read(tiny(), "h200") is not None
    [path] = cache_folder.iterdir()
    for damage in ("{", "{}", "[]", ""):
        path.write_text(damage)
        assert cache.read(tiny(), "h200") is None
    monkeypatch.setattr(cache, "basis", lambda gpu: {"code": "another"})
    predict_all([tiny()])
    assert len(list(cache_folder.iterdir())) == 2


def test_a_cache_that_cannot_be_written_costs_nothing_else(tiny, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert predict_all([tiny()])[tiny()].label == "within_margin"


@pytest.mark.parametrize("edit", [
    lambda data: data.replace(b'"peak_allocated_bytes": ', b'"peak_allocated_bytes": 5'),
    lambda data: data[:-20],
    lambda data: b"[" * 100_000,
    lambda data: b"",
])  # fmt: skip
def test_a_damaged_or_edited_cache_file_is_no_answer(tiny, cache_folder, edit):
    [answer] = predict_all([tiny()]).values()
    [path] = cache_folder.iterdir()
    path.write_bytes(edit(path.read_bytes()))
    assert cache.read(tiny(), "h200") is None
    [again] = predict_all([tiny()]).values()
    assert again.peak_allocated_bytes == answer.peak_allocated_bytes
