"""The log reader: survival, chains, prefixes, quotations, exit codes, and that no text breaks it."""

import codecs

import pytest
from fitproof.runner.diagnosis import Diagnosis, decode_log, diagnose_text
from fitproof.runner.diagnosis.lines import read_lines
from fitproof.schema.records import FAILURE_CLASSES, STAGES
from hypothesis import given, settings
from hypothesis import strategies as st

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
LOG = f"start\n{OOM}\n"
WORDS = (
    OOM,
    "Traceback (most recent call last):",
    '  File "a.py", line 3, in step',
    "    loss.backward()",
    "[rank3]: KeyError: 'x'",
    "(Worker pid=7) ERROR 10-25 13:08:43 [core.py:708] ValueError: no",
    "{'loss': 0.1, 'epoch': 1}",
    "Training finished",
    "Prompt: why?",
    "```",
    "  3%|3  | 15/500 [04:11<2:15:30, 16.76s/it]\r",
    "oom_kill 1",
    "Attempt 3/3 failed: CUDA out of memory",
    "\x1b[31mERROR\x1b[0m",
)


def test_nothing_said_is_nothing_failed_only_with_a_good_exit():
    assert diagnose_text("", 0) == Diagnosis(failure_class=None)
    assert diagnose_text("").failure_class is None
    assert diagnose_text("", 1).failure_class == "unknown"
    assert diagnose_text("step 1 loss 2.0\n", 3) == Diagnosis(failure_class="unknown", evidence="exit code 3")


@pytest.mark.parametrize(
    ("exit_code", "failure_class"),
    [(137, "unknown"), (-9, "unknown"), (143, "harness"), (-15, "harness"), (130, "harness"), (139, "unknown"),
     (134, "unknown"), (124, "timeout"), (127, "dependency"), (152, "timeout"), (2, "unknown")],
)  # fmt: skip
def test_exit_code_alone(exit_code, failure_class):
    assert diagnose_text("", exit_code).failure_class == failure_class


def test_as_dict_has_the_three_keys():
    found = diagnose_text('  File "dp_actor.py", line 1, in update_policy\n' + OOM, 1)
    assert found.as_dict() == {"failure_class": "device_memory", "stage": "actor_update", "evidence": OOM}


def test_exit_zero_means_that_whatever_was_printed_was_survived():
    assert diagnose_text(OOM, 0).failure_class is None


def test_steps_after_an_error_mean_it_was_survived_and_a_later_one_counts():
    steps = "".join(f"{{'loss': 0.{n}, 'epoch': {n}}}\n" for n in range(4))
    assert diagnose_text(f"{OOM}\n{steps}").failure_class is None
    assert diagnose_text(f"{OOM}\n{steps}", 1).failure_class == "unknown"
    assert diagnose_text(f"{OOM}\n{steps}{OOM}\n", 1).failure_class == "device_memory"


def test_a_peer_may_print_one_more_step_before_it_notices():
    log = f"[rank1]: {OOM}\n{{'loss': 0.5, 'epoch': 1}}\n[rank0]: Watchdog caught collective operation timeout\n"
    assert diagnose_text(log, 1).failure_class == "device_memory"


def test_a_progress_bar_drawn_again_at_the_end_is_no_step():
    bar = "  3%|3  | 15/500 [04:11<2:15:30, 16.76s/it]"
    assert diagnose_text(f"{bar}\n{OOM}\n{bar}\n{bar}\n{bar}").failure_class == "device_memory"
    later = bar.replace("15/500", "16/500")
    assert diagnose_text(f"{bar}\n{OOM}\n{later}").failure_class is None


def test_a_retry_that_fails_for_good_counts():
    retry = "Attempt 1/2 failed: CUDA out of memory. Retrying with batch size 4.\n"
    assert diagnose_text(retry + "KeyError: 'answer'\n", 1).failure_class == "unknown"
    assert diagnose_text(retry + "Attempt 2/2 failed: CUDA out of memory.\n", 1).failure_class == "device_memory"


@pytest.mark.parametrize("link", ["The above exception was the direct cause of the following exception:",
                                  "During handling of the above exception, another exception occurred:"])  # fmt: skip
def test_the_innermost_cause_of_a_chain_decides(link):
    wrapper = "RuntimeError: Engine core initialization failed. See root cause above."
    found = diagnose_text(f"Traceback (most recent call last):\n{OOM}\n\n{link}\n\n{wrapper}\n", 1)
    assert (found.failure_class, found.evidence) == ("device_memory", OOM)


