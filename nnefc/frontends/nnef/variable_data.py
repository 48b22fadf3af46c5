"""The data of variables: read from the container (NNEF 1.0, chapter 5), or random."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from nnefc.formats.container import Container
from nnefc.frontends.common.random_data import random_data
from nnefc.frontends.nnef.stored_codes import StoredCodes
from nnefc.ir import DType, Graph, Op, TensorType
from nnefc.ir.graph import Variable
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError, Place, collecting

Array = np.ndarray[Any, Any]
BATCH_VARIANCE = ("batch_normalization", 2)
"""The operation whose operand of this index must be positive."""


def load_data(
    graph: Graph,
    container: Container | None,
    diagnostics: Diagnostics,
    *,
    random_weights: int | None = None,
    require: bool = True,
    codes: Mapping[str, StoredCodes] | None = None,
) -> None:
    """Read the data of all variables; errors go to `diagnostics`.

    `random_weights`: seed for variables that have no file; None: missing files are errors.
    `require`: whether it is an error that no variable has a file; it always is one if only some
    have.  `codes`: what stored codes mean, by key of `graph.variables`.
    """
    missing: list[Variable] = []
    places = _places(graph)
    if container is not None:
        _check_spellings(graph, container, diagnostics)
    for key, variable in graph.variables.items():
        try:
            with collecting(diagnostics):
                stored = None if container is None else container.tensor(variable.label)
        except NnefError as error:
            for diagnostic in error.errors:
                diagnostics.add(diagnostic)
            continue
        if stored is None:
            missing.append(variable)
            continue
        assert container is not None
        file = container.tensor_file(variable.label)
        place = places.get(key) if file is None else Place(file)
        problem = _store(variable, stored, (codes or {}).get(key))
        if problem:
            diagnostics.error("data/" + problem[0], problem[1], place, hint=problem[2])
    if missing and random_weights is not None:
        positive = _positive(graph)
        for variable in missing:
            variable.data = random_data(
                variable, random_weights, positive=variable.label.lower() in positive
            )
    elif missing and (require or len(missing) < len(graph.variables)):
        listed = ", ".join(f"'{v.label}'" for v in missing[:20])
        more = f" and {len(missing) - 20} more" if len(missing) > 20 else ""
        diagnostics.add(
            Diagnostic(
                "data/missing",
                f"there is no data for {_count(missing)}: {listed}{more}",
                None if container is None else Place(container.name),
                hint="put the .dat files beside the document, or use random values: "
                "--random-weights SEED, random_weights=SEED"
                if require
                else "others have data; a model has the .dat files of all variables, or none",
            )
        )


def _check_spellings(graph: Graph, container: Container, diagnostics: Diagnostics) -> None:
    """Report labels that differ only in case and have several files; 5.1 ignores case."""
    spelled: dict[str, dict[str, None]] = {}
    for op in graph.ops:
        if op.name == "variable":
            label: str = op.attributes["label"]
            spelled.setdefault(label.lower(), {})[label] = None
    for labels in spelled.values():
        if len(labels) < 2:
            continue
        with suppress(NnefError):  # reported where the data is read
            files = {container.tensor_file(label) for label in labels}
            if len(files) > 1:
                diagnostics.error(
                    "container/ambiguous",
                    f"the labels {' and '.join(map(repr, labels))} are equal without regard to"
                    f" case, but have {len(files)} files",
                    Place(container.name),
                    hint="give the variables labels that differ in more than case",
                )


# -- conversion

Problem = tuple[str, str, str]  # rule, message, hint


def _store(variable: Variable, stored: Array, codes: StoredCodes | None) -> Problem | None:
    """Store the data of a variable, converted to its type; a problem if that is not possible.

    Codes that stay give the variable their type.
    """
    type_ = variable.type
    if stored.shape != type_.dims:
        return (
            "shape",
            f"variable '{variable.label}' has shape {_listed(type_.dims)}, but its file "
            f"{_listed(stored.shape)}",
            "correct the shape in the document, or write the file again with the variable's shape",
        )
    if type_.dtype.is_float and stored.dtype.kind in "iub" and codes is not None:
        if codes.kept(stored, type_.dtype) is None:
            stored = codes.decoded(stored)
        else:
            variable.type = type_ = type_.with_dtype(DType(stored.dtype.name))
    converted = convert_items(stored, type_)
    if isinstance(converted, str):
        hint = ""
        if type_.dtype.is_float and stored.dtype.kind in "iu":
            hint = "graph.quant must give the quantization of the variable's identifier"
        return "type", f"variable '{variable.label}': {converted}", hint
    converted.setflags(write=False)
    variable.data = converted
    return None


def convert_items(stored: Array, type_: TensorType) -> Array | str:
    """`stored` converted to the item type of a variable, or the reason why it cannot be."""
    wanted = type_.dtype
    kind = stored.dtype.kind
    if wanted.numpy == stored.dtype:
        return stored
    if wanted.is_float and kind == "f":
        with np.errstate(over="ignore"):
            converted = stored.astype(wanted.numpy)
        if stored.dtype.itemsize > wanted.itemsize:
            lost = np.isinf(converted) & np.isfinite(stored)
            if lost.any():
                return f"the value {stored[lost][0]} does not fit in {wanted}"
        return converted
    if wanted.is_integer and kind in "iu":
        bounds = np.iinfo(wanted.numpy)
        low, high = int(stored.min()), int(stored.max())
        if low < bounds.min or high > bounds.max:
            value = low if low < bounds.min else high
            return f"the value {value} does not fit in {wanted}"
        return stored.astype(wanted.numpy)
    if wanted is DType.BOOL and kind in "iu":
        wrong = (stored != 0) & (stored != 1)
        if wrong.any():
            return f"logical values are stored as 0 or 1, not {stored[wrong][0]}"
        return stored.astype(bool)
    names = {"f": "real", "i": "integer", "u": "integer", "b": "logical"}
    expected = "real" if wanted.is_float else "integer" if wanted.is_integer else "logical"
    return f"the file stores {names.get(kind, kind)} values ({stored.dtype}), not {expected} ones"


def _listed(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _count(missing: list[Variable]) -> str:
    return "a variable" if len(missing) == 1 else f"{len(missing)} variables"


def _places(graph: Graph) -> dict[str, Place]:
    places: dict[str, Place] = {}
    for op in graph.ops:
        if op.name == "variable" and op.location is not None:
            places.setdefault(op.attributes["label"].lower(), op.location.place)
    return places


def _positive(graph: Graph) -> set[str]:
    """Keys of the variables that are the variance of a batch normalization."""
    name, index = BATCH_VARIANCE
    sources: list[Op | None] = [op.inputs[index].op for op in graph.ops if op.name == name]
    return {
        op.attributes["label"].lower() for op in sources if op is not None and op.name == "variable"
    }
