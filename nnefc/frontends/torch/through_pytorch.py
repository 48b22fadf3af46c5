"""Programs whose operators nnefc does not have, decomposed by PyTorch.

PyTorch evaluates texts of stored programs: expressions, names of functions, trees of types.  It is
given a copy without those, whose remaining texts are checked, and no pickled data.  Weights are
tensors of one item that is repeated, since a decomposition reads types and shapes only.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any, Final, cast

import numpy as np

from nnefc.formats.archives.torch_archive import TorchArchive, read_torch_archive
from nnefc.formats.files import printable
from nnefc.formats.item_encodings import Array
from nnefc.frontends.torch.program import InputKind, OutputKind, Program
from nnefc.frontends.torch.read_schema import read_schema
from nnefc.support.errors import NnefError, Place
from nnefc.support.limits import Limits

_TARGET: Final = re.compile(
    r"torch\.ops\.(aten|prims|torchvision|quantized_decomposed)"
    r"\.(_?[a-zA-Z]\w*|__(i?(and|or|xor|lshift|rshift))__)(\.[a-zA-Z]\w*)?"
    r"|torch\.ops\.higher_order\.(cond|while_loop|scan|map_impl|wrap_with_set_grad_enabled)"
    r"|_operator\.(add|sub|mul|floordiv|truediv|mod|pow|neg|getitem|eq|ne|lt|le|gt|ge|and_|or_)"
    r"|torch\.sym_\w+|math\.(ceil|floor|trunc|sqrt)",
    re.ASCII,
)
_FILES: Final = re.compile(r"\.(from_file|save|load)\b")
_FUNCTIONS: Final = frozenset(
    (
        *("Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Max", "Min", "FloorDiv"),
        *("CleanDiv", "IntTrueDiv", "FloatTrueDiv", "Mod", "PythonMod", "ModularIndexing"),
        *("TruncToInt", "CeilToInt", "FloorToInt", "ToFloat", "Eq", "Ne", "Lt", "Le", "Gt", "Ge"),
        *("Equality", "Unequality", "StrictLessThan", "StrictGreaterThan", "LessThan", "Not"),
        *("GreaterThan", "And", "Or", "Where", "Identity"),
    )
)
_PREFIX: Final = "torch.utils._sympy.functions."
_KEPT: Final = ("stack_trace", "nn_module_stack")
"""The metadata of nodes that messages need."""
_LEAF: Final[Mapping[str, Any]] = {"type": None, "context": None, "children_spec": []}
_DEEPEST: Final = 200


def decomposed(
    archive: TorchArchive, read: Program, arrays: Mapping[str, Array], limits: Limits, whole: bool
) -> tuple[Program, dict[str, Array]]:
    """A functional program and its arrays, by PyTorch; raises NnefError.

    `whole`: composite operators are decomposed into Core ATen; otherwise they stay.
    """
    stored = _checked(archive)
    try:
        with warnings.catch_warnings(), _quiet():
            warnings.simplefilter("ignore")
            saved = _saved(stored, archive, read, arrays, whole)
    except Exception as error:  # PyTorch raises errors of many classes
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = printable(f"{type(error).__name__}: {lines[0] if lines else ''}")
        message = f"PyTorch cannot decompose the program: {reason}"
        raise NnefError.of("torch/export", message, Place(archive.name)) from error
    again = read_torch_archive(BytesIO(saved), archive.name, limits)
    program = read_schema(again.program, archive.name)
    kinds = (InputKind.ARRAY, InputKind.STATE)
    labels = [each.label for each in program.inputs if each.kind in kinds]
    found = {each: arrays[each] if each in arrays else again.array(each) for each in labels}
    count = len([x for x in program.inputs if x.kind in _GIVEN])
    if count != len([x for x in read.inputs if x.kind in _GIVEN]):
        message = "PyTorch reads another number of inputs than the program has"
        raise NnefError.of("torch/export", message, Place(archive.name))
    return _with_labels(program, read), found


class _quiet:
    """Silences the logger of PyTorch's exporter."""

    def __enter__(self) -> None:
        self._before = logging.root.manager.disable
        logging.disable(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        logging.disable(self._before)


def _saved(
    stored: dict[str, Any],
    archive: TorchArchive,
    read: Program,
    arrays: Mapping[str, Array],
    whole: bool,
) -> bytes:
    """The decomposed program as `torch.export.save` writes it."""
    import torch
    from torch._export.serde import schema, serialize

    parameters = {
        str(spec["parameter"]["parameter_name"]): True
        for spec in stored["graph_module"]["signature"]["input_specs"]
        if "parameter" in spec
    }
    weights: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    for label, array in arrays.items():
        if array.size > _SMALL or label in parameters:
            tensor = _repeated(array)
        else:
            tensor = _tensor(array)
        is_constant = archive.is_constant(label)
        (constants if is_constant else weights)[label] = (
            torch.nn.Parameter(tensor, requires_grad=False) if label in parameters else tensor
        )
    reading: Any = serialize
    made = reading._dict_to_dataclass(schema.ExportedProgram, stored)
    program = reading.ExportedProgramDeserializer(None).deserialize(made, weights, constants, None)
    with torch.no_grad():
        program = program.run_decompositions() if whole else program.run_decompositions({})
    out = BytesIO()
    exporting: Any = torch.export
    exporting.save(program, out)
    return out.getvalue()


_SMALL: Final = 4096
"""Items up to which constants have their values, of which PyTorch may compute shapes."""


def _repeated(array: Array) -> Any:
    """A tensor of the type and the shape of an array, with one item."""
    import torch

    one = np.zeros(1, np.uint16 if array.dtype.name == "bfloat16" else array.dtype)
    tensor: Any = _shared(one)
    if array.dtype.name == "bfloat16":
        tensor = tensor.view(torch.bfloat16)
    return tensor.as_strided(array.shape, (0,) * array.ndim)


def _tensor(array: Array) -> Any:
    """The items of an array, copied."""
    import torch

    if array.dtype.name == "bfloat16":
        return _shared(array.view(np.uint16).copy()).view(torch.bfloat16)
    return _shared(array.copy())


def _shared(array: Array) -> Any:
    """A tensor of the memory of an array."""
    import torch

    make: Any = getattr(torch, "from_numpy")  # noqa: B009 - PyTorch's has no types
    return make(array)


def _with_labels(program: Program, read: Program) -> Program:
    """A program with the names of the inputs and results of another.

    New values of inputs are returned before the other results.
    """
    labels = [x.label for x in read.inputs if x.kind in _GIVEN]
    given = [x.label for x in program.inputs if x.kind in _GIVEN]
    inputs = iter(labels)
    changed = {f"{x}_changed": f"{y}_changed" for x, y in zip(given, labels, strict=True)}
    before, now = ([x.extents for x in y.inputs if x.kind in _GIVEN] for y in (read, program))
    kept = _names(read)[-len(program.results) :]
    first = program.results[: len(program.results) - len(kept)]
    names = iter([*(changed.get(each.label, each.label) for each in first), *kept])
    return dataclasses.replace(
        program,
        name=read.name,
        conditions=read.conditions if before == now else (),
        inputs=tuple(
            dataclasses.replace(x, label=next(inputs)) if x.kind in _GIVEN else x
            for x in program.inputs
        ),
        outputs=tuple(
            dataclasses.replace(y, label=next(names)) if y.kind in _RETURNED else y
            for y in program.outputs
        ),
    )


def _names(program: Program) -> list[str]:
    return [each.label for each in program.results]


_GIVEN: Final = (InputKind.USER, InputKind.NUMBER)
_RETURNED: Final = (OutputKind.TENSOR, OutputKind.NUMBER)


# -- texts that PyTorch evaluates


def _checked(archive: TorchArchive) -> dict[str, Any]:
    """A copy of a stored program that PyTorch can read safely; raises NnefError."""
    stored: dict[str, Any] = json.loads(json.dumps(archive.program))
    stored["guards_code"] = []
    module = stored["graph_module"]
    signature = module["signature"]
    given = [
        each for each in signature["input_specs"] if {"user_input", "constant_input"} & {*each}
    ]
    returned = [each for each in signature["output_specs"] if "user_output" in each]
    leaves = _tuple([_LEAF] * len(given))
    names: dict[str, Any] = {"type": "builtins.dict", "context": "[]", "children_spec": []}
    module["module_call_graph"] = [
        {
            "fqn": "",
            "signature": {
                "inputs": [],
                "outputs": [],
                "in_spec": json.dumps([1, _tuple([leaves, names])]),
                "out_spec": json.dumps([1, _tuple([_LEAF] * len(returned))]),
                "forward_arg_names": None,
            },
        }
    ]
    module["metadata"] = {}
    module["treespec_namedtuple_fields"] = {}
    wrong = next(_problems(stored, 0), None)
    if wrong is not None:
        message = f"'{printable(wrong)}' is not given to PyTorch, which would evaluate it"
        raise NnefError.of("torch/unsupported", message, Place(archive.name))
    return stored


def _tuple(children: list[Any]) -> dict[str, Any]:
    return {"type": "builtins.tuple", "context": "null", "children_spec": children}


def _problems(value: Any, depth: int) -> Iterator[str]:
    """The texts that are no known names or expressions; metadata are reduced in place."""
    if depth > _DEEPEST:
        yield "a deep nesting"
        return
    if isinstance(value, list):
        for each in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _problems(each, depth + 1)
        return
    if not isinstance(value, dict):
        return
    facts = cast("dict[str, Any]", value)
    if isinstance(facts.get("metadata"), dict) and "target" in facts:
        metadata = facts["metadata"]
        facts["metadata"] = {key: metadata[key] for key in _KEPT if key in metadata}
    target = facts.get("target")
    if isinstance(target, str) and (not _TARGET.fullmatch(target) or _FILES.search(target)):
        yield target
    if "expr_str" in facts and not _is_safe(facts["expr_str"]):
        yield str(facts["expr_str"])
    if {"as_operator", "as_custom_obj", "custom_obj"} & {*facts}:
        yield next(iter(facts))
    for each in facts.values():
        yield from _problems(each, depth + 1)


def _is_safe(text: Any) -> bool:
    """Whether an expression has numbers, symbols and functions of `_FUNCTIONS` only."""
    if not isinstance(text, str) or len(text) > 4000:
        return False
    try:
        return _is_arithmetic(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _is_arithmetic(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=bool()) | ast.Constant(value=float()):
            return True
        case ast.Constant(value=int(number)):
            return abs(number) < 1 << 64
        case ast.Name(id=name):
            return re.fullmatch(r"[a-z]+\d*|True|False|oo|int_oo", name) is not None
        case ast.UnaryOp(operand=operand):
            return _is_arithmetic(operand)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv(), right=r):
            return _is_arithmetic(left) and _is_arithmetic(r)
        case ast.Call(func=function, args=arguments, keywords=keywords):
            name = ast.unparse(function).removeprefix(_PREFIX)
            if name == "Symbol":
                known = [isinstance(each, ast.Constant) for each in arguments]
            else:
                known = [name in _FUNCTIONS, *map(_is_arithmetic, arguments)]
            return all(known) and all(isinstance(each.value, ast.Constant) for each in keywords)
        case _:
            return False
