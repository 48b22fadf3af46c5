"""Code for several instruction sets: that of this process here, others in processes of their own.

The row of `kernels.target.isa` is one for a process, and much that is kept depends on it.  Another
process gets the model without code in a file, and answers with a `Build`, which names arrays by
number.
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
    from nnefc.runtime.artifact.build import Build
    from nnefc.runtime.artifact.write import Portable
    from nnefc.support.progress import Progress

    Array = np.ndarray[Any, Any]


def check_targets(targets: Sequence[str]) -> list[str]:
    """Targets, each once; raises NnefError `input/option` for those that there are not."""
    given: object = targets
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise NnefError.of(
            "input/option", f"targets are {given!r}, expected a list of at least one"
        )
    for name in targets:
        if name != NATIVE:
            row_of(str(name))
    return list(dict.fromkeys(map(str, targets)))


def build_for(
    targets: Sequence[str],
    graph: Graph,
    portable: Portable,
    config: CompileConfig,
    progress: Progress | None = None,
) -> list[Build]:
    """The code of a prepared graph for each target.

    `progress` is called while kernels are compiled, of one target after the other; if there are
    several, its labels begin with the target.
    """
    others = [name for name in targets if name != NATIVE]
    found: dict[str, Build] = {}
    if NATIVE in targets:
        arrays = list(portable.arrays.values())
        found[NATIVE] = build_here(graph, arrays, config, _labelled(progress, NATIVE, targets))
    if others:
        with _as_file(portable) as path:
            for name in others:
                shown = _labelled(progress, name, targets)
                if shown is not None:
                    shown(0, 1, "")  # it takes a while to know how many kernels there are
                found[name] = _build_apart(name, path, config, shown)
    return [found[name] for name in targets]


def _labelled(progress: Progress | None, name: str, targets: Sequence[str]) -> Progress | None:
    """What is called for the kernels of one of the targets."""
    if progress is None or len(targets) == 1:
        return progress

    def advance(done: int, total: int, label: str) -> None:
        progress(done, total, f"{name} {label}".rstrip())

    return advance


@contextmanager
def _as_file(portable: Portable) -> Generator[Path]:
    """The model without code in a file, which is gone at the end of the block."""
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
                hint="make room, or set TMPDIR to a folder that has it",
            ) from error
        yield path


def build_here(
    graph: Graph,
    arrays: Sequence[Array],
    config: CompileConfig,
    progress: Progress | None = None,
) -> Build:
    """The code of a prepared graph for the instruction set of this process; `arrays`: its own.

    `progress` is called while kernels are compiled.
    """
    from nnefc.driver.lower import lower_prepared
    from nnefc.runtime.artifact.build import build

    program = lower_prepared(graph.clone(), config, keep_sources=True)
    return build(program, arrays, len(graph.inputs), len(graph.outputs), progress)


def _build_apart(name: str, path: Path, config: CompileConfig, progress: Progress | None) -> Build:
    """The same in another process, from a file without code."""
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
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):  # it has ended
            answer = None
        except BaseException:
            process.kill()
            raise
        process.wait()
        errors.seek(0)
        said = errors.read().decode(errors="replace").split("\n")
    if isinstance(answer, NnefError):
        raise answer
    if answer is None or process.returncode:
        lines = [line for line in said if line.strip()]
        raise NnefError.of(
            "internal/code-generation",
            f"no code for {name}: {(lines or ['the process that makes it ended'])[-1]}",
        )
    return answer


_PROTOCOL: Final = 5


def main() -> None:
    """Build for the row of NNEFC_ISA: file as argument, `CompileConfig` on standard input.

    The answer on standard output is what progress is called with, then a `Build` or an error.
    """
    import pickle

    from nnefc.runtime.artifact.file import open_file
    from nnefc.runtime.artifact.read import Artifact

    config: CompileConfig = pickle.load(sys.stdin.buffer)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def tell(answer: object) -> None:
        pickle.dump(answer, answers, _PROTOCOL)
        answers.flush()

    def advance(done: int, total: int, label: str) -> None:
        tell((done, total, label))

    with answers:
        try:
            artifact = Artifact(open_file(sys.argv[1]))
            graph, arrays = artifact.graph, artifact.arrays
            tell(build_here(graph, arrays, config, advance))
        except NnefError as error:
            tell(error)


if __name__ == "__main__":
    main()
