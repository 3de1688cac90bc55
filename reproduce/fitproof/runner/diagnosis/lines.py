"""From raw log text to lines that can be judged: prefixes of launchers taken off, severity and role recognised.

A line's `role` is one of
    frame     `File "...", line N, in f` of a Python traceback
    code      source text below a frame (string literals in it are not events)
    quoted    text that models or users wrote and the program printed: prompts, completions, tables of samples
    progress  a training or serving step that came out well
    finish    the program says it is done
    text      everything else
"""

import re
from dataclasses import dataclass

# A line longer than this is judged by its two ends: a message stands at one of them, and matching stays linear.
LINE_LIMIT = 4000

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LEVEL_WORDS = {"DEBUG": 0, "INFO": 1, "WARN": 2, "WARNING": 2, "ERROR": 3, "CRITICAL": 3, "FATAL": 3}
_GLOG = {"D": 0, "I": 1, "W": 2, "E": 3, "F": 3}
_LEVEL = re.compile(r"\b(DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b")
_LEVEL_KEY = re.compile(
    r"\b(?:level|levelname|severity)[\"']?\s*[=:]\s*[\"']?(debug|info|warn|warning|error|critical|fatal)\b", re.I
)
_GLOG_LEVEL = re.compile(
    r"(?:^|[\s\[:])(?:\d{4}-\d\d-\d\d [\d:.]+: )?([DIWEF])(?:\d{3,4} \d\d:| tensorflow/| external/| \d+ \d+\] )"
)
_WARNING_CLASS = re.compile(r"\b[A-Z]\w*Warning\b|^Warning:|\bwarnings?\.warn\b")

# What launchers put before a child's own text. `source` groups name the process, so that ranks can be told apart.
_PREFIXES = tuple(
    re.compile(p)
    for p in (
        r"\((?P<source>[\w.:/ -]{1,80}?(?: |, )?(?:pid|ip)=[^)]{1,120})\) ?",
        r"\[(?P<source>(?:rank|default|Rank ?)\d+)\]:? ?",
        r"(?P<source>\d{1,5}): (?=\S)",
        r"(?P<source>[A-Za-z][\w.-]{0,60}\d[\w.-]{0,60}):(?: (?=\S)|\s*$)(?!\s*\d+:\d+ \[)",
        r"(?P<source>[\w.-]{1,80}:\d{1,8}:\d{1,8}) \[\d+\] ",
        r"(?P<source>[\w.-]{1,60})\s{1,20}\| (?=\S)",
        r"(?:stderr|stdout)(?: [FP])?:? ",
        r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+\d\d-\d\d(?: [\d:]+)?(?: \[?[\w./-]+:\d+\]?)? ?",
        r"\[?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?(?: [A-Z]+\d+)*\]? ?(?:- )?",
        r"\[\s*\d+\.\d+\] ",
        r"[DIWEF]\d{4} [\d:.]+ +\d+ \S+\] ",
        r"\[[\w./-]+\.(?:py|cpp|cc|cu|h):\d+\] ?",
    )
)
_PREFIX_ROUNDS = 4

_FRAME = re.compile(
    r'^\s*File "[^"]{0,400}", line \d+(?:, in .*)?$'
    r"|^(?:/\S{1,300}|~/\S{1,300}|<ipython-input\S{1,80}|Cell In\[\d+\], line \d+).{0,40} in \S"
)
_CODE = re.compile(
    r"(?:raise |return |with |for |if |assert |await |self[.:]|f?\"|[\w.]{1,200}\(|[\w., ]{1,200} = |[~^]+\s*$)"
)
_NOTEBOOK_CODE = re.compile(r"-{2,}> *\d+ ")
_CODE_INDENT = 3
_TRACEBACK = "Traceback (most recent call last)"

_BLOCK_START = re.compile(
    r"[\[<*#]{0,3} {0,3}(?:prompt|completion|response|question|answer|generation|generated(?: text)?|model[ _]output"
    r"|sample|user|assistant|solution|ground[ _]truth|input text|output text)s? {0,3}(?:#?\d{1,9} {0,3})?"
    r"[\]>*]{0,3} {0,3}(?::|(?<=\])|$)",
    re.I,
)
_BLOCK_END = re.compile(r"^\s*(?:\[(?:score|reward)\]|[=*#_-]{5,}\s*$)", re.I)
_BLOCK_LINES = 400
_TABLE = re.compile(r"^\s*[|│┃┆╭╰├]")
# Tables of servers report errors of their own; they are no samples.
_TABLE_REPORT = re.compile(r"UNAVAILABLE:|\[ERROR\]")

