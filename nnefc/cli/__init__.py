"""The command line: `nnefc check | inspect | flatten | run | compare | compile | bench | ...`.

Each command is a function named like it, in a module or package of that name.  Commands import
the compiler inside the function, so that `--help` and completion answer at once.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nnefc.cli.bench import command as bench_command
from nnefc.cli.cache import command as cache_command
from nnefc.cli.check import check
from nnefc.cli.compare import compare
from nnefc.cli.compile import command as compile_command
from nnefc.cli.demo import demo
from nnefc.cli.flatten import flatten
from nnefc.cli.inspect import command as inspect_command
from nnefc.cli.ops import ops
from nnefc.cli.profile import command as profile_command
from nnefc.cli.run import run

PROGRAM = "nnefc"
"""The name in usage texts and completion, also under `python -m nnefc`."""


class Interrupted(Exception):
    """Ctrl-C, as an exception that typer does not handle."""


class _Commands(TyperGroup):
    """Commands that raise `Interrupted` for Ctrl-C, which some versions of typer swallow."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None


app = typer.Typer(
    name=PROGRAM,
    cls=_Commands,
    help="Compile neural networks in Khronos NNEF to native CPU code, and run them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, command in {
    "check": check,
    "inspect": inspect_command.inspect,
    "flatten": flatten,
    "run": run,
    "compare": compare,
    "compile": compile_command.compile_,
    "bench": bench_command.bench,
    "profile": profile_command.profile,
    "ops": ops,
    "demo": demo,
}.items():
    app.command(name)(command)
app.add_typer(cache_command.cache, name="cache")


def _version(show: bool) -> None:
    if show:
        from nnefc.support.package import VERSION

        typer.echo(f"nnefc {VERSION}")
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
    """Run the command line; expected errors print a message and exit with status 1."""
    from nnefc.cli.support.printing import report
    from nnefc.support.errors import NnefError

    _prepare_output()
    os.environ.setdefault("NNEFC_AHEAD", "off")  # a command ends with what it was called for
    try:
        try:
            app(prog_name=PROGRAM)
        finally:
            sys.stdout.flush()
    except NnefError as error:
        report(error.errors)
        sys.exit(1)
    except BrokenPipeError:  # the reader of the output has closed it
        _discard_output()
        sys.exit(1)
    except OSError as error:
        if error.filename is not None:
            raise
        _discard_output()
        reason = error.strerror or str(error)
        print(f"error: cannot write the output: {reason} [data/write]", file=sys.stderr)
        sys.exit(1)
    except (Interrupted, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except MemoryError:
        print("error: out of memory [limit/memory]", file=sys.stderr)
        sys.exit(1)


def _prepare_output() -> None:
    """Open closed standard streams; let both replace characters that they cannot encode."""
    for name, errors in (("stdout", "replace"), ("stderr", "backslashreplace")):
        stream = getattr(sys, name)
        if stream is None:  # closed by the parent process
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (stays open)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def _discard_output() -> None:
    """Redirect standard output to the null device: buffered text then raises no error at exit."""
    with suppress(OSError, ValueError), Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), sys.stdout.fileno())
