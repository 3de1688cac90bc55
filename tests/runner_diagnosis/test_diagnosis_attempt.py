"""The order of evidence for an attempt of our own: what the child raised, kernel, time limit, signals, then text."""

import pytest
from fitproof.runner.diagnosis import diagnose_attempt

QUIET = {
    "exception_types": None,
    "message": None,
    "failure_stage": None,
    "exit_code": 0,
    "signal": None,
    "timed_out": False,
    "kernel_oom": None,
    "last_stage": "rollout",
    "text": "",
}
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def diagnose(**given):
    return diagnose_attempt(**{**QUIET, **given})


def test_a_good_end_is_no_failure():
    assert diagnose(text=f"{OOM}\ndownshifted to 4\n").failure_class is None


@pytest.mark.parametrize(
    ("types", "message", "failure_class"),
    [
        (["torch.OutOfMemoryError"], "CUDA out of memory. Tried to allocate 2.00 GiB.", "device_memory"),
        (["torch.cuda.OutOfMemoryError"], "", "device_memory"),
        (["RuntimeError", "OutOfMemoryError"], "CUDA out of memory.", "device_memory"),
        (["torch.AcceleratorError"], "CUDA error: out of memory\nCUDA kernel errors might be ...", "device_memory"),
        (["RuntimeError"], "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate()`", "device_memory"),
        (["RuntimeError"], "cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "device_memory"),
        (["RuntimeError"], "cudaHostAlloc(&p, n, 0) failed: out of memory", "host_memory"),
        (["MemoryError"], "", "host_memory"),
        (["numpy._core._exceptions._ArrayMemoryError"], "Unable to allocate 1 GiB for an array", "host_memory"),
        (["MemoryError"], "std::bad_alloc: out_of_memory: CUDA error at: rmm/memory_resource.hpp:70", "device_memory"),
        (["ray.exceptions.OutOfMemoryError"], "Task was killed due to the node running low on memory.", "host_memory"),
        (["torch.AcceleratorError"], "CUDA error: an illegal memory access was encountered", "device_fault"),
        (["OutOfMemoryError"], "CUDA out of memory. Tried to allocate more than 1EB memory.", "device_fault"),
        (["ModuleNotFoundError"], "No module named 'bitsandbytes'", "dependency"),
        (["OSError"], "[Errno 28] No space left on device", "harness"),
        (["ValueError"], "answer is 'CUDA out of memory'", "unknown"),
        (["OutOfResources"], "out of resource: shared memory, Required: 131072, Hardware limit: 101376", "unknown"),
    ],
)  # fmt: skip
def test_the_exceptions_of_the_child_come_first(types, message, failure_class):
    found = diagnose(exception_types=types, message=message, failure_stage="actor_update", exit_code=1, text=OOM[:5])
    assert (found.failure_class, found.stage) == (failure_class, "actor_update")
    assert types[-1] in found.evidence


def test_a_memory_error_of_the_child_outranks_kernel_and_time():
    found = diagnose(exception_types=["torch.OutOfMemoryError"], timed_out=True, kernel_oom="oom_kill 1", signal=9)
    assert found.failure_class == "device_memory"


@pytest.mark.parametrize(("free", "failure_class"), [(100 * 2**20, "device_memory"), (20 * 2**30, "device_fault"),
                                                     (None, "device_memory")])  # fmt: skip
def test_a_handle_that_fails_is_judged_by_the_free_bytes(free, failure_class):
    message = "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
    found = diagnose(exception_types=["RuntimeError"], message=message, exit_code=1, device_free_bytes=free)
    assert found.failure_class == failure_class


def test_pinning_is_seen_in_the_printed_traceback():
    message = "CUDA error: out of memory"
    text = f'  File "x.py", line 1, in stage\n    host = t.pin_memory()\ntorch.AcceleratorError: {message}\n'
    given = {"exception_types": ["torch.AcceleratorError"], "message": message, "exit_code": 1}
    assert diagnose(**given, text=text).failure_class == "host_memory"
    assert diagnose(**given).failure_class == "device_memory"


def test_kernel_evidence_then_time_limit_then_bare_signal():
    kernel = "memory.events: oom_kill 0 -> 1"
    assert diagnose(signal=9, kernel_oom=kernel).as_dict() == {
        "failure_class": "host_memory", "stage": "rollout", "evidence": kernel}  # fmt: skip
    assert diagnose(signal=9, timed_out=True).failure_class == "timeout"
    assert diagnose(exit_code=None, signal=9).failure_class == "unknown"
    assert diagnose(exit_code=137).failure_class == "unknown"
    assert diagnose(exit_code=None, signal=11).failure_class == "unknown"
    assert diagnose(exit_code=None, signal=15).failure_class == "harness"


def test_the_log_speaks_last():
    assert diagnose(exit_code=1, text=OOM).failure_class == "device_memory"
    assert diagnose(exit_code=1).failure_class == "unknown"
    crash = diagnose(exit_code=None, signal=6, text="terminate called\n  what():  std::bad_alloc\n")
    assert crash.failure_class == "host_memory"


def test_a_wrapper_exception_leaves_the_word_to_the_log():
    given = {"exception_types": ["RuntimeError"], "message": "Engine core initialization failed.", "exit_code": 1}
    assert diagnose(**given, text=OOM).failure_class == "device_memory"
    assert diagnose(**given).as_dict() == {
        "failure_class": "unknown", "stage": "rollout", "evidence": "RuntimeError: Engine core initialization failed."
    }  # fmt: skip