_PROGRESS = re.compile(
    r"""[{,]\s*["'](?:train_|eval_|actor/|critic/)?loss["']\s*:"""
    r"|\b(?:global[ _])?(?:step|iter|iteration|epoch)s?\b[ :=\[#(]*\d+.{0,80}\b(?:loss|reward|lr|ppl|s/it|elapsed|grad)"
    r"|\bstep:\d+ - |\bactor/|\btrain_inner\b|\bAvg (?:prompt|generation) throughput\b|\bDecode batch\b"
    r'|"POST [^"]{0,200}" 200',
    re.I,
)
_NOT_PROGRESS = re.compile(r"\b(?:error|fail(?:ed|ure)?|exception|traceback|out of memory)\b", re.I)
_BAR = re.compile(r"\d{1,3}%\|[^|]{0,300}\|\s*(\d+)/(\d+) ")
_FINISH = re.compile(
    r"""["']train_runtime["']\s*:|\b(?:training|finetuning|fine-tuning|run|job|evaluation)\b.{0,30}\b(?:finished|completed?|done)\b"""
    r"|\b(?:finished|completed|done) (?:training|all \d* ?steps)\b|\bfinal checkpoint (?:written|saved)|\ball done\b"
    r"|\bsaving model to\b.*\bdone\b|\bexited with (?:exit )?code 0\b|`Trainer\.fit` stopped|\bfinished successfully\b",
    re.I,
)
_NOT_FINISH = re.compile(r"\b(?:not|never|before|until|when|if|after|fail(?:ed|ure)?|error|interrupted)\b|\?", re.I)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a log. `level`: 0 debug, 1 info, 2 warning, 3 error, None where the line names none."""

    number: int
    text: str  # without the launcher's prefix; leading blanks kept
    source: str  # the process as the prefix names it, "" without one
    level: int | None
    role: str


def _level(raw: str, body: str) -> int | None:
    head = raw[:160]
    if "NCCL WARN" in head:
        return 3  # NCCL has no error level: its WARN lines are the errors
    if found := _GLOG_LEVEL.search(head):
        return _GLOG[found[1]]
    if found := _LEVEL.search(head):
        return _LEVEL_WORDS[found[1]]
    if found := _LEVEL_KEY.search(head):
        return _LEVEL_WORDS[found[1].upper()]
    return 2 if _WARNING_CLASS.search(body[:160]) else None


def _strip_prefixes(raw: str) -> tuple[str, str]:
    text, source = raw, ""
    for _ in range(_PREFIX_ROUNDS):
        for pattern in _PREFIXES:
            if found := pattern.match(text):
                source = source or found.groupdict().get("source") or ""
                text = text[found.end() :]
                break
        else:
            break
    return text, source


def _clip(raw: str) -> str:
    return raw if len(raw) <= LINE_LIMIT else raw[: LINE_LIMIT // 2] + " ... " + raw[-LINE_LIMIT // 2 :]


class _Reader:
    """Walks the lines once and keeps what a line's role depends on: open tracebacks, open samples, bars seen."""

    def __init__(self) -> None:
        self.traceback: dict[str, bool] = {}
        self.block_left = 0
        self.block_source = ""
        self.fenced = False
        self.bars: dict[int, int] = {}

    def role(self, text: str, source: str, level: int | None) -> str:
        stripped = text.strip()
        if self.block_left and not self._block_ends(stripped, source, level):
            self.block_left -= 1
            return "quoted"
        if _BLOCK_START.match(stripped) and "error" not in stripped[:40].lower():
            self.block_left, self.block_source, self.fenced = _BLOCK_LINES, source, False
            return "quoted"
        if _TABLE.match(text) and not _TABLE_REPORT.search(text):
            return "quoted"
        if _FRAME.match(text):
            self.traceback[source] = True
            return "frame"
        if self.traceback.get(source) and text[:1] in (" ", "\t"):
            return "code"
        self.traceback[source] = False
        indent = len(text) - len(text.lstrip())
        if (indent >= _CODE_INDENT and _CODE.match(stripped)) or _NOTEBOOK_CODE.match(text):
            return "code"
        if (level or 0) < 2 and not _NOT_PROGRESS.search(text):
            if _FINISH.search(text) and not _NOT_FINISH.search(text):
                return "finish"
            if self._bar_moved(text) or _PROGRESS.search(text):
                return "progress"
        return "text"

    def _block_ends(self, stripped: str, source: str, level: int | None) -> bool:
        if stripped.startswith("```"):
            self.fenced = not self.fenced
        over = (
            _BLOCK_END.match(stripped)
            or source != self.block_source
            or level is not None
            or (_TRACEBACK in stripped and not self.fenced)
            or (_PROGRESS.search(stripped) and not self.fenced)
        )
        if over:
            self.block_left = 0
        return bool(over)

    def _bar_moved(self, text: str) -> bool:
        """A bar is drawn once more when the program dies, so only a larger count than any before is progress."""
        found = _BAR.search(text)
        if not found:
            return False
        count, total = int(found[1][:18]), int(found[2][:18])
        moved = count > self.bars.get(total, 0)
        self.bars[total] = max(count, self.bars.get(total, 0))
        return moved


def read_lines(text: str) -> list[Line]:
    """All lines of a log in order, blank ones left out; carriage returns of progress bars count as line ends."""
    reader, lines = _Reader(), []
    for number, raw in enumerate(text.replace("\r", "\n").split("\n")):
        if not raw.strip():
            continue
        raw = _clip(raw)
        if "\x1b" in raw:
            raw = _ANSI.sub("", raw)
        body, source = _strip_prefixes(raw)
        level = _level(raw, body)
        lines.append(Line(number=number, text=body, source=source, level=level, role=reader.role(body, source, level)))
    return lines
