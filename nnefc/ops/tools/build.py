"""Build operations: fill in defaults, check rules, infer types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nnefc.ir import DType, Graph, Location, Op, TensorType, Value
from nnefc.ir.graph import Attribute
from nnefc.ops.core.interface import Interface, interface, item_type_problems, normalize, sequence
from nnefc.ops.core.spec import Call, Emit, OpSpec, infer
from nnefc.ops.tools.table import declared
from nnefc.support.errors import Diagnostic, NnefError

Number = bool | int | float

KINDS = {"scalar": DType.FLOAT32, "integer": DType.INT32, "logical": DType.BOOL}
"""Default item types of the primitive types."""


def build(
    graph: Graph,
    name: str,
    inputs: Sequence[Value],
    attributes: Mapping[str, Attribute] | None = None,
    *,
    dtype: DType | None = None,
    before: Op | None = None,
    names: Sequence[str] = (),
    location: Location | None = None,
) -> Op:
    """Insert an operation into `graph`, at the end or before another operation.

    `inputs` are flat; missing trailing inputs become constants of their default values.
    `dtype` is the item type of the results where operands do not determine it: for `constant`,
    `variable`, `cast`, and integer results other than int32.
    Raises NnefError: `argument/<name>` with every violated rule, `invocation/...` for an unknown
    operation or wrong operands and attributes, `type/operand` for wrong item types.
    """
    spec = declared().get(name)
    if spec is None:
        raise _error("invocation/unknown", name, ["there is no such operation"], location)
    face = interface(spec)
    operands = list(inputs)
    filled = {**face.defaults, **_attributes(name, face, attributes or {}, location)}
    _check_operands(spec, operands, location)
    for parameter in face.tensors[len(operands) :] if not face.is_variadic else ():
        assert parameter.default is not None
        dtype_ = KINDS.get(parameter.dtype or "scalar", DType.FLOAT32)
        if dtype_.is_float and operands:
            dtype_ = operands[0].type.dtype
        operands.append(constant(graph, parameter.default, dtype_, before))
    call = Call(name, spec.operands([v.type for v in operands]), filled)
    types, problems = infer(spec, call)
    if problems:
        raise _error(f"argument/{name}", name, problems, location)
    if types is None:
        types = _unknown(face, operands, len(names))
    if dtype is not None:
        types = [t.with_dtype(dtype) for t in types]
    return graph.insert(Op(name, operands, filled, types, names, location), before)


def constant(graph: Graph, value: Number, dtype: DType, before: Op | None = None) -> Value:
    """A rank-0 constant."""
    converted: Number = (
        bool(value) if dtype is DType.BOOL else int(value) if dtype.is_integer else float(value)
    )
    attributes = {"shape": (), "value": (converted,)}
    return graph.insert(Op("constant", (), attributes, [TensorType(dtype, ())]), before).output


def emitter(
    graph: Graph, before: Op | None, location: Location | None = None, dtype: DType | None = None
) -> Emit:
    """A function for `expand` that inserts operations before `before`.

    Numbers become constants: a bool is logical; others get the type of the first operand that is
    not logical, else `dtype` (default: the first scalar type among the operands and results of
    `before`).  The keyword `dtype` of a call is that of `build`.
    """
    if dtype is None:
        around = (*before.inputs, *before.outputs) if before is not None else ()
        dtype = next((v.type.dtype for v in around if v.type.dtype.is_float), DType.FLOAT32)
    fallback = dtype

    def emit(op: str, /, *operands: Any, **attributes: Any) -> Any:
        flat: list[Any] = []
        for operand in operands:
            items = sequence(operand)
            flat += [operand] if items is None else items
        types = (v.type.dtype for v in flat if isinstance(v, Value))
        number = next((t for t in types if t is not DType.BOOL), fallback)
        values = [
            v
            if isinstance(v, Value)
            else constant(graph, v, DType.BOOL if isinstance(v, bool) else number, before)
            for v in flat
        ]
        result = attributes.pop("dtype", None)
        new = build(graph, op, values, attributes, dtype=result, before=before, location=location)
        return new.outputs[0] if len(new.outputs) == 1 else new.outputs

    return emit


def _attributes(
    name: str, face: Interface, explicit: Mapping[str, Attribute], location: Location | None
) -> dict[str, Attribute]:
    """The explicit attributes, normalized; raises NnefError for unknown and missing ones."""
    unknown = [a for a in explicit if a not in face.attributes]
    missing = [a for a in face.attributes if a not in explicit and a not in face.defaults]
    problems = [f"there is no attribute {a}" for a in unknown]
    problems += [f"attribute {a} is missing" for a in missing]
    if problems:
        raise _error("invocation/arguments", name, problems, location)
    return {a: normalize(v, face.attributes[a].type) for a, v in explicit.items()}


def _check_operands(spec: OpSpec, operands: Sequence[Value], location: Location | None) -> None:
    """Raise NnefError if the number or the item types of the operands are wrong."""
    face = interface(spec)
    if not face.is_variadic:
        required = sum(t.default is None for t in face.tensors)
        if not required <= len(operands) <= len(face.tensors):
            message = f"takes {required} tensors, not {len(operands)}"
            raise _error("invocation/arguments", spec.name, [message], location)
    problems = item_type_problems(spec, [v.type.dtype for v in operands])
    if problems:
        raise _error("type/operand", spec.name, problems, location)


def _unknown(face: Interface, operands: Sequence[Value], count: int) -> list[TensorType]:
    """Types of the results, without shapes, where the shapes of operands are not known."""
    generic = next(
        (v.type.dtype for p, v in zip(face.tensors, operands) if p.dtype == "?"), DType.FLOAT32
    )
    types: list[TensorType] = []
    for result in face.results:
        dtype = KINDS.get(result.dtype or "", generic)
        if dtype.is_float and operands and operands[0].type.dtype.is_float:
            dtype = operands[0].type.dtype
        types += [TensorType(dtype, None)] * (max(count, 1) if result.is_array else 1)
    return types


def _error(rule: str, name: str, problems: Iterable[str], location: Location | None) -> NnefError:
    place = location.place if location else None
    chain = location.chain if location else ()
    return NnefError(
        Diagnostic(rule, f"{name}: {problem}", place, chain=chain) for problem in problems
    )
