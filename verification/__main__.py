"""python -m verification [--root DIR] [all | digests | checks | counts | headline | expect --reason TEXT]

Exit codes: 0 everything agrees, 1 something does not, 2 the call was wrong. Findings to stdout, progress to stderr.
"""

import argparse
import datetime
import sys
import time
from pathlib import Path

from . import digests, expected_counts, recompute, run_checks
from .release import NotPublished, Release, read_release


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m verification", description="Check a release by a second path.")
    parser.add_argument("--root", type=Path, default=Path(), help="folder with release.json (default: here)")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    verbs.add_parser("all", help="digests, checks, counts and headline numbers (the default)")
    verbs.add_parser("digests", help="published files against MANIFEST.sha256 and release.json")
    verbs.add_parser("checks", help="SQL checks that must return no row")
    verbs.add_parser("counts", help="row counts against expected/row_counts.csv")
    verbs.add_parser("headline", help="headline numbers from the views and again from the archives")
    expect = verbs.add_parser("expect", help="maintainers: write the row counts that are published now")
    expect.add_argument("--reason", required=True, help="why the changed counts are right")
    expect.add_argument("--date", type=datetime.date.fromisoformat, default=None, help="default: today, UTC")
    args = parser.parse_args(arguments)
    try:
        release = read_release(args.root)
        if args.verb == "expect":
            date = args.date or datetime.datetime.now(datetime.UTC).date()
            moved = expected_counts.write_expected(release, reason=args.reason, date=date)
            print(f"{expected_counts.FILE.name}: {moved} lines new, changed or gone")
            return 0
        wanted = ["digests", "checks", "counts", "headline"] if args.verb in (None, "all") else [args.verb]
        failed = [verb for verb in wanted if not _run(verb, release)]
    except NotPublished as error:
        print(f"{error}\n  next:     fitproof verify, or --root FOLDER_WITH_RELEASE", file=sys.stderr)
        return 1
    return 1 if failed else 0


def _run(verb: str, release: Release) -> bool:
    start = time.perf_counter()
    parts = {"digests": _digests, "checks": _checks, "counts": _counts, "headline": _headline}
    summary, problems = parts[verb](release)
    print(f"{'FAIL' if problems else 'ok':4} {verb}: {summary}")
    for problem in problems:
        print("  " + problem.replace("\n", "\n  "))
    print(f"{verb}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
    return not problems


def _digests(release: Release) -> tuple[str, list[str]]:
    lines = digests.differences(release)
    return f"{len(lines)} differences from MANIFEST.sha256, release.json and sidecars", lines


def _checks(release: Release) -> tuple[str, list[str]]:
    count, failures = run_checks.run_checks(release)
    return f"{count - len(failures)} of {count} checks return no row", [f.render() for f in failures]


def _counts(release: Release) -> tuple[str, list[str]]:
    lines = expected_counts.differences(release)
    return f"{len(lines)} differences from the committed row counts per view and archive", lines


def _headline(release: Release) -> tuple[str, list[str]]:
    found, lines = recompute.compare(release)
    return f"{len(found)} numbers from the views equal those from the archives", lines


if __name__ == "__main__":
    sys.exit(main())
