"""release.json: what one release contains, with digests. The classes are its format; other keys are errors.

It also carries a copy of every view's schema, so that `verification/` needs nothing but published files.
"""

import dataclasses
import json
import re
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fitproof.errors import EvidenceError
from fitproof.evidence.files import HEX64, LFS_HEAD, LFS_HINT, REFETCH_HINT, open_regular, read_sidecar
from fitproof.evidence.inputs import tally
from fitproof.evidence.names import archive_name_fault, name_fault
from fitproof.evidence.reader import read_members
from fitproof.evidence.root import RELEASE
from fitproof.schema.records import SCHEMA_VERSION
from fitproof.schema.view import View

MAX_RELEASE_BYTES = 1 << 26
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveEntry:
    """One archive below releases/."""

    name: str
    bytes: int
    """Of the compressed file, as `sha256`."""
    sha256: str
    tar_sha256: str
    """Of the uncompressed tar: equal however it was compressed."""
    panels: tuple[str, ...]
    device: str | None
    """As the trials name it (several: joined by ', '); null for an archive without trials."""
    attempts: int
    """Attempt folders."""
    members: int
    """Without MEMBERS.sha256."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewFile:
    """One Parquet file of a view; `path` is relative to the root."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewEntry:
    """One view: its rows over all files, and a copy of its schema."""

    name: str
    rows: int
    content_sha256: str
    """Over the sorted canonical rows: equal if only the encoding changed."""
    files: tuple[ViewFile, ...]
    schema: View


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """The whole file. Archives and views are sorted by name."""

    schema_version: int
    tag: str
    parent_commit: str | None
    """The commit that the release was built on; null for the first."""
    code_digest: str
    writer: str
    """What wrote the Parquet files, with its version."""
    tools: dict[str, str]
    """Name -> version of everything the bytes of a release depend on."""
    archives: tuple[ArchiveEntry, ...]
    views: tuple[ViewEntry, ...]

    def __post_init__(self) -> None:
        if faults := list(_faults(self)):
            raise ValueError("; ".join(faults))


def _faults(release: Release) -> typing.Iterator[str]:
    if release.schema_version != SCHEMA_VERSION:
        yield f"schema_version {release.schema_version} is unknown, this code knows {SCHEMA_VERSION}"
    if release.parent_commit is not None and not _COMMIT.fullmatch(release.parent_commit):
        yield f"parent_commit {release.parent_commit!r} is no commit id"
    digests = [("code_digest", release.code_digest)]
    for kind, entries in (("archives", release.archives), ("views", release.views)):
        names = [entry.name for entry in entries]
        if names != sorted(set(names)):
            yield f"{kind} are not sorted by name, each once"
    for archive in release.archives:
        if fault := archive_name_fault(archive.name):
            yield f"archive {archive.name!r} {fault}"
        digests += [(f"{archive.name} sha256", archive.sha256), (f"{archive.name} tar_sha256", archive.tar_sha256)]
    for view in release.views:
        if view.schema.name != view.name:
            yield f"view {view.name} has the schema of {view.schema.name}"
        digests.append((f"{view.name} content_sha256", view.content_sha256))
        for file in view.files:
            if name_fault(file.path) or not file.path.startswith("views/"):
                yield f"view {view.name} has a file {file.path!r}, which is not below views/"
            digests.append((f"{file.path} sha256", file.sha256))
    yield from (f"{what} {digest!r} is not 64 lower-case hex digits" for what, digest in digests
                if not HEX64.fullmatch(digest))  # fmt: skip


def dump_release(release: Release) -> str:
    """The one text of a release: sorted keys, indent 1, final line feed."""
    return json.dumps(dataclasses.asdict(release), sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def load_release(data: bytes) -> Release:
    """Parse release.json. EvidenceError for broken JSON, unknown or missing keys, wrong types, unknown version."""
    if data.startswith(LFS_HEAD):
        raise EvidenceError(RELEASE, found="a Git LFS pointer", expected="JSON", hint=LFS_HINT)
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_object, parse_constant=_no_constant)
        version = value.get("schema_version") if isinstance(value, dict) else SCHEMA_VERSION
        if version != SCHEMA_VERSION:  # before the keys, which another version may well have changed
            raise ValueError(f"schema_version {version!r} is unknown, this code knows {SCHEMA_VERSION}")
        return _typed(value, Release, "$")
    except (ValueError, RecursionError) as error:  # JSON and UTF-8 errors are ValueErrors
        raise EvidenceError(RELEASE, found=str(error) or "nesting too deep", hint=REFETCH_HINT) from None


def read_release(root: Path) -> Release:
    """release.json of a published tree, which must be byte for byte what `dump_release` writes."""
    with open_regular(root / RELEASE, RELEASE) as file:
        data = file.read(MAX_RELEASE_BYTES)
    release = load_release(data)
    canonical = dump_release(release).encode()
    if data != canonical:
        at = next((i for i, (a, b) in enumerate(zip(data, canonical, strict=False)) if a != b), len(canonical))
        raise EvidenceError(
            RELEASE,
            found=f"from byte {at} on {data[at : at + 40]!r}",
            expected=f"{canonical[at : at + 40]!r} (sorted keys, indent 1, final line feed)",
            hint=REFETCH_HINT,
        )
    return release


def archive_entry(path: Path) -> ArchiveEntry:
    """What release.json must say about an archive, read to its end against its sidecar. EvidenceError if it is bad."""
    sha256 = read_sidecar(path)
    reader = read_members(path, expected_sha256=sha256)
    names, devices = [], set()
    for member in reader:
        names.append(member.name)
        if member.name.endswith("/trial.json"):
            devices.add(_device(member.data))
    panels, attempts = tally(names)
    assert reader.bytes is not None
    assert reader.tar_sha256 is not None
    return ArchiveEntry(
        name=path.name,
        bytes=reader.bytes,
        sha256=sha256,
        tar_sha256=reader.tar_sha256,
        panels=panels,
        device=", ".join(sorted(d for d in devices if d)) or None,
        attempts=attempts,
        members=len(names),
    )


def _device(trial: bytes) -> str | None:
    """The device of a trial.json; None where it does not parse, which is for the pipeline to report."""
    try:
        device = json.loads(trial)["device"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return device if isinstance(device, str) else None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object with one key twice")
    return value


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _typed(value: Any, kind: Any, where: str) -> Any:
    """`value`, as parsed from JSON, as an instance of a type annotation. ValueError with the place if it is none."""
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise ValueError(f"{where} is {_named(value)}, expected an object")
        hints = typing.get_type_hints(kind)
        wrong = sorted(f"missing key {key}" for key in hints.keys() - value.keys())
        wrong += sorted(f"unknown key {key!r}" for key in value.keys() - hints.keys())
        if wrong:
            raise ValueError(f"{where}: {', '.join(wrong)}")
        return kind(**{key: _typed(value[key], hints[key], f"{where}.{key}") for key in hints})
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:  # X | None
        return None if value is None else _typed(value, arguments[0], where)
    if origin is tuple and isinstance(value, list):  # tuple[X, ...]
        return tuple(_typed(item, arguments[0], f"{where}[{i}]") for i, item in enumerate(value))
    if origin is dict and isinstance(value, dict):
        return {key: _typed(item, arguments[1], f"{where}.{key}") for key, item in value.items()}
    if origin is None and type(value) is kind and not (kind is int and not 0 <= value < 2**63):
        return value
    raise ValueError(f"{where} is {_named(value)}, expected {getattr(kind, '__name__', kind)}")


def _named(value: Any) -> str:
    return repr(value) if isinstance(value, int | float | None) else type(value).__name__
