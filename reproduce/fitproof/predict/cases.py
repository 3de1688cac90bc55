"""What to predict: the configurations of a panel on the machine that is to measure it, or those that archives hold."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..runner.plan import Slot, settings_from
from ..schema.settings import Settings, major_minor
from ..simulate.profile import load_profile
from .cache import versions


@dataclass(frozen=True, slots=True)
class Machine:
    """What of the measuring machine is part of a configuration: device name, major.minor of torch and transformers."""

    device: str
    torch: str
    transformers: str


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration."""

    settings: Settings
    machine: Machine

    @property
    def configuration_id(self) -> str:
        m = self.machine
        return self.settings.configuration_id(device=m.device, torch=m.torch, transformers=m.transformers)


def machine(gpu: str, torch: str | None, transformers: str | None) -> Machine:
    """The profiled card with these versions; None: the torch that the profile was measured with, and the transformers
    installed here. Raises UsageError for what is no version.
    """
    profile = load_profile(gpu)
    given = {"torch": torch or profile.torch, "transformers": transformers or versions()["transformers"]}
    for name, version in given.items():
        if not all(part.isdecimal() for part in major_minor(version).split(".")) or "." not in version:
            raise UsageError(f"--{name} {version}", found="no version", expected="major.minor, such as 2.11")
    return Machine(profile.device_name, major_minor(given["torch"]), major_minor(given["transformers"]))


def planned(slots: Iterable[Slot], on: Machine) -> list[Case]:
    """One case per configuration of the slots, whatever its seeds, in their order."""
    return list(dict.fromkeys(Case(slot.settings, on) for slot in slots))


def archived(archives: Sequence[Path], gpu: str) -> list[Case]:
    """One case per configuration of which the archives hold an attempt on the profiled card. Each archive's digest is
    checked before it is opened. Raises UsageError (no such file), EvidenceError (not an intact archive).
    """
    from ..evidence.files import read_sidecar
    from ..evidence.reader import read_members

    device, cases = load_profile(gpu).device_name, {}
    for archive in archives:
        for member in read_members(archive, expected_sha256=read_sidecar(archive)):
            if member.name.endswith("/trial.json"):
                trial = json.loads(member.data)
                if trial["device"] == device:
                    on = Machine(device, major_minor(trial["torch"]), major_minor(trial["transformers"]))
                    cases[Case(settings_from(trial["settings"]), on)] = None
    return list(cases)
