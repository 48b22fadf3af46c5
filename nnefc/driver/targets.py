"""Generate code for several instruction sets.

A process has one row of `kernels.target.isa`, on which many of its caches depend.  Code for another
instruction set is therefore generated in a subprocess: it reads the model without code from a file,
and answers with a `TargetBuild`, which refers to arrays by number.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Generic, TypeVar, cast

from nnefc.driver.precision import warn_of_targets
from nnefc.formats.files import reason
from nnefc.kernels.target.isa import BUILD, NATIVE
from nnefc.kernels.target.target_name import target_name
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    import numpy as np

    from nnefc.ir import Graph
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.artifact.build_static import TargetBuild
    from nnefc.runtime.artifact.write_static import PortableModel
    from nnefc.support.progress import Progress

    Array = np.ndarray[Any, Any]

B = TypeVar("B")


def check_targets(targets: Sequence[str]) -> list[str]:
    """The full names of targets, without repetitions.

    Raises NnefError `input/option` for unknown targets.
    """
    value: object = targets
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise NnefError.of(
            "input/option", f"targets are {value!r}, expected a list of at least one"
        )
    names = map(str, targets)
    return list(dict.fromkeys(name if name == NATIVE else target_name(name) for name in names))


@dataclass(frozen=True, slots=True)
class Task(Generic[B]):
    """What is built for each target."""

    native: Callable[[Progress | None], B]
    """Builds for the instruction set of this process."""
    write: Callable[[BinaryIO], None]
    """Writes the model without code, for a process of another instruction set."""
    nbytes: int
    """The least size of that file."""
    module: str = "nnefc.driver.targets"
    """The module that such a process runs; its `main` calls `serve`."""


def build_targets(
    targets: Sequence[str], task: Task[B], config: CompileConfig, progress: Progress | None = None
) -> list[B]:
    """The builds of a model for each target.

    `progress` is called while the kernels of the targets are compiled, one after the other; for
    several targets, its labels begin with the target.
    """
    warn_of_targets(config, targets)
    others = [name for name in targets if name != NATIVE]
    builds: dict[str, B] = {}
    if NATIVE in targets:
        builds[NATIVE] = task.native(_with_target_label(progress, NATIVE, targets))
    if others:
        with _temporary_file(task.write, task.nbytes) as path:
            for name in others:
                labelled = _with_target_label(progress, name, targets)
                if labelled is not None:
                    labelled(0, 1, "")  # the number of kernels is not known for a while
                builds[name] = _build_in_subprocess(task.module, name, path, config, labelled)
    return [builds[name] for name in targets]


def graph_task(graph: Graph, portable: PortableModel, config: CompileConfig) -> Task[TargetBuild]:
    """The task to build a prepared graph."""
    from nnefc.runtime.artifact.write_static import write_artifact

    arrays = list(portable.arrays.values())
    return Task(
        lambda progress: build_native(graph, arrays, config, progress),
        lambda file: write_artifact(file, portable, []),
        portable.nbytes,
    )


def _with_target_label(
    progress: Progress | None, name: str, targets: Sequence[str]
) -> Progress | None:
    """`progress` with labels that begin with the target `name`, if there are several."""
    if progress is None or len(targets) == 1:
        return progress

    def advance(done: int, total: int, label: str) -> None:
        progress(done, total, f"{name} {label}".rstrip())

    return advance


@contextmanager
def _temporary_file(write: Callable[[BinaryIO], None], nbytes: int) -> Generator[Path]:
    """A file with the model without code, which is removed at the end of the block."""
    from tempfile import TemporaryDirectory

    with ExitStack() as stack:
        try:
            folder = stack.enter_context(TemporaryDirectory(prefix="nnefc-"))
            path = Path(folder) / "portable.nnefc"
            with path.open("wb") as file:
                write(file)
        except OSError as error:
            raise NnefError.of(
                "data/write",
                f"cannot write a temporary file of {nbytes:,} bytes: {reason(error)}",
                hint="free disk space, or set TMPDIR to a folder with enough space",
            ) from error
        yield path


def build_native(
    graph: Graph,
    arrays: Sequence[Array],
    config: CompileConfig,
    progress: Progress | None = None,
) -> TargetBuild:
    """The code of a prepared graph for the instruction set of this process.

    `arrays`: of the graph.  `progress` is called while kernels are compiled.
    """
    from nnefc.driver.lower_graph import lower_prepared
    from nnefc.runtime.artifact.build_static import build

    program = lower_prepared(graph.clone(), config, keep_sources=True)
    return build(program, arrays, len(graph.inputs), len(graph.outputs), progress)


def _build_in_subprocess(
    module: str, name: str, path: Path, config: CompileConfig, progress: Progress | None
) -> Any:
    """The code of the model in a file for the target `name`, generated in a subprocess."""
    import pickle
    import subprocess

    environment = {
        **os.environ,
        "NNEFC_ISA": BUILD + name,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    with (
        path.with_suffix(".errors").open("w+b") as errors,
        subprocess.Popen(
            [sys.executable, "-P", "-m", module, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        answer: Any = None
        try:
            with process.stdin:
                pickle.dump(config, process.stdin)
            while isinstance(answer := pickle.load(process.stdout), tuple):
                if progress is not None:
                    progress(*cast(tuple[int, int, str], answer))
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):  # the process has ended
            answer = None
        except BaseException:
            process.kill()
            raise
        process.wait()
        errors.seek(0)
        error_lines = errors.read().decode(errors="replace").split("\n")
    if isinstance(answer, NnefError):
        raise answer
    if answer is None or process.returncode:
        lines = [line for line in error_lines if line.strip()]
        raise NnefError.of(
            "internal/code-generation",
            f"no code for {name}: {(lines or ['the compiler process ended'])[-1]}",
        )
    return answer


_PROTOCOL: Final = 5


def serve(build: Callable[[str, CompileConfig, Progress], object]) -> None:
    """Build for the row in NNEFC_ISA: file as argument, `CompileConfig` on standard input.

    Writes the arguments of each call of `progress`, then the result of `build` or an error, to
    standard output.
    """
    import pickle

    config: CompileConfig = pickle.load(sys.stdin.buffer)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(answer: object) -> None:
        pickle.dump(answer, answers, _PROTOCOL)
        answers.flush()

    def advance(done: int, total: int, label: str) -> None:
        send((done, total, label))

    with answers:
        try:
            send(build(sys.argv[1], config, advance))
        except NnefError as error:
            send(error)


def _build(path: str, config: CompileConfig, progress: Progress) -> TargetBuild:
    """The build of the graph in a file."""
    from nnefc.runtime.artifact.artifact_file import open_file
    from nnefc.runtime.artifact.read_static import Artifact

    artifact = Artifact(open_file(path))
    return build_native(artifact.graph, artifact.arrays, config, progress)


if __name__ == "__main__":
    serve(_build)
