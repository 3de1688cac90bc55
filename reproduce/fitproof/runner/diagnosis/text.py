"""Diagnosis from the text of a log: what ended the run, or that nothing did.

Every line is read once and judged by the rules. A memory error then counts only if the run did not go on after it:
no step, no end, no word that it was caught. Among what is left, memory causes come before other causes (a process
that ran out drags its peers down with all kinds of errors), causes before consequences, the first before later ones
(the innermost exception of a chain is printed first).

Not covered: a log that says "done" and dies without a word, and one whose lines of several processes were reordered.
"""

import codecs
from dataclasses import dataclass

from fitproof.runner.diagnosis import signs
from fitproof.runner.diagnosis.hits import CONSEQUENCE, SOFT_MEMORY, TRACE_LINES, Hit, is_exception, judge, trace
from fitproof.runner.diagnosis.lines import Line, read_lines

EVIDENCE_LIMIT = 400
# Steps after an error by which it was survived; peers of a dead rank may still print one or two.
SURVIVED_STEPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """`failure_class`: one of records.FAILURE_CLASSES, None when nothing failed; `stage`: one of records.STAGES or None
    where unknown; `evidence`: the line or fact that decided."""

    failure_class: str | None
    stage: str | None = None
    evidence: str | None = None

    def as_dict(self) -> dict[str, str | None]:
        return {"failure_class": self.failure_class, "stage": self.stage, "evidence": self.evidence}


def decode_log(data: bytes) -> str:
    """The text of a log file, whatever wrote it: UTF-8 or UTF-16 (a Windows shell's redirection), NUL bytes left out (a
    log emptied while its writer goes on begins with a hole of them), other bytes replaced.
    """
    encoding, head = "utf-8-sig", data[:4096]
    odd, even = head[1::2].count(0), head[::2].count(0)
    if max(odd, even) > len(head) // 4 and min(odd, even) == 0:  # every second byte of plain English is NUL
        has_mark = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        encoding = "utf-16" if has_mark else "utf-16-le" if odd else "utf-16-be"
    return data.decode(encoding, errors="replace").replace("\0", "")


def shorten(text: str) -> str:
    """One line of evidence of a sane length."""
    flat = " ".join(text.split())
    return flat if len(flat) <= EVIDENCE_LIMIT else flat[: EVIDENCE_LIMIT - 3] + "..."


def diagnose_text(text: str, exit_code: int | None = None) -> Diagnosis:
    """What ended the run that printed `text`; an `exit_code` of 0 says that nothing failed. Raises on no text."""
    if exit_code == 0:
        return Diagnosis(failure_class=None)
    lines = read_lines(text)
    hits = [hit for index in range(len(lines)) if (hit := judge(lines, index)) is not None]
    course = _Course.of(lines, hits)
    live = [hit for hit in hits if not _survived(lines, hit, course, exit_code)]
    if live:
        best = min(live, key=lambda hit: (hit.rank, hit.index))
        if best.rank != SOFT_MEMORY or exit_code is not None:
            return Diagnosis(
                failure_class=best.failure_class,
                stage=_stage(lines, best.index),
                evidence=shorten(lines[best.index].text),
            )
    return from_exit_code(exit_code)


def from_exit_code(exit_code: int | None) -> Diagnosis:
    """What an exit code alone tells: a shell's 128 + n and Python's -n mean signal n."""
    if exit_code is None or exit_code == 0:
        return Diagnosis(failure_class=None)
    if exit_code == 124:
        return Diagnosis(failure_class="timeout", evidence="exit code 124 (time limit of `timeout`)")
    signal = -exit_code if exit_code < 0 else exit_code - 128 if 128 < exit_code <= 192 else None
    if signal is not None:
        return from_signal(signal)
    failure_class = "dependency" if exit_code in (126, 127) else "unknown"
    return Diagnosis(failure_class=failure_class, evidence=f"exit code {exit_code}")


def from_signal(signal: int) -> Diagnosis:
    """What a signal alone tells. SIGKILL names no sender: only the kernel or cgroup can say that memory ran out."""
    if signal == 24:
        return Diagnosis(failure_class="timeout", evidence="signal 24 (SIGXCPU)")
    failure_class = "harness" if signal in (1, 2, 15) else "unknown"
    return Diagnosis(failure_class=failure_class, evidence=f"signal {signal} without a stated reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """How the run went, so that "what came after line i" is one look-up. Indices into the lines, -1 where none."""

    steps_after: list[int]  # progress lines after each line
    next_step: list[int]  # index of the first progress line after each line
    last_finish: int
    last_hit: int
    last_cause: int  # the last hit that is an error of its own kind, neither consequence nor warning

    @classmethod
    def of(cls, lines: list[Line], hits: list[Hit]) -> "_Course":
        steps_after, next_step = [0] * len(lines), [-1] * len(lines)
        steps, following, finish = 0, -1, -1
        for index in range(len(lines) - 1, -1, -1):
            steps_after[index], next_step[index] = steps, following
            if lines[index].role == "progress":
                steps, following = steps + 1, index
            elif lines[index].role == "finish":
                finish = max(finish, index)
        return cls(
            steps_after=steps_after,
            next_step=next_step,
            last_finish=finish,
            last_hit=hits[-1].index if hits else -1,
            last_cause=max((hit.index for hit in hits if hit.rank < CONSEQUENCE), default=-1),
        )


def _survived(lines: list[Line], hit: Hit, course: _Course, exit_code: int | None) -> bool:
    """Whether the run went on after this line: it says so, it ended well, or it made steps."""
    if hit.rank != CONSEQUENCE and _handled(lines, hit.index):
        return True
    steps = course.steps_after[hit.index]
    if course.last_finish > hit.index or steps >= SURVIVED_STEPS:
        return True
    if not steps:
        return False
    # A step, then an error of its own kind: the first error was no longer what ended the run.
    if course.last_cause > course.next_step[hit.index]:
        return True
    return exit_code is None and course.last_hit <= hit.index


def _handled(lines: list[Line], index: int) -> bool:
    follow = [after for after in lines[index + 1 : index + 6] if after.role == "text"][:2]
    said = [lines[index].text, *(after.text for after in follow if not is_exception(after.text))]
    return any(signs.HANDLED.search(text) for text in said) and not any(signs.GIVES_UP.search(text) for text in said)


def _stage(lines: list[Line], index: int) -> str | None:
    """The stage by names in the line, its traceback and the few lines above it; None where none tells."""
    above = [line.text for line in lines[max(0, index - 8) : index] if line.role in ("frame", "code", "text")]
    around = "\n".join([*above, *trace(lines, index, TRACE_LINES), lines[index].text])
    for stage, pattern in signs.STAGE_HINTS:
        if pattern.search(around):
            return stage
    return None
