"""Every published file is the one that MANIFEST.sha256 and release.json name, and no other file lies beside them."""

from .archives import sha256_file
from .release import Release


def differences(release: Release) -> list[str]:
    """Every disagreement in words."""
    root = release.root
    listed, lines = {}, []
    for number, line in enumerate((root / "MANIFEST.sha256").read_text(encoding="utf-8").splitlines(), 1):
        digest, separator, name = line.partition("  ")
        if not separator or name in listed:
            lines.append(f"MANIFEST.sha256 line {number}: not 'digest  path', or a path listed twice")
        listed[name] = digest
    files = [p for folder in ("views", "releases") for p in (root / folder).rglob("*") if p.is_file()]
    there = {p.relative_to(root).as_posix() for p in files}
    lines += [f"{name}: published, not listed in MANIFEST.sha256" for name in sorted(there - listed.keys())]
    for name, digest in sorted(listed.items()):
        path = root / name
        if not path.is_file():
            lines.append(f"{name}: listed in MANIFEST.sha256, not there")
        elif (found := sha256_file(path)) != digest:
            lines.append(f"{name}: SHA-256 is {found}, MANIFEST.sha256 says {digest}")
    for name, archive in sorted(release.archives.items()):
        if listed.get(f"releases/{name}") != archive["sha256"]:
            lines.append(f"releases/{name}: release.json and MANIFEST.sha256 give different digests")
        sidecar = root / "releases" / f"{name}.sha256"
        if not sidecar.is_file() or sidecar.read_text(encoding="utf-8").split() != [archive["sha256"], name]:
            lines.append(f"releases/{name}.sha256: not the digest in release.json")
    return lines
