"""Diagnosis of one attempt of our own: what the child raised, then kernel and signals, then the text of its logs."""

from collections.abc import Sequence

from fitproof.runner.diagnosis.text import Diagnosis, diagnose_text, shorten

# Below this much free device memory a library handle (cuBLAS, cuDNN) may not get its workspace.
NEARLY_FULL_BYTES = 512 * 2**20

_HANDLE_ERRORS = ("CUBLAS_STATUS_NOT_INITIALIZED", "CUDNN_STATUS_NOT_INITIALIZED")
_HOST_TYPES = ("MemoryError", "ArrayMemoryError", "_ArrayMemoryError", "ArrowMemoryError")
_LACKING_TYPES = ("ImportError", "ModuleNotFoundError", "EnvironmentLacks")


def diagnose_attempt(
    *,
    exception_types: Sequence[str] | None,
    message: str | None,
    failure_stage: str | None,
    exit_code: int | None,
    signal: int | None,
    timed_out: bool,
    kernel_oom: str | None,
    last_stage: str | None,
    text: str,
    device_free_bytes: int | None = None,
) -> Diagnosis:
    """The failure class of one attempt; None when nothing failed.

    `exception_types`: type names of the child's `failure` event, outermost first, causes after; `message` that of the
    innermost. `kernel_oom`: a line of cgroup or kernel evidence that a process of the attempt was killed for memory.
    `device_free_bytes`: free bytes the driver reported at the failure, which decides errors of library handles.
    `failure_stage`, else `last_stage` (the stage that had begun last), is the stage.
    """
    stage = failure_stage or last_stage
    raised = _from_exceptions(exception_types, message or "", text, device_free_bytes) if exception_types else None
    if raised is not None and raised.failure_class != "unknown":
        found = raised
    elif kernel_oom:
        found = Diagnosis(failure_class="host_memory", evidence=shorten(kernel_oom))
    elif timed_out:
        found = Diagnosis(failure_class="timeout", evidence="killed at the trial's time limit")
    else:
        # An exception that tells nothing (a wrapper around another process) leaves the word to the log.
        code = -signal if signal is not None else exit_code
        found = diagnose_text(text, 1 if raised is not None and code in (0, None) else code)
        if raised is not None and found.failure_class in (None, "unknown"):
            found = raised
    if found.failure_class is None:
        return found
    return Diagnosis(failure_class=found.failure_class, stage=stage or found.stage, evidence=found.evidence)


def _from_exceptions(types: Sequence[str], message: str, text: str, device_free_bytes: int | None) -> Diagnosis:
    """Judges what the child raised; the innermost message by the rules for text."""
    line = f"{types[-1]}: {message}" if message else types[-1]
    names = [name.rpartition(".")[2] for name in types]
    if device_free_bytes is not None and any(error in message for error in _HANDLE_ERRORS):
        failure_class = "device_memory" if device_free_bytes < NEARLY_FULL_BYTES else "device_fault"
    elif "ray.exceptions.OutOfMemoryError" in types or any(name in _HOST_TYPES for name in names):
        failure_class = _host_type(message)
    elif "OutOfMemoryError" in names and "more than 1EB" not in message:
        failure_class = "device_memory"
    else:
        failure_class = diagnose_text(line).failure_class or "unknown"
        if failure_class == "device_memory" and "error: out of memory" in message.lower():
            # The driver uses these words for pinned host memory too; the traceback in the log tells which it was.
            printed = diagnose_text(text, 1).failure_class
            failure_class = "host_memory" if printed == "host_memory" else failure_class
        elif failure_class == "unknown" and any(name in _LACKING_TYPES for name in names):
            failure_class = "dependency"
    return Diagnosis(failure_class=failure_class, evidence=shorten(line))


def _host_type(message: str) -> str:
    """MemoryError is the host's, except where a device allocator raises it (RMM: "MemoryError: ... CUDA error at")."""
    said = diagnose_text(f"MemoryError: {message}").failure_class
    return "device_memory" if said == "device_memory" else "host_memory"
