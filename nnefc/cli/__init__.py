"""The command line: `nnefc check | inspect | run | compare | compile | tune | bench | ...`.

Each command is a function named like it, in a module or package of that name, which is imported
when the command is called.  Commands import the compiler inside the function, so that `--help` and
completion answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from nnefc.cli.support.cache_notice import forget_stored, tell_of_stored_models
from nnefc.cli.support.diagnostics import forget_reported, report, reported_warnings
from nnefc.cli.support.printing import print_errors
from nnefc.cli.support.streams import discard_output, prepare_output
from nnefc.support.memory_errors import SMALLER

if TYPE_CHECKING:
    from nnefc.support.errors import Diagnostic

PROGRAM = "nnefc"
"""The name in usage texts and completion, also under `python -m nnefc`."""

COMMANDS: Final = {
    "check": ("check:check", "Report the errors of documents and of their data."),
    "inspect": ("inspect.command:inspect", "Show operations, shapes, parameters and memory."),
    "flatten": ("flatten:flatten", "Print a document without fragments and expressions."),
    "convert": ("convert.command:convert", "Write a model as an NNEF document or an ONNX file."),
    "pack": ("pack:pack", "Write a TensorFlow Lite model as an nnpackage, for onert."),
    "quantize": ("quantize.command:quantize", "Quantize a model after training, to 8 bits."),
    "run": ("run:run", "Run a model, and print or write its outputs."),
    "compare": ("compare.command:compare", "Compare a compiled model with the float64 reference."),
    "compile": ("compile.command:compile_", "Compile a model, show its plan, and save it."),
    "tune": ("tune:tune", "Measure and store the fastest algorithms for convolutions."),
    "bench": ("bench.command:bench", "Measure the latency and throughput of a model."),
    "profile": ("profile.command:profile", "Show where the time of an inference goes."),
    "ops": ("ops:ops", "List or describe operations."),
    "demo": ("demo:demo", "Recognise handwritten digits with a trained network."),
    "cache": ("cache.command:cache", "List, explain, verify, clear and warm the cache."),
}
"""For each command, the module below `nnefc.cli` with its function or group, and its short help."""

_UsageError: Any = typer.BadParameter.__base__
"""The error of a wrong command line, which typer does not export."""


_INTERRUPTED: Final = 130
"""The exit status after Ctrl-C."""


class Interrupted(Exception):
    """Ctrl-C, as an exception that typer does not handle."""


class _Commands(TyperGroup):
    """Commands that are imported when they are called.

    They raise `Interrupted` for Ctrl-C, which some versions of typer swallow.
    """

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name else command, rest

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


def _unloaded() -> None:
    """Stands for a command that `load_command` imports."""


for _name, (_, _help) in COMMANDS.items():
    app.command(_name, short_help=_help)(_unloaded)


def load_command(name: str) -> Any:
    """Import a command of `COMMANDS`."""
    from nnefc.cli.support.option_groups import expand_groups
    from nnefc.cli.support.path_options import check_paths

    module, _, attribute = COMMANDS[name][0].partition(":")
    command = getattr(import_module(f"nnefc.cli.{module}"), attribute)
    if not isinstance(command, typer.Typer):
        function, command = command, typer.Typer(add_completion=False, rich_markup_mode=None)
        expanded = expand_groups(function)
        command.command(name)(expanded)
        converted = typer.main.get_command(command)
        check_paths(converted, expanded.__annotations__)
        return converted
    return typer.main.get_command(command)


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
    """Run the command line, and end the process with its exit status."""
    prepare_output()
    forget_reported()
    forget_stored()
    os.environ.setdefault("NNEFC_AHEAD", "off")  # a command ends with what it was called for
    sys.exit(_run_app())


def _run_app() -> int:
    """Run the command of `sys.argv`; print expected errors.  Returns the exit status."""
    from nnefc.support.errors import Diagnostic, NnefError
    from nnefc.support.wording import shell_wording

    try:
        try:
            with shell_wording(), reported_warnings():
                status = app(prog_name=PROGRAM, standalone_mode=False) or 0
                if status == _INTERRUPTED:  # some versions of typer return it for Ctrl-C
                    raise Interrupted
                return status
        finally:
            sys.stdout.flush()
            tell_of_stored_models()
    except NnefError as error:
        return _failed(error.errors)
    except _UsageError as error:
        error.show()
        text = error.format_message()
        if text:  # without arguments the help is shown
            print_errors([Diagnostic("input/option", text, hint=f"{_called(error)} --help")])
        return error.exit_code
    except OSError as error:
        if error.filename is not None:
            raise
        discard_output()
        reason = error.strerror or str(error)
        return _failed([Diagnostic("data/write", f"cannot write the output: {reason}")])
    except (Interrupted, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    except MemoryError as error:
        reason = f": {error}" if str(error) else ""
        return _failed([Diagnostic("limit/memory", f"out of memory{reason}", hint=SMALLER)])


def _failed(errors: Sequence[Diagnostic]) -> int:
    """Print the errors of a command; returns its exit status."""
    report(errors)
    print_errors(errors)
    return 1


def _called(error: Any) -> str:
    """The command whose arguments are wrong."""
    return PROGRAM if error.ctx is None else error.ctx.command_path
