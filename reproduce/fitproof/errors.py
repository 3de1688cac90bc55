"""The failures fitproof knows. Each names its subject, what was found, what was expected, and the next command.

The exit code travels with the class: 1 a check failed, 2 the call was wrong, 3 this environment cannot do it.
"""


class FitproofError(Exception):
    """Base of every expected failure; `exit_code` is what the command line returns for it."""

    exit_code = 1

    def __init__(self, subject: str, *, found: str = "", expected: str = "", hint: str = ""):
        self.subject, self.found, self.expected, self.hint = subject, found, expected, hint
        super().__init__(self.render())

    def render(self) -> str:
        lines = [self.subject]
        if self.found:
            lines.append(f"  found:    {self.found}")
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.hint:
            lines.append(f"  next:     {self.hint}")
        return "\n".join(lines)


class CheckFailed(FitproofError):
    """A mismatch, corruption or missing evidence."""

    exit_code = 1


class EvidenceError(CheckFailed):
    """An archive, sidecar, manifest or raw record is not what it must be."""


class UsageError(FitproofError):
    """The call was wrong: unknown names, impossible settings."""

    exit_code = 2


class SettingsError(UsageError, ValueError):
    """Settings that contradict each other or name something unknown."""


class EnvironmentLacks(FitproofError):
    """This machine cannot do it: no GPU, a missing extra, an unsafe request."""

    exit_code = 3
