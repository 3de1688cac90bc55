"""Rows of the result: one measure each, ours beside a peer's of the same run, and the target to reach."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """`higher_is_better` decides how `ratio` reads: above 1 is always ours better. `target`: the bound to reach."""

    section: str
    measure: str
    ours: float | None
    peer: float | None
    peer_name: str
    target: float | None = None
    higher_is_better: bool = True

    @property
    def ratio(self) -> float | None:
        if not self.ours or not self.peer:
            return None
        return self.ours / self.peer if self.higher_is_better else self.peer / self.ours

    @property
    def is_reached(self) -> bool | None:
        if self.ours is None or self.target is None:
            return None
        return self.ours >= self.target if self.higher_is_better else self.ours <= self.target

    def record(self) -> dict:
        names = ("section", "measure", "ours", "peer", "peer_name", "target", "higher_is_better", "ratio", "is_reached")
        return {name: getattr(self, name) for name in names}


def text(rows: list[Row]) -> str:
    header = ("section", "measure", "ours", "peer", "ratio", "to reach", "")
    lines = [
        (r.section, r.measure, _number(r.ours), f"{_number(r.peer)} {r.peer_name}",
         "-" if r.ratio is None else f"{r.ratio:.2f}x",
         "-" if r.target is None else f"{'>=' if r.higher_is_better else '<='} {_number(r.target)}",
         {True: "reached", False: "missed", None: ""}[r.is_reached])
        for r in rows
    ]  # fmt: skip
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in [header, *lines]
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"
