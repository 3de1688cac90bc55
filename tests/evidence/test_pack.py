"""Packing: the same files give the same bytes, parts of a panel merge, and contradictions are refused."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from evidence_craft import member, read_all, sha256, unpacked
from evidence_runs import SLOTS, ledger_line, tree, write_attempt, write_plan
from fitproof.errors import EvidenceError, FitproofError, UsageError
from fitproof.evidence import pack as pack_module
from fitproof.evidence.files import read_sidecar
from fitproof.evidence.pack import pack
from fitproof.evidence.reader import read_members

NAME = "2026-12-01_cpu_test.tar.zst"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    write_attempt(folder, SLOTS[1], 0)
    write_attempt(folder, SLOTS[0], 10)
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / NAME


def refused(run_dirs: list[Path], out: Path, error: type[FitproofError] = EvidenceError) -> FitproofError:
    before = tree(out.parent)
    with pytest.raises(error) as caught:
        pack(run_dirs, out)
    assert tree(out.parent) == before
    return caught.value


def test_an_archive_holds_the_run_directory(run: Path, out: Path) -> None:
    packed = pack([run], out)
    assert read_all(out, expected_sha256=packed.sha256, expected_tar_sha256=packed.tar_sha256) == tree(run)
    assert (packed.path, packed.bytes, packed.members) == (out, out.stat().st_size, len(tree(run)))
    assert (packed.panels, packed.attempts, packed.notes) == (("grpo",), 2, ())
    assert sorted(os.listdir(out.parent)) == [NAME, NAME + ".sha256"]


def test_sha256sum_accepts_the_sidecar(run: Path, out: Path) -> None:
    packed = pack([run], out)
    assert read_sidecar(out) == packed.sha256 == sha256(out.read_bytes())
    subprocess.run(["sha256sum", "--strict", "-c", NAME + ".sha256"], cwd=out.parent, check=True, capture_output=True)


def test_the_form_of_the_tar(run: Path, out: Path) -> None:
    packed = pack([run], out)
    tar, members = unpacked(out)
    assert sha256(tar) == packed.tar_sha256
    names = [m.name for m in members]
    assert names[0] == "MEMBERS.sha256"
    assert names[1:] == sorted(tree(run), key=str.encode)
    for info in members:
        assert info.isreg()
        assert (info.mode, info.mtime, info.uid, info.gid, info.uname, info.gname) == (0o644, 0, 0, 0, "", "")
    files = {"MEMBERS.sha256": "".join(f"{sha256(tree(run)[n])}  {n}\n" for n in names[1:]).encode(), **tree(run)}
    body = b"".join(member(n, files[n]) for n in names)
    assert tar == body + bytes(len(tar) - len(body))
    assert len(tar) % 10240 == 0


def test_the_same_files_give_the_same_bytes(run: Path, out: Path, tmp_path: Path) -> None:
    first = pack([run], out)
    copy = tmp_path / "copy"
    for name, data in sorted(tree(run).items(), reverse=True):  # another order, other times and modes on the disk
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes(data)
        (copy / name).chmod(0o600)
    (copy / "grpo" / SLOTS[2]).mkdir()  # a slot that was never started
    os.utime(copy / "grpo" / "plan.json", (1, 1))
    (tmp_path / "second").mkdir()
    second = pack([copy], tmp_path / "second" / NAME)
    assert second.path.read_bytes() == out.read_bytes()
    assert (second.sha256, second.tar_sha256) == (first.sha256, first.tar_sha256)


def test_packing_again_onto_an_equal_archive_is_allowed(run: Path, out: Path) -> None:
    first = pack([run], out)
    (out.parent / (NAME + ".sha256")).unlink()
    assert pack([run], out) == first
    assert read_sidecar(out) == first.sha256


def test_an_archive_is_write_once(run: Path, out: Path) -> None:
    pack([run], out)
    (run / "grpo" / "plan.json").write_text("{}")
    assert "write-once" in refused([run], out).hint
    out.unlink()
    assert "write-once" in refused([run], out).hint  # its sidecar still says what belongs there


def test_parts_of_a_panel_merge_whatever_their_order(run: Path, out: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    write_attempt(other, SLOTS[2], 5)
    write_attempt(other, SLOTS[0], 40, attempt=2)
    write_attempt(other, SLOTS[0], 50, panel="ppo")
    packed = pack([run, other], out)
    assert (packed.panels, packed.attempts) == (("grpo", "ppo"), 5)
    members = read_all(out)
    ledger = [json.loads(line) for line in members["grpo/ledger.jsonl"].splitlines()]
    order = [(e["slot_id"], e["attempt"], e["event"]) for e in ledger]
    starts = [(SLOTS[1], 1), (SLOTS[2], 1), (SLOTS[0], 1), (SLOTS[0], 2)]
    assert order == [(slot, attempt, event) for slot, attempt in starts for event in ("start", "end")]
    assert {n for n in members if "ledger" not in n} == {n for f in (run, other) for n in tree(f) if "ledger" not in n}
    (tmp_path / "reverse").mkdir()
    assert pack([other, run], tmp_path / "reverse" / NAME).sha256 == packed.sha256


def test_ledger_lines_of_one_moment(tmp_path: Path, out: Path) -> None:
    write_plan(tmp_path / "run")
    lines = [ledger_line(e, s, 1, a) for s in SLOTS[:2] for a in (2, 1) for e in ("end", "start")]
    (tmp_path / "run/grpo/ledger.jsonl").write_text("".join([*lines, *lines]))
    pack([tmp_path / "run"], out)
    found = [json.loads(line) for line in read_all(out)["grpo/ledger.jsonl"].splitlines()]
    wanted = [(s, a, e) for s in SLOTS[:2] for a in (1, 2) for e in ("start", "end")]
    assert [(e["slot_id"], e["attempt"], e["event"]) for e in found] == wanted


def test_the_same_part_twice_is_one_part(run: Path, out: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "copy")
    packed = pack([run, tmp_path / "copy"], out)
    assert packed.attempts == 2
    assert read_all(out) == tree(run)


@pytest.mark.parametrize("change", ["bytes", "fewer files", "ledger"])
def test_two_parts_that_claim_one_attempt(run: Path, out: Path, tmp_path: Path, change: str) -> None:
    other = tmp_path / "copy"
    shutil.copytree(run, other)
    folder = other / "grpo" / SLOTS[0] / "attempt-1"
    if change == "bytes":
        (folder / "stdout.log").write_text("another run")
    elif change == "fewer files":
        (folder / "result.json").unlink()
    else:
        ledger = other / "grpo" / "ledger.jsonl"
        ledger.write_text(ledger.read_text().replace('"allocation_id": "a"', '"allocation_id": "b"'))
    error = refused([run, other], out)
    assert "copy" in error.subject
    assert "each" in error.expected


def test_two_plans_of_one_panel(run: Path, out: Path, tmp_path: Path) -> None:
    write_attempt(tmp_path / "other", SLOTS[2], 5)
    write_plan(tmp_path / "other", reason="another")
    assert "two plans of one panel" in refused([run, tmp_path / "other"], out).found


def test_attempts_may_lack_files(run: Path, out: Path) -> None:
    folder = run / "grpo" / SLOTS[0] / "attempt-1"
    for name in ("result.json", "environment.json", "memory.csv"):
        (folder / name).unlink()
    pack([run], out)
    assert read_all(out) == tree(run)


@pytest.mark.parametrize(
    "name",
    [
        "grpo/0123456789abcdef/attempt-1/core.dump",
        "grpo/0123456789abcdef/attempt-1/deeper/trial.json",
        "grpo/0123456789abcdef/attempt-0/trial.json",
        "grpo/0123456789abcdef/attempt-01/trial.json",
        "grpo/0123456789abcdef/notes.txt",
        "grpo/0123456789ABCDEF/attempt-1/trial.json",
        "grpo/nohup.out",
    ],
)
def test_files_that_are_no_part_of_a_panel(run: Path, out: Path, name: str) -> None:
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).write_text("x")
    assert Path(refused([run], out).subject).name == Path(name).name


def test_predictions_go_in_beside_their_plan_once(run: Path, out: Path, tmp_path: Path) -> None:
    write_plan(tmp_path / "frozen")
    for folder in (run, tmp_path / "frozen"):
        (folder / "grpo" / "predictions.jsonl").write_text("{}\n")
    (run / "grpo" / "predictions.jsonl.partial").write_text("{")
    packed = pack([run, tmp_path / "frozen"], out)
    names = [member.name for member in read_members(out, expected_sha256=packed.sha256)]
    assert names.count("grpo/predictions.jsonl") == 1
    assert "grpo/predictions.jsonl.partial" not in names
    (tmp_path / "frozen" / "grpo" / "predictions.jsonl").write_text("{ }\n")
    with pytest.raises(EvidenceError, match="two files of one name"):
        pack([run, tmp_path / "frozen"], out)


def test_a_file_that_the_runner_never_finished_is_left_out(run: Path, out: Path) -> None:
    whole = tree(run)
    (run / "grpo" / SLOTS[0] / "attempt-1" / "result.json.partial").write_text("{")
    packed = pack([run], out)
    assert read_all(out) == whole
    assert ["result.json.partial" in note for note in packed.notes] == [True]


def test_plan_and_ledger_are_needed(run: Path, out: Path) -> None:
    (run / "grpo" / "ledger.jsonl").rename(run / "ledger.jsonl.bak")
    assert "ledger.jsonl" in refused([run], out).expected
    (run / "grpo" / "plan.json").unlink()
    assert "plan.json" in refused([run], out).expected


def test_a_panel_in_place_of_its_run_directory(run: Path, out: Path) -> None:
    assert f"fitproof pack {run} -o" in refused([run / "grpo"], out, UsageError).hint


def test_a_torn_last_ledger_line_is_left_out_and_noted(run: Path, out: Path) -> None:
    whole = (run / "grpo" / "ledger.jsonl").read_bytes()
    (run / "grpo" / "ledger.jsonl").write_bytes(whole + b'{"event": "sta')
    packed = pack([run], out)
    assert read_all(out)["grpo/ledger.jsonl"] == whole
    assert ["14 bytes without line feed" in note for note in packed.notes] == [True]


@pytest.mark.parametrize(
    "line", ["junk", "[]", "{}", '{"event":"start","slot_id":"a","attempt":1,"at":"now"}', "[" * 10**5]
)
def test_other_ledger_lines_that_do_not_parse(run: Path, out: Path, line: str) -> None:
    with open(run / "grpo" / "ledger.jsonl", "a") as ledger:
        ledger.write(line + "\n")
    assert refused([run], out).subject.endswith("ledger.jsonl:5")


def test_while_a_supervisor_measures(run: Path, out: Path) -> None:
    with open(run / "grpo" / "ledger.jsonl", "a") as ledger:
        fcntl.flock(ledger, fcntl.LOCK_EX)
        assert "measuring" in refused([run], out, UsageError).found
    pack([run], out)


def test_other_evidence(run: Path, out: Path, tmp_path: Path) -> None:
    other = tmp_path / "predictions"
    for name in ("predictions.jsonl", "profiles/größe.json", "n" * 120):
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_text(name)
    packed = pack([other], out)
    assert read_all(out) == tree(other)
    assert (packed.panels, packed.attempts) == ((), 0)
    (tmp_path / "both").mkdir()
    pack([run, other], tmp_path / "both" / NAME)
    assert read_all(tmp_path / "both" / NAME) == {**tree(run), **tree(other)}


def test_other_evidence_that_contradicts_itself(tmp_path: Path, out: Path) -> None:
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "predictions.jsonl").write_text(part)
    assert "not equal" in refused([tmp_path / "a", tmp_path / "b"], out).found


def test_checkpoints_of_a_run_directory_stay_out(run: Path, out: Path) -> None:
    expected = tree(run)
    state = run / ".checkpoints" / "grpo" / SLOTS[0] / "step-00000002" / "state.json"
    state.parent.mkdir(parents=True)
    state.write_text("{}")
    packed = pack([run], out)
    assert read_all(out) == expected
    assert [n for n in packed.notes if "checkpoints are no evidence" in n]


def test_checkpoints_elsewhere_are_hidden_files_like_any_other(run: Path, out: Path) -> None:
    (run / "grpo" / ".checkpoints").mkdir()
    assert "hidden" in refused([run], out).found


@pytest.mark.parametrize(
    "name", ["a\nb", "a\\b", ".hidden", "a\udcff", "e\u0301", "MEMBERS.sha256", "members.SHA256", " a"]
)
def test_odd_names(run: Path, out: Path, name: str) -> None:
    (run / "other").mkdir()
    place = run / name if name.lower().startswith("members") else run / "other" / name
    place.write_text("x")
    assert "name" in refused([run], out).found


def test_names_that_some_file_systems_merge(run: Path, out: Path) -> None:
    (run / "other").mkdir()
    (run / "Other").mkdir()
    (run / "other" / "a").write_text("x")
    (run / "Other" / "b").write_text("x")
    assert "take for one" in refused([run], out).found


def test_links_and_pipes(run: Path, out: Path) -> None:
    log = run / "grpo" / SLOTS[0] / "attempt-1" / "stdout.log"
    log.unlink()
    log.symlink_to("stderr.log")
    assert "symbolic link" in refused([run], out).found
    log.unlink()
    os.mkfifo(log)
    assert "pipe" in refused([run], out).found
    log.unlink()
    (run / "link").symlink_to(run / "grpo", target_is_directory=True)
    assert "symbolic link" in refused([run], out).found


def test_wrong_calls(run: Path, out: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for run_dirs, output in (
        ([run], out.with_name("archive.tar.zst")),
        ([run], out.with_name("2026-02-30_cpu_x.tar.zst")),
        ([run], out.parent / "absent" / NAME),
        ([run], run / NAME),
        ([run], run / "grpo" / NAME),
        ([tmp_path / "absent"], out),
        ([run / "grpo" / "plan.json"], out),
        ([tmp_path / "empty"], out),
        ([], out),
    ):
        with pytest.raises(UsageError):
            pack(run_dirs, output)
    assert os.listdir(out.parent) == []
    assert NAME not in os.listdir(run)


@pytest.mark.parametrize("change", ["other bytes", "longer", "shorter"])
def test_a_file_that_changes_while_it_is_packed(
    run: Path, out: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    log = run / "grpo" / SLOTS[0] / "attempt-1" / "stderr.log"
    collect = pack_module.collect

    def collect_then_change(directories: list[Path]) -> object:
        inputs = collect(directories)
        data = log.read_bytes()
        log.write_bytes({"other bytes": data[::-1], "longer": data + b"x", "shorter": data[:-1]}[change])
        return inputs

    monkeypatch.setattr(pack_module, "collect", collect_then_change)
    assert "changed while" in refused([run], out).found


def test_members_too_large_to_be_read_again(run: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fitproof.evidence.inputs.MAX_MEMBER_BYTES", 100)
    assert "at most 100" in refused([run], out).expected
    monkeypatch.undo()
    monkeypatch.setattr(pack_module, "MAX_TAR_BYTES", 10_000)
    assert "fewer run directories" in refused([run], out).hint


def test_progress_ends_at_the_total(run: Path, out: Path) -> None:
    calls: list[tuple[int, int]] = []
    pack([run], out, progress=lambda done, total: calls.append((done, total)))
    tar, _ = unpacked(out)
    assert calls[-1] == (len(tar), len(tar))
    assert calls == sorted(calls)


def test_packing_and_reading_need_only_zstandard() -> None:
    code = "import sys, fitproof.evidence.pack, fitproof.evidence.verify; print(*sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    loaded = {m.partition(".")[0] for m in modules}
    assert "zstandard" in loaded
    assert not loaded & {"duckdb", "pyarrow", "torch", "numpy", "rich", "typer", "pandas", "polars"}
