"""docs/cli.md from the real help of every verb.

python -m fitproof.cli.reference            # write it (`make docs`)
python -m fitproof.cli.reference --check    # exit 1 when it is stale (`make lint`)
"""

import argparse
import sys
from pathlib import Path

PAGE = Path("docs/cli.md")
INTRODUCTION = """\
# Command reference

Generated from the help of the command by `make docs`; do not edit.

The release folder is the nearest one above the current directory that holds `release.json`, or `--root`. Data goes to
stdout; messages, progress and errors go to stderr. `--json` prints one JSON document on every verb that prints a table.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a check failed: mismatch, corruption, missing evidence |
| 2 | the call was wrong: unknown verb, option, view, setting |
| 3 | this environment cannot do it: no GPU, a missing extra |
| 130 | interrupted from the keyboard |

An error names its subject, what was found, what was expected, and the next command to type.
"""


def page() -> str:
    """The Markdown text."""
    from typer.main import get_command

    from .app import HELP_OPTIONS, VERBS, WIDTH, app

    command = get_command(app)
    sections = [("fitproof", command)]
    sections += [(f"fitproof {verb.__name__}", command.commands[verb.__name__]) for verb in VERBS]
    parts = [INTRODUCTION]
    for name, verb in sections:
        context = verb.context_class(verb, info_name=name, terminal_width=WIDTH, help_option_names=HELP_OPTIONS)
        parts.append(f"## {name}\n\n```text\n{verb.get_help(context).rstrip()}\n```\n")
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fitproof.cli.reference", description=f"Write {PAGE}, or check it.")
    parser.add_argument("--check", action="store_true", help="exit 1 when the page is stale")
    if parser.parse_args().check:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page():
            sys.exit(f"{PAGE}\n  found:    stale\n  expected: the help of the command\n  next:     make docs")
        return
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
