"""The command as a user meets it: a real process, its exit code, stdout and stderr."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fitproof.cli.app import VERBS
from fitproof.cli.reference import PAGE, page

ROOT = Path(__file__).parents[2]
NAMES = [verb.__name__ for verb in VERBS]
OOM_LOG = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 3, in <module>\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.99 GiB "
    "of which 1.20 GiB is free.\n"
)


def fitproof(*arguments: str, cwd: Path | None = None, data: str | None = None, **environment: str):
    return subprocess.run(
        [sys.executable, "-m", "fitproof", *arguments],
        cwd=cwd, input=data, capture_output=True, text=True, encoding="utf-8", env=os.environ | environment,
    )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_each_verb_has_help_with_an_example_and_a_place_in_the_docs(name):
    done = fitproof(name, "--help")
    assert done.returncode == 0
    assert "Example" in done.stdout
    assert f"  fitproof {name}" in done.stdout or f"| fitproof {name}" in done.stdout
    assert f"\n## fitproof {name}\n" in (ROOT / PAGE).read_text()


def test_the_command_reference_is_current():
    assert (ROOT / PAGE).read_text() == page(), "next: make docs"


def test_help_lists_every_verb_and_the_exit_codes():
    done = fitproof("--help")
    assert [name for name in NAMES if f"\n  {name} " not in done.stdout] == []
    assert "0 done; 1 a check failed; 2 the call was wrong; 3 this environment cannot do it" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nonsense"],
        ["nonsense"],
        ["verify", "--nonsense"],
        ["show"],
        ["pack"],
        ["diagnose", "x", "--exit-code", "one"],
    ],
)
def test_a_wrong_call_is_two_and_says_nothing_on_stdout(arguments):
    done = fitproof(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", [["verify"], ["reproduce"], ["views"], ["show", "trials"]])
def test_outside_a_release_the_call_was_wrong(verb, tmp_path):
    done = fitproof(*verb, cwd=tmp_path)
    assert done.returncode == 2
    assert "release.json" in done.stderr
    assert "--root" in done.stderr
    assert "Traceback" not in done.stderr
    named = fitproof(*verb, "--root", str(tmp_path))
    assert (named.returncode, named.stdout) == (2, "")
    assert "none of release.json, MANIFEST.sha256, releases, views in it" in named.stderr


@pytest.mark.parametrize("left", ["release.json", "MANIFEST.sha256", "views", "releases"])
def test_what_is_left_of_a_release_is_a_failed_check(left, tmp_path):
    (tmp_path / left).mkdir() if "." not in left else (tmp_path / left).touch()
    done = fitproof("verify", "--root", str(tmp_path))
    assert done.returncode == 1
    assert "CITATION.cff\n  found:    no such file" in done.stderr


def test_help_is_light():
    heavy = "{'torch', 'duckdb', 'pyarrow', 'transformers', 'numpy', 'rich', 'zstandard', 'fitproof.schema.views'}"
    code = (
        "import sys\nfrom fitproof.cli import main\nsys.argv = ['fitproof', '--help']\n"
        f"try:\n main()\nexcept SystemExit:\n print(sorted({heavy} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "[]\n"


def test_version():
    import fitproof as package

    assert fitproof("--version").stdout == package.__version__ + "\n"


@pytest.mark.parametrize("source", ["file", "-"])
def test_diagnose_reads_a_file_or_stdin(source, tmp_path):
    log = tmp_path / "train.log"
    log.write_text(OOM_LOG)
    done = fitproof("diagnose", "-" if source == "-" else str(log), "--exit-code", "1", "--json", data=OOM_LOG)
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert list(answer) == ["failure_class", "stage", "evidence"]
    assert answer["failure_class"] == "device_memory"
    assert "Tried to allocate 2.00 GiB" in answer["evidence"]


def test_diagnose_survives_bytes_that_are_no_text(tmp_path):
    log = tmp_path / "odd.log"
    log.write_bytes(b"\xff\xfe\x00 step 1\n" + OOM_LOG.encode())
    assert json.loads(fitproof("diagnose", str(log), "--json").stdout)["failure_class"] == "device_memory"


def test_diagnose_of_an_absent_file_is_a_wrong_call(tmp_path):
    done = fitproof("diagnose", str(tmp_path / "absent.log"))
    assert done.returncode == 2
    assert "absent.log" in done.stderr
    assert "found:" in done.stderr


ODD = [
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "nowhere.ISO-8859-15", "PYTHONUTF8": "0"},
    {"PYTHONIOENCODING": "latin-1:strict"},
]


@pytest.mark.parametrize("environment", ODD, ids=["C", "ascii", "unknown", "latin-1"])
def test_odd_locales_break_nothing(environment, tmp_path):
    log = tmp_path / "train.log"
    log.write_text("step → 1 Ω\n" + OOM_LOG.replace("CUDA", "→ Ω CUDA"), encoding="utf-8")
    for arguments in (["diagnose", str(log)], ["diagnose", str(log), "--json"], ["--help"], ["show", "--help"]):
        done = subprocess.run(
            [sys.executable, "-m", "fitproof", *arguments], capture_output=True, env=os.environ | environment
        )
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["plan", "grid"], ["plan", "grid", "--json"]])
def test_a_reader_that_stops_early_is_no_error(arguments):
    command = f"{sys.executable} -m fitproof {' '.join(arguments)} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert done.stdout.strip() in ("0", "2")  # 2: no capacities are chosen for the grid


def test_a_closed_stdout_is_no_error(tmp_path):
    (tmp_path / "a.log").write_text(OOM_LOG)
    command = f"{sys.executable} -m fitproof diagnose {tmp_path}/a.log >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_stream_on_a_full_disk_has_no_traceback(stream, tmp_path):
    (tmp_path / "log").write_text(OOM_LOG)
    command = [sys.executable, "-m", "fitproof", "diagnose", str(tmp_path / "log"), "--json"]
    with open("/dev/full", "w") as full:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: full}
        done = subprocess.run(command, text=True, **pipes)
    if stream == "stdout":
        assert done.returncode == 3
        assert done.stderr.startswith("fitproof: stdout\n  found:    No space left on device\n")
        assert "Traceback" not in done.stderr
    else:
        assert (done.returncode, json.loads(done.stdout)["failure_class"]) == (0, "device_memory")


def test_words_that_cannot_be_said_leave_the_exit_code_alone(tmp_path):
    command = [sys.executable, "-m", "fitproof", "diagnose", str(tmp_path / "none")]
    with open("/dev/full", "w") as full:
        assert subprocess.run(command, stderr=full).returncode == 2


def test_a_place_that_takes_no_files_is_three(tmp_path):
    (tmp_path / "file").touch()
    done = fitproof("run", "cpu_tiny", "--out", str(tmp_path / "file"))
    assert done.returncode == 3
    assert done.stderr.startswith(f"fitproof: {tmp_path / 'file' / 'cpu_tiny'}\n  found:    Not a directory\n")
    assert "\n  next:     " in done.stderr


def test_plan_shows_writes_and_can_be_read_again(tmp_path):
    path = tmp_path / "plan.json"
    done = fitproof("plan", "cpu_tiny", "-o", str(path), "--json")
    assert done.returncode == 0
    shown = json.loads(done.stdout)
    assert shown == json.loads(path.read_text())
    assert shown["panel"] == "cpu_tiny"
    table = fitproof("plan", "cpu_tiny")
    assert len(table.stdout.splitlines()) == len(shown["slots"]) + 1
    assert shown["digest"] in table.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "quik"], "one of: quick"),
        (["plan", "cpu_tiny", "--device", "cuda"], "cpu: it has no other"),
        (["plan", "quick", "--device", "tpu"], "cuda or rocm or cpu"),
        (["run", "absent.json"], "no such file"),
    ],
)
def test_plan_and_run_refuse_what_does_not_exist(arguments, words, tmp_path):
    done = fitproof(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_doctor_says_what_works_and_its_code_follows():
    done = fitproof("doctor", "--json")
    rows = json.loads(done.stdout)
    assert {tuple(row) for row in rows} == {("subject", "found", "state", "fix")}
    assert "fitproof reproduce" in {row["subject"] for row in rows}
    assert done.returncode == (3 if any(row["state"] == "missing" for row in rows) else 0)


@pytest.mark.skipif(Path("/sys/module/amdgpu").exists(), reason="this machine may have an AMD device")
def test_run_without_the_device_is_three(tmp_path):
    done = fitproof("run", "quick", "--device", "rocm", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""
    assert "expected:" in done.stderr


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="this machine may have an NVIDIA device")
def test_run_without_a_driver_says_so_once(tmp_path):
    done = fitproof("run", "quick", cwd=tmp_path)
    assert done.returncode == 3
    assert [line[:11] for line in done.stderr.splitlines()] == [
        "fitproof: C",
        "  found:   ",
        "  expected:",
        "  next:    ",
    ]
