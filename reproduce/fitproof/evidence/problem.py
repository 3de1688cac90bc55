"""One thing that a check found wrong. Checks collect problems and show them sorted, not only the first."""

from dataclasses import dataclass

from fitproof.errors import FitproofError


@dataclass(frozen=True, order=True, slots=True)
class Problem:
    """`subject` names the file or archive member; the other parts are as in fitproof.errors."""

    subject: str
    found: str = ""
    expected: str = ""
    hint: str = ""

    @classmethod
    def of(cls, error: FitproofError) -> "Problem":
        return cls(error.subject, error.found, error.expected, error.hint)

    def __str__(self) -> str:
        return FitproofError(self.subject, found=self.found, expected=self.expected, hint=self.hint).render()
