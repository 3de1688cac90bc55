"""The verbs. Each is a thin function in the modules beside this one; its work lives in the room it calls."""

from collections.abc import Callable
from typing import Annotated

import typer

from . import measure, predict, release, workload

HELP_OPTIONS, WIDTH = ["-h", "--help"], 100
EPILOG = """\
\b
Exit codes: 0 done; 1 a check failed; 2 the call was wrong; 3 this environment cannot do it.
Data goes to stdout, messages and progress to stderr. Help on one verb: fitproof VERB --help
"""

app = typer.Typer(
    name="fitproof",
    help="Will this LLM post-training configuration fit in the GPU memory I have, and how do you know?",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: quick to start, the same in every terminal, quoted verbatim in docs/cli.md
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP_OPTIONS, "max_content_width": WIDTH},
)

VERBS: tuple[Callable, ...] = (
    release.verify,
    release.reproduce,
    release.build,
    release.views,
    release.show,
    measure.doctor,
    measure.plan,
    measure.run,
    measure.pack,
    measure.diagnose,
    predict.predict,
    workload.workload,
)
for verb in VERBS:
    app.command()(verb)


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__
        from .output import emit

        emit(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    # The text in Typer(...) is the help; the option's callback answers it.
    pass