@pytest.mark.parametrize(
    "prefix",
    ["", "[rank7]: ", "(EngineCore_DP0 pid=1001) ERROR 10-25 13:08:43 [core.py:708] ", "node-0: ", "3: ", "stderr: ",
     "2025-06-01T10:00:00.123Z ", "(WorkerDict pid=9, ip=10.0.0.1) ", "[2025-03-17 13:10:45 TP3] ", "trainer-1  | ",
     "\x1b[36m(WorkerDict pid=9)\x1b[0m "],
)  # fmt: skip
def test_launcher_prefixes_come_off(prefix):
    assert diagnose_text(prefix + OOM, 1) == Diagnosis(failure_class="device_memory", evidence=OOM)


@pytest.mark.parametrize(
    "line",
    ["| Why did it crash? | " + OOM + " |", '{"prompt": "' + OOM + '", "reward": 0.1}', "Completion: " + OOM,
     "ValueError: cannot parse answer '" + OOM + "'", "INFO consider a smaller batch to avoid CUDA out of memory",
     "num_ooms: 0", "RuntimeError: CUDA error: an illegal memory access was encountered",
     '    raise RuntimeError("CUDA out of memory")'],
)  # fmt: skip
def test_words_that_are_no_event(line):
    assert diagnose_text(line + "\n", 1).failure_class not in ("device_memory", "host_memory")


def test_samples_end_where_the_log_goes_on():
    log = f"[prompt] user\n{OOM}\n[response] it is full\n{OOM}\n[score] 0\n(TaskRunner pid=3) KeyError: 'x'\n"
    assert diagnose_text(log, 1).failure_class == "unknown"
    assert diagnose_text(log + f"Traceback (most recent call last):\n{OOM}\n", 1).failure_class == "device_memory"


def test_pinned_host_memory_is_told_by_its_frames():
    error = "RuntimeError: CUDA error: out of memory\n"
    assert (
        diagnose_text('  File "a.py", line 1, in f\n    x = torch.empty(n)\n' + error, 1).failure_class
        == "device_memory"
    )
    assert diagnose_text('  File "a.py", line 1, in f\n    x.pin_memory()\n' + error, 1).failure_class == "host_memory"


def test_killed_is_host_memory_only_where_the_kernel_says_so():
    killed = "script.sh: line 3: 812 Killed    python train.py\n"
    assert diagnose_text(killed, 137).failure_class == "unknown"
    kernel = "[1.2] Memory cgroup out of memory: Killed process 812 (python)\n"
    assert diagnose_text(killed + kernel, 137).failure_class == "host_memory"


def test_roles_of_lines():
    log = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n' + OOM + "\nTraining finished.\n"
    assert [line.role for line in read_lines(log)] == ["text", "frame", "code", "text", "finish"]


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=600), st.sampled_from([None, 0, 1, -9, 137, 255, -(10**6), 10**9]))
def test_any_text_gets_a_verdict(text, exit_code):
    found = diagnose_text(text, exit_code)
    assert found.failure_class in (None, *FAILURE_CLASSES)
    assert found.stage in (None, *STAGES)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=600), st.lists(st.sampled_from(WORDS), max_size=12))
def test_bytes_and_shuffled_logs_get_a_verdict(data, words):
    text = data.decode("utf-8", errors="replace").join(f"{word}\n" for word in words)
    assert diagnose_text(text, 1).failure_class in FAILURE_CLASSES


def test_a_large_log_is_read_to_its_end():
    ordinary = "INFO 10-25 13:08:43 [core.py:708] request 3 done in 4.2 s\n" * 90_000
    assert len(ordinary) > 5_000_000
    assert diagnose_text(ordinary + OOM, 1).evidence == OOM


@pytest.mark.parametrize(
    "unit",
    ["a", " ", "1", "a.", "a1:", "/dev/shm", "killed /", "(a pid=", "Error", "x = ", "cudaMalloc ", "[", '"',
     "prompt: ", "OOM when allocating tensor", "step 1", "a:"],
)  # fmt: skip
def test_lines_made_to_stall_a_pattern(unit):
    lines = "".join(unit * (3900 // len(unit)) + f"x{n}\n" for n in range(20))
    assert diagnose_text(lines + unit * (500_000 // len(unit)), 1).failure_class in FAILURE_CLASSES


@pytest.mark.parametrize(
    "data",
    [
        LOG.encode(),
        LOG.encode("utf-8-sig"),
        LOG.encode("utf-16"),
        codecs.BOM_UTF16_BE + LOG.encode("utf-16-be"),
        LOG.encode("utf-16-le"),
        LOG.encode("utf-16-le") + b"\n",  # half a character at the end
        bytes(5000) + LOG.encode(),
        LOG.replace(" ", "\0 ").encode(),
        LOG.replace("\n", "\r\n").encode(),
        b"\xe9t\xe9\n" + LOG.encode(),
    ],
)
def test_the_bytes_of_a_log_may_be_in_any_common_form(data):
    found = diagnose_text(decode_log(data))
    assert found.failure_class == "device_memory"
    assert found.evidence.startswith("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert "\0" not in found.evidence
