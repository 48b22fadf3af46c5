"""The base class of the origins of models, from which a model is saved as an artifact or for C."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnefc.artifacts.content import Content
    from nnefc.formats.files import FilePath
    from nnefc.runtime.run.compiled_model import CompiledModel, CProgram
    from nnefc.support.progress import Progress


class SavedAsContent:
    """An origin whose models are saved by writing their `content`."""

    @abstractmethod
    def content(
        self, model: CompiledModel, targets: Sequence[str], progress: Progress | None = None
    ) -> Content:
        """The model without code, and the code for each target."""

    def save(
        self,
        model: CompiledModel,
        path: FilePath,
        targets: Sequence[str] | None,
        progress: Progress | None = None,
    ) -> None:
        """Write an artifact; without `targets` it has code for this processor."""
        from nnefc.artifacts.save import write_content
        from nnefc.options.arguments import check_progress

        check_progress(progress)
        chosen = native_target() if targets is None else targets
        write_content(path, self.content(model, chosen, progress))

    def emit_c(self, model: CompiledModel, program: CProgram) -> list[str]:
        """Write a folder for C programs; returns the names of its files."""
        from nnefc.artifacts.save import write_c_content
        from nnefc.options.arguments import check_fixed_point_position, check_progress

        check_progress(program.progress)
        position = program.fixed_point_position
        if position is not None:
            check_fixed_point_position(position)
        content = self.content(model, [program.target], program.progress)
        return write_c_content(program.folder, content, program.name, position)


def native_target() -> list[str]:
    """The default targets of an artifact: this processor."""
    from nnefc.kernels.target.isa import NATIVE

    return [NATIVE]
