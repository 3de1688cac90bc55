"""`--set key=value` and `--config FILE` into a resolved Settings.

Keys are schema names or their aliases; values are read by the setting's own type: true/false for booleans, plain
digits for integers, MiB or '24GiB' for a capacity. --set wins over --config; what neither names takes the schema's
default, and `unset_defaults` says which.
"""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_type_hints

from ..errors import EnvironmentLacks, SettingsError
from ..schema.settings import ALIASES, CHOICES, FIELD_NAMES, Settings, resolve

TRUE, FALSE, NULL = {"true", "yes", "on"}, {"false", "no", "off"}, {"null", "none"}
MIB_PER = {"": 1, "mib": 1, "gib": 1024, "tib": 1024 * 1024}
HINT = "fitproof plan --help  # --set key=value, --config FILE"


def parse_settings(sets: Sequence[str] = (), config: Path | None = None) -> Settings:
    """The resolved settings of `--set` strings over a config file. Raises SettingsError, which names every problem."""
    return resolve(**given_settings(sets, config))


def given_settings(sets: Sequence[str] = (), config: Path | None = None) -> dict[str, object]:
    """Schema name -> typed value, only what the user wrote."""
    given, problems = {}, []
    for source, pairs in ((str(config), _read_config(config) if config else []), ("--set", [_split(s) for s in sets])):
        seen: dict[str, str] = {}
        for key, value in pairs:
            name = ALIASES.get(key, key)
            if name not in FIELD_NAMES:
                close = difflib.get_close_matches(key, [*FIELD_NAMES, *ALIASES], n=1)
                problems.append(f"{source}: {key!r} is no setting" + (f"; did you mean {close[0]!r}?" if close else ""))
            elif name in seen:
                problems.append(f"{source}: {name} is given twice, as {seen[name]!r} and {key!r}")
            else:
                seen[name] = key
                try:
                    given[name] = typed(name, value)
                except ValueError as error:
                    problems.append(f"{source}: {error}")
    if problems:
        raise SettingsError("settings", found="; ".join(problems), hint=HINT)
    return given


def unset_defaults(given: Mapping[str, object], settings: Settings) -> dict[str, object]:
    """What the user left open and the value it took, in schema order, without settings that do not apply (null)."""
    return {n: getattr(settings, n) for n in FIELD_NAMES if n not in given and getattr(settings, n) is not None}


def typed(name: str, value: object) -> object:
    """`value` as the type of setting `name`. Text comes from a command line; other types from a config file.

    Raises ValueError for text that the type cannot be. Combinations are checked later, by the schema.
    """
    if not isinstance(value, str):
        return value
    text, low = value.strip(), value.strip().lower()
    if low == "auto":
        return "auto"
    kinds = _kinds(name)
    if type(None) in kinds and low in NULL and low not in CHOICES.get(name, ()):
        return None
    if name == "capacity_mib":
        return capacity_mib(text)
    if bool in kinds:
        if low in TRUE | FALSE:
            return low in TRUE
        raise ValueError(f"{name}={value!r} is not true or false")
    if int in kinds:
        if re.fullmatch(r"[+-]?[0-9]+", text):
            return int(text)
        raise ValueError(f"{name}={value!r} is not an integer")
    if not text:
        raise ValueError(f"{name} is empty")
    return text


def capacity_mib(text: str) -> int:
    """'24576', '24576MiB', '24GiB' or '1.5GiB' -> MiB. Decimal gigabytes are refused: cards are sold in both."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", text)
    unit = match[2].lower() if match else None
    if unit in ("g", "gb", "m", "mb", "t", "tb"):
        raise ValueError(f"capacity {text!r}: say GiB (1,024 MiB) or MiB; a 24 GB card is asked for as 24GiB")
    if unit not in MIB_PER:
        raise ValueError(f"capacity {text!r} is not MiB or GiB; examples: 24GiB, 24576")
    mib = float(match[1]) * MIB_PER[unit]
    if mib != int(mib) or mib < 1:
        raise ValueError(f"capacity {text!r} is not a whole number of MiB")
    return int(mib)


def _kinds(name: str) -> set[type]:
    hint = get_type_hints(Settings)[name]
    return set(getattr(hint, "__args__", (hint,)))


def _split(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise SettingsError(f"--set {text}", found="no key=value", expected="for example --set rollout_n=8", hint=HINT)
    return key.strip(), value


def _read_config(path: Path) -> list[tuple[str, object]]:
    """The pairs of a flat JSON or YAML mapping, in file order."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--config {path}", found=str(error), expected="a readable JSON or YAML file") from None
    pairs = _read_yaml(path, text) if path.suffix in (".yaml", ".yml") else _read_json(path, text)
    for key, value in pairs:
        if not isinstance(key, str) or isinstance(value, dict | list):
            raise SettingsError(
                f"--config {path}", found=f"{key!r} with {type(value).__name__}", expected="a flat mapping of settings"
            )
    return pairs


def _read_json(path: Path, text: str) -> list[tuple[str, object]]:
    try:
        pairs = json.loads(text, object_pairs_hook=lambda found: _Pairs(found))
    except ValueError as error:
        raise SettingsError(
            f"--config {path}", found=f"no JSON: {error}", expected="JSON, or a name in .yaml"
        ) from None
    if not isinstance(pairs, _Pairs):
        raise SettingsError(f"--config {path}", found=type(pairs).__name__, expected="a flat mapping of settings")
    return [(key, dict(value) if isinstance(value, _Pairs) else value) for key, value in pairs]


class _Pairs(list):
    """A JSON object with its repeated keys, which a dict would silently drop."""


def _read_yaml(path: Path, text: str) -> list[tuple[str, object]]:
    try:
        import yaml
    except ImportError:
        raise EnvironmentLacks(f"--config {path}", found="no YAML reader", hint="pip install pyyaml") from None
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise SettingsError(f"--config {path}", found=f"no YAML: {problem}", expected="a flat mapping") from None
    if not isinstance(value, dict):
        raise SettingsError(f"--config {path}", found=type(value).__name__, expected="a flat mapping of settings")
    return list(value.items())
