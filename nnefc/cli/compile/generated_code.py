"""Results of `nnefc compile`: a model for this processor, or only code for other processors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from nnefc.cli.support.printing import compiling

if TYPE_CHECKING:
    from nnefc.artifacts.content import Content
    from nnefc.ir import Graph
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.artifact.build_static import TargetBuild
    from nnefc.runtime.plan.launch_info import LaunchInfo
    from nnefc.runtime.run.compiled_model import CompiledModel


def others(targets: Sequence[str]) -> list[str]:
    """The targets other than this processor."""
    from nnefc.kernels.target.isa import NATIVE

    return [name for name in targets if name != NATIVE]


class CompileResult(Protocol):
    """Generated code: its sizes, and ways to save it."""

    @property
    def launches(self) -> Sequence[LaunchInfo]: ...

    @property
    def arena_bytes(self) -> int: ...

    @property
    def arena_lower_bound(self) -> int: ...

    @property
    def constant_bytes(self) -> int: ...

    def save(self, path: Path) -> None:
        """Write an artifact, with a progress bar on standard error."""
        ...

    def emit_c(self, folder: Path, name: str | None, position: int | None) -> list[str]:
        """Write a folder for C programs and return the names of its files.

        `position`: of int16 tensors in a module for OpenVX; None: without a module.
        """
        ...


@dataclass(frozen=True, slots=True)
class NativeModel:
    """A model for this processor; `targets`: those to save code for."""

    model: CompiledModel
    targets: Sequence[str]

    @property
    def launches(self) -> Sequence[LaunchInfo]:
        return self.model.launches

    @property
    def arena_bytes(self) -> int:
        return self.model.arena_bytes

    @property
    def arena_lower_bound(self) -> int:
        return self.model.plan.arena_lower_bound

    @property
    def constant_bytes(self) -> int:
        return self.model.constant_bytes

    def save(self, path: Path) -> None:
        with compiling(others(self.targets)) as advance:
            self.model.save(path, targets=self.targets, progress=advance)

    def emit_c(self, folder: Path, name: str | None, position: int | None) -> list[str]:
        (target,) = self.targets
        with compiling(others(self.targets)) as advance:
            common: Any = {"name": name, "target": target, "progress": advance}
            if position is None:
                return self.model.emit_c(folder, **common)
            return self.model.emit_openvx(folder, fixed_point_position=position, **common)


@dataclass(frozen=True, slots=True)
class CrossCompiled:
    """Code for other processors; sizes and launches are those of the first target."""

    content: Content

    @classmethod
    def of(cls, graph: Graph, targets: Sequence[str], config: CompileConfig) -> CrossCompiled:
        """Compile for the targets only, with a progress bar on standard error."""
        from nnefc.artifacts.content import content_of_graph

        with compiling(others(targets)) as advance:
            return cls(content_of_graph(graph, config, targets, advance))

    @property
    def _build(self) -> TargetBuild:
        return self.content[1][0]

    @property
    def launches(self) -> Sequence[LaunchInfo]:
        return self._build.launches

    @property
    def arena_bytes(self) -> int:
        return self._build.plan.arena_bytes

    @property
    def arena_lower_bound(self) -> int:
        return self._build.plan.arena_lower_bound

    @property
    def constant_bytes(self) -> int:
        return sum(constant.nbytes for constant in self._build.constants)

    def save(self, path: Path) -> None:
        from nnefc.artifacts.save import write_content

        write_content(path, self.content)

    def emit_c(self, folder: Path, name: str | None, position: int | None) -> list[str]:
        from nnefc.artifacts.save import write_c_content

        return write_c_content(folder, self.content, name, position)
