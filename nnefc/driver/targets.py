"""Generate code for several instruction sets.

A process has one row of `kernels.target.isa`, on which many of its caches depend.  Code for another
instruction set is therefore generated in a subprocess: it reads the model without code from a file,
and answers with a `TargetBuild`, which refers to arrays by number.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from nnefc.formats.files import reason
from nnefc.kernels.target.isa import BUILD, NATIVE, row_of
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    import numpy as np

    from nnefc.ir import Graph
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.artifact.build import TargetBuild
    from nnefc.runtime.artifact.write import PortableModel
    from nnefc.support.progress import Progress

    Array = np.ndarray[Any, Any]


def check_targets(targets: Sequence[str]) -> list[str]:
    """Targets without repetitions; raises NnefError `input/option` for unknown targets."""
    value: object = targets
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise NnefError.of(
            "input/option", f"targets are {value!r}, expected a list of at least one"
        )
    for name in targets:
        if name != NATIVE:
            row_of(str(name))
    return list(dict.fromkeys(map(str, targets)))


def build_targets(
    targets: Sequence[str],
    graph: Graph,
    portable: PortableModel,
    config: CompileConfig,
    progress: Progress | None = None,
) -> list[TargetBuild]:
    """The code of a prepared graph for each target.

    `progress` is called while the kernels of the targets are compiled, one after the other; for
    several targets, its labels begin with the target.
    """
    others = [name for name in targets if name != NATIVE]
    builds: dict[str, TargetBuild] = {}
    if NATIVE in targets:
        arrays = list(portable.arrays.values())
        builds[NATIVE] = build_native(
            graph, arrays, config, _with_target_label(progress, NATIVE, targets)
        )
    if others:
        with _temporary_file(portable) as path:
            for name in others:
                labelled = _with_target_label(progress, name, targets)
                if labelled is not None:
                    labelled(0, 1, "")  # the number of kernels is not known for a while
                builds[name] = _build_in_subprocess(name, path, config, labelled)
    return [builds[name] for name in targets]


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
def _temporary_file(portable: PortableModel) -> Generator[Path]:
    """A file with the model without code, which is removed at the end of the block."""
    from tempfile import TemporaryDirectory

    from nnefc.runtime.artifact.write import write_artifact

    with ExitStack() as stack:
        try:
            folder = stack.enter_context(TemporaryDirectory(prefix="nnefc-"))
            path = Path(folder) / "portable.nnefc"
            with path.open("wb") as file:
                write_artifact(file, portable, [])
        except OSError as error:
            raise NnefError.of(
                "data/write",
                f"cannot write a temporary file of {portable.nbytes:,} bytes: {reason(error)}",
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
    from nnefc.driver.lower import lower_prepared
    from nnefc.runtime.artifact.build import build

    program = lower_prepared(graph.clone(), config, keep_sources=True)
    return build(program, arrays, len(graph.inputs), len(graph.outputs), progress)


def _build_in_subprocess(
    name: str, path: Path, config: CompileConfig, progress: Progress | None
) -> TargetBuild:
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
            [sys.executable, "-P", "-m", "nnefc.driver.targets", path],
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


def main() -> None:
    """Build for the row in NNEFC_ISA: file as argument, `CompileConfig` on standard input.

    Writes the arguments of each call of `progress`, then a `TargetBuild` or an error, to standard
    output.
    """
    import pickle

    from nnefc.runtime.artifact.file import open_file
    from nnefc.runtime.artifact.read import Artifact

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
            artifact = Artifact(open_file(sys.argv[1]))
            graph, arrays = artifact.graph, artifact.arrays
            send(build_native(graph, arrays, config, advance))
        except NnefError as error:
            send(error)


if __name__ == "__main__":
    main()
