"""From lines to hits: which line says what, with its surroundings where the words alone do not settle it."""

import re
from dataclasses import dataclass
from functools import lru_cache

from fitproof.runner.diagnosis import signs
from fitproof.runner.diagnosis.lines import Line
from fitproof.runner.diagnosis.rules import MEMORY_CLASSES, RULES, Rule

TRACE_LINES = 60
_PIN_LINES = 10

# A cheap look first: a line without any of these words matches no rule.
_WATCHED = re.compile(
    r"memory|oom|alloc|error|exception|errno|kill|signal|fail|abort|fault|time[ds]|timeout|xid|cublas|cudnn|shm"
    r"|space left|import|symbol|kernel image|resource|cannot find|limit|batch size|preempt|interrupt|crash|died|lost"
    r"|bus|unavailable|assert|quota|actor|worker|empty|EL0|GLIBC|kv cache|terminate|gpu|connection|pipe|exit|heap"
    r"|dispatched|sigterm|module|shutdown|1EB|exhausted|address|teams|workspace|stale|driver|instruction|aligned",
    re.I,
)
_EXCEPTION = re.compile(
    r"(?:^|[\s\]:])(?P<type>(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Za-z_]\w{0,80}"
    r"(?:Error|Exception|Interrupt|Exhausted|Killed))(?:\(\w{1,80}\))?(?::(?P<message>.*)|$)"
)
_SPOKEN = re.compile(
    r"[\"']?\b(?:prompt|completion|response|content|question|answer|output|generated|generated_text|text|solution"
    r"|message|input|user|assistant)s?\b[\"']?\s*[:=](?!\s*[45]\d\d\b)",
    re.I,
)
_LOGGED_ERROR = re.compile(r"err|fail|exception|unable|could not|warn", re.I)
# A value in a printed configuration: name='... words ...'
_SETTING = re.compile(r"\b(?!\w*(?:msg|message|reason|detail|status))\w{1,60}=[\"'][^\"']*$")
_GENERIC = re.compile(
    r"\b(?:insufficient|not enough) (?:\w+ )?memory\b|\bout[ -]of[ -]memory\b|\bOutOfMemoryError\b"
    r"|\bOOM\b(?!s?[\"']?\s*[=:]\s*\d)(?![-_\w])",
    re.I,
)
_DEVICE_WORDS = re.compile(r"cuda|\bgpu|\bhip\b|nccl|triton|vram|\bhbm|\bnpu|\bxpu|torch|tensor|kernel|device", re.I)
_HOST_WORDS = re.compile(
    r"malloc|mmap|\bfork\b|\bhost\b|\bcpu\b|\bram\b|cc1plus|compil|java|cgroup|container|\bnode\b", re.I
)
_PLAIN_TYPES = ("KeyError", "ValueError", "JSONDecodeError", "AssertionError", "TypeError", "IndexError", "SyntaxError")

