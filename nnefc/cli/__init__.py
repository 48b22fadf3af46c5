"""The command line: `nnefc check | inspect | flatten | run | compare | compile | bench | demo`.

Every command is a module with one function of the same name.  What a command needs is
imported inside it, so that `--help` and completion answer at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nnefc.cli.bench import bench
from nnefc.cli.check import check
from nnefc.cli.compare import compare
from nnefc.cli.compile import compile_
from nnefc.cli.demo import demo
from nnefc.cli.flatten import flatten
from nnefc.cli.inspect import inspect
from nnefc.cli.ops import ops
from nnefc.cli.run import run

app = typer.Typer(
    name="nnefc",
    help="Compile neural networks in Khronos NNEF to native CPU code, and run them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, command in {
    "check": check,
    "inspect": inspect,
    "flatten": flatten,
    "run": run,
    "compare": compare,
    "compile": compile_,
    "bench": bench,
    "ops": ops,
    "demo": demo,
}.items():
    app.command(name)(command)


def _version(show: bool) -> None:
    if show:
        from nnefc import __version__

        typer.echo(f"nnefc {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Compile neural networks in Khronos NNEF to native CPU code, and run them."""


def main() -> None:
    """Run the command line; what a user can cause ends with a message and status 1."""
    from nnefc.cli.common import report
    from nnefc.errors import NnefError

    try:
        app()
    except NnefError as error:
        report(error.errors)
        sys.exit(1)
    except BrokenPipeError:  # the reader of our output went away
        sys.stderr.close()
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except MemoryError:
        print("error: out of memory [limit/memory]", file=sys.stderr)
        sys.exit(1)
