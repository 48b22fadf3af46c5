"""Variables as arguments of parameters that must be known at compile time.

The standard forbids such arguments, but torch_to_nnef's target `KhronosNNEF` writes the epsilon of
normalizations so.  The item of the variable becomes a literal if the model has data for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from nnefc.frontends.nnef import typed_tree as tree
from nnefc.frontends.nnef.build_operations import Elaborator
from nnefc.frontends.nnef.operation_declarations import Declaration, Parameter
from nnefc.frontends.nnef.types import OPAQUE, Primitive, Tensor
from nnefc.frontends.nnef.variable_data import Array, convert_items
from nnefc.ir import Value
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.syntax import ast

StoredData = Callable[[str], Array | None]
"""The data that the model stores for a variable's label, or None; may raise NnefError."""


class VariableLiterals:
    """Replaces variables of rank 0 among the arguments of attributes by literals."""

    def __init__(
        self,
        elaborator: Elaborator,
        stored: StoredData,
        source: ast.SourceText,
        diagnostics: Diagnostics,
    ) -> None:
        """`elaborator`: has built the variables."""
        self._elaborator = elaborator
        self._stored = stored
        self._source = source
        self._diagnostics = diagnostics
        self._warned: set[tuple[str, str]] = set()

    def replace(
        self, callee: Declaration, arguments: Mapping[int, tree.Typed]
    ) -> dict[int, tree.Typed]:
        """Arguments by the index of their parameter, with literals; each parameter is warned about
        once.
        """
        return {
            index: self._replaced(callee, callee.parameters[index], argument)
            for index, argument in arguments.items()
        }

    def _replaced(
        self, callee: Declaration, parameter: Parameter, argument: tree.Typed
    ) -> tree.Typed:
        match parameter.type, argument:
            case Primitive(wanted), tree.Local(type=Tensor(str(dtype)), name=name) if wanted in (
                OPAQUE,
                dtype,
            ):
                items = self._items(name, f"'{parameter.name}' of '{callee.name}'")
            case _:
                return argument
        if items is None:
            return argument
        if (callee.name, parameter.name) not in self._warned:
            self._warned.add((callee.name, parameter.name))
            self._diagnostics.warn(
                "type/variable",
                f"{callee.name}: parameter '{parameter.name}' is {dtype}, but the argument is the"
                f" variable '{name}'; its value {items!s} is taken",
                self._source.place(argument.at),
                hint="other tools may reject this; write the number",
            )
        return tree.ConstantNode(argument.at, Primitive(dtype), items.item())

    def _items(self, name: str, parameter: str) -> Array | None:
        """The data of a variable of rank 0, by its identifier in the graph; None if not known."""
        value = self._elaborator.names.get(name)
        if not isinstance(value, Value) or value.op is None or value.op.name != "variable":
            return None
        label: str = value.op.attributes["label"]
        stored: Array | None = None
        with suppress(NnefError):  # reported when the data of all variables is read
            stored = self._stored(label)
        if stored is None or stored.shape != () or value.type.shape != ():
            return None
        items = convert_items(stored, value.type)
        if isinstance(items, str) or not self._elaborator.fix(label, parameter):
            return None
        return items