MEMORY, CAUSE, EXCEPTION, CONSEQUENCE, SOFT_MEMORY = range(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A line that a rule recognised: `index` into the list of lines; the lowest `rank` decides (MEMORY ... above)."""

    index: int
    failure_class: str
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What the words of one line say, whatever stands around it. `rule` is None for a bare "out of memory" (`bare`) and
    for an exception without a known message (`exception`, its type name)."""

    rule: Rule | None = None
    bare: bool = False
    exception: str | None = None


def judge(lines: list[Line], index: int) -> Hit | None:
    """The hit of one line, None where it tells of nothing."""
    line = lines[index]
    reading = _read(line.text) if line.role == "text" else None
    if reading is None:
        return None
    severe = line.level is None or line.level >= 3
    if (rule := reading.rule) is None:
        return _judge_bare(lines, index, reading) if severe else None
    if not rule.is_cause:
        return Hit(index=index, failure_class=rule.failure_class, rank=CONSEQUENCE)
    failure_class = _settle(rule, lines, index)
    counts = severe or rule.any_level
    if failure_class in MEMORY_CLASSES:
        return Hit(index=index, failure_class=failure_class, rank=MEMORY if counts else SOFT_MEMORY)
    return Hit(index=index, failure_class=failure_class, rank=CAUSE) if counts else None


@lru_cache(maxsize=4096)
def _read(text: str) -> _Reading | None:
    if not _WATCHED.search(text) or "Traceback (most recent call last)" in text or signs.NOISE.search(text):
        return None
    exception = _EXCEPTION.search(text)
    for rule in RULES:
        found = rule.pattern.search(text)
        if not found or _is_quotation(text, found.start(), exception):
            continue
        if not _is_doubted(text, found.start()):
            return _Reading(rule=rule)
        if rule.failure_class in MEMORY_CLASSES:
            return None
    found = _GENERIC.search(text)
    if found and not _is_quotation(text, found.start(), exception):
        if _is_doubted(text, found.start()):
            return None
        return _Reading(bare=True, exception=exception and exception["type"])
    return _Reading(exception=exception["type"]) if exception else None


def is_exception(text: str) -> bool:
    """Whether a line prints an exception."""
    return bool(_EXCEPTION.search(text))


def _is_doubted(text: str, start: int) -> bool:
    return bool(signs.HEDGE.search(text[max(0, start - 200) : start]))


def _judge_bare(lines: list[Line], index: int, reading: _Reading) -> Hit:
    line = lines[index]
    if reading.bare:
        around = " ".join([line.text, *trace(lines, index, _PIN_LINES)])
        is_host = _HOST_WORDS.search(line.text) or not (_DEVICE_WORDS.search(around) or reading.exception)
        return Hit(index=index, failure_class="host_memory" if is_host else "device_memory", rank=MEMORY)
    name = (reading.exception or "").rpartition(".")[2]
    around = " ".join(trace(lines, index, TRACE_LINES)[-6:])
    is_data = name in signs.DATA_TYPES and signs.DATA_FRAMES.search(around)
    return Hit(index=index, failure_class="data" if is_data else "unknown", rank=EXCEPTION)


def _is_quotation(text: str, start: int, exception: re.Match[str] | None) -> bool:
    """Whether the words at `start` are somebody's text: a prompt, an answer, a value that an error complains about."""
    before = text[:start]
    spoken = _SPOKEN.search(before)
    if spoken and not _LOGGED_ERROR.search(before[: spoken.end()]):
        return True
    if not exception and _SETTING.search(before[-200:]) and not _LOGGED_ERROR.search(before):
        return True
    if exception and exception["type"].rpartition(".")[2] in _PLAIN_TYPES and start > exception.start("type"):
        message = text[exception.end("type") : start]
        quotes = len(re.findall(r"(?<!\w)'|'(?!\w)|\"", message))
        return quotes % 2 == 1
    return False


def trace(lines: list[Line], index: int, limit: int) -> list[str]:
    """The traceback above a line: frames and code of the same process, outermost first."""
    found: list[str] = []
    source = lines[index].source
    for at in range(index - 1, max(-1, index - 4 * limit), -1):
        line = lines[at]
        if line.source != source:
            continue
        if line.role not in ("frame", "code") or len(found) >= limit:
            break
        found.append(line.text.strip())
    return found[::-1]


def _settle(rule: Rule, lines: list[Line], index: int) -> str:
    """The class of a memory rule where the surroundings of the line have a say."""
    if "NOT_INITIALIZED" in lines[index].text and any(
        signs.BROKEN_CONTEXT.search(line.text) for line in lines[max(0, index - 200) : index]
    ):
        return "unknown"
    if rule.may_pin:
        below = [line.text for line in lines[index + 1 : index + 30] if line.text.startswith("frame #")]
        near = [line.text for line in lines[index + 1 : index + 2] if line.level == 3 or "alloc" in line.text]
        if any(signs.PINNING.search(text) for text in [*trace(lines, index, _PIN_LINES), *below, *near]):
            return "host_memory"
    return rule.failure_class
