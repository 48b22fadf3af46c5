"""Properties of every operation in the table: entry, samples, reference, expansion and flags."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (arrays of any type)

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Op, TensorType
from nnefc.lower import load_lowerings
from nnefc.lower.context import has_lowering
from nnefc.ops.core.broadcast import align
from nnefc.ops.core.interface import Interface, interface, kind_of, sequence
from nnefc.ops.core.spec import UNKNOWN, Call, OpSpec, infer
from nnefc.ops.tools.build import emitter
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.sample import Instance, instance
from nnefc.ops.tools.table import declared, is_beyond_standard, standard
from nnefc.syntax.ast import ArraySpec, PrimitiveSpec, TupleSpec, TypeSpec
from tests.helpers.examples import examples


def names(text: str) -> list[str]:
    return text.split()


STANDARD = names("""
external constant variable
copy neg rcp exp log sin cos abs sign not floor ceil round
add sub mul div pow lt gt le ge eq ne and or select
sqr sqrt rsqr rsqrt log2 min max clamp
conv deconv box debox argmax_pool sample desample
nearest_downsample area_downsample nearest_upsample multilinear_upsample
sum_reduce max_reduce min_reduce argmax_reduce argmin_reduce all_reduce any_reduce mean_reduce
reshape squeeze unsqueeze transpose split concat stack unstack slice pad tile
avg_roi_pool max_roi_pool roi_resample avg_roi_align max_roi_align
matmul update
sigmoid relu prelu leaky_relu elu tanh softmax softplus
linear separable_conv separable_deconv
max_pool_with_index max_pool avg_pool rms_pool
local_response_normalization local_mean_normalization local_variance_normalization
local_contrast_normalization l1_normalization l2_normalization batch_normalization
linear_quantize logarithmic_quantize
copy_n add_n moments
""")

NAMES = sorted(declared())
SAMPLED = [name for name in NAMES if name not in ("external", "variable")]
every_operation = pytest.mark.parametrize("name", NAMES)
every_sampled_operation = pytest.mark.parametrize("name", SAMPLED)


def instances(name: str) -> Iterator[Instance]:
    spec = declared()[name]
    for sample in spec.samples:
        yield instance(spec, sample)


def operation(made: Instance, name: str) -> Op:
    (op,) = [op for op in made.graph.ops if op.name == name]
    return op


def test_all_standard_operations_exist() -> None:
    assert len(STANDARD) == 102
    assert sorted(STANDARD) == sorted(name for name in standard() if not is_beyond_standard(name))


def test_operations_without_expansion_have_a_lowering() -> None:
    load_lowerings()
    read = {"external", "variable"}  # lowered from the lists of the graph
    whole = {n for n in NAMES if declared()[n].expand is None} - read
    assert len(whole) > 100
    assert {name for name in whole if not has_lowering(name)} == set()


@every_operation
def test_entries_are_consistent(name: str) -> None:
    spec = declared()[name]
    face = interface(spec)
    assert spec.name == name == spec.declaration.name
    assert spec.summary.endswith(".")
    assert face.results
    tensors = [t.name for t in face.tensors]
    assert [p.name for p in spec.declaration.parameters][: len(tensors)] == tensors
    assert set(face.defaults) <= set(face.attributes)
    assert not any(t.is_array for t in face.tensors) or len(face.tensors) == 1


@every_sampled_operation
def test_samples_exercise_every_attribute(name: str) -> None:
    spec = declared()[name]
    face = interface(spec)
    assert len(spec.samples) >= 3
    for attribute in face.attributes:
        values = {repr(s.attributes.get(attribute, UNKNOWN)) for s in spec.samples}
        assert len(values) > 1, f"{attribute} is always {values}"


@every_sampled_operation
def test_reference_agrees_with_the_rule(name: str) -> None:
    for made in instances(name):
        evaluation = evaluate(made.graph, made.inputs, keep="all")
        for value, result in evaluation.values.items():
            assert result.shape == value.type.shape
            kind = {"f": "scalar", "i": "integer", "b": "logical"}[result.dtype.kind]
            assert kind == kind_of(value.type.dtype)


@every_sampled_operation
def test_expansion_computes_the_same(name: str) -> None:
    expand = declared()[name].expand
    if expand is None:
        return
    for made in instances(name):
        before = evaluate(made.graph, made.inputs).outputs
        op = operation(made, name)
        result = expand(emitter(made.graph, op), op)
        for old, new in zip(op.outputs, sequence(result) or [result], strict=True):
            assert new.type == old.type
            made.graph.replace_value(old, new)
        made.graph.erase(op)
        after = evaluate(made.graph, made.inputs).outputs
        for key, value in before.items():
            np.testing.assert_allclose(after[key], value, rtol=1e-9, atol=1e-12)


@every_sampled_operation
def test_views_commutative_and_elementwise_operations_are_so(name: str) -> None:
    spec = declared()[name]
    for made in instances(name):
        op = operation(made, name)
        (first, *rest) = evaluate(made.graph, made.inputs, keep="all").outputs.values()
        arrays = list(made.inputs.values())
        if spec.traits.view:
            np.testing.assert_array_equal(first.ravel(), arrays[0].ravel())
        if spec.commutative:
            swapped = dict(zip(made.inputs, reversed(arrays), strict=True))
            if all(v.type == op.inputs[0].type for v in op.inputs):
                other = evaluate(made.graph, swapped).outputs
                np.testing.assert_array_equal(other["y0"], first)
        if spec.elementwise:
            # reversed operands give the reversed result
            assert not rest
            whole = np.broadcast_arrays(*align(*arrays))
            flipped = {
                key: np.flip(array.reshape(whole[0].shape)) if array.size == first.size else array
                for key, array in zip(made.inputs, arrays, strict=True)
                if array.size in (1, first.size)
            }
            if len(flipped) == len(arrays):
                flipped = {k: a.reshape(made.inputs[k].shape) for k, a in flipped.items()}
                other = evaluate(made.graph, flipped).outputs
                np.testing.assert_array_equal(np.flip(other["y0"]), first)


# -- partial knowledge


def call_of(op: Op, spec: OpSpec, attributes: dict[str, Any]) -> Call:
    return Call(op.name, spec.operands([v.type for v in op.inputs]), attributes)


@every_sampled_operation
def test_unknown_shapes_are_no_error(name: str) -> None:
    spec = declared()[name]
    for made in instances(name):
        op = operation(made, name)
        for unknown in op.attributes:
            call = call_of(op, spec, {**op.attributes, unknown: UNKNOWN})
            assert infer(spec, call)[1] == []
        operands = spec.operands([v.type for v in op.inputs])
        for unknown, type_ in operands.items():
            shapeless = (
                [TensorType(t.dtype, None) for t in type_]
                if isinstance(type_, list)
                else TensorType(type_.dtype, None)
            )
            for replaced in (None, shapeless):
                call = Call(name, {**operands, unknown: replaced}, op.attributes)
                assert infer(spec, call)[1] == []


# -- rules against references, over arguments that are mostly wrong

INTEGERS = st.integers(-3, 6)
STRINGS = st.sampled_from(
    ("constant", "ignore", "replicate", "reflect", "reflect-even", "symmetric", "aligned", "x", "")
)
SHAPES = st.lists(st.integers(1, 4), max_size=4).map(tuple)


def values(type_: TypeSpec) -> st.SearchStrategy[Any]:
    match type_:
        case PrimitiveSpec(name="integer"):
            return INTEGERS
        case PrimitiveSpec(name="logical"):
            return st.booleans()
        case PrimitiveSpec(name="string"):
            return STRINGS
        case PrimitiveSpec():
            return st.floats(-2, 2)
        case ArraySpec():
            return st.lists(values(type_.item), max_size=5).map(tuple)
        case TupleSpec():
            return st.tuples(*map(values, type_.items))
        case _:
            raise AssertionError(type_)


@st.composite
def calls(draw: st.DrawFn, face: Interface) -> tuple[dict[str, Any], dict[str, Any]]:
    kinds = {"scalar": DType.FLOAT32, "integer": DType.INT32, "logical": DType.BOOL}
    shape = draw(SHAPES)
    operands: dict[str, Any] = {}
    for tensor in face.tensors:
        dtype = kinds.get(tensor.dtype or "", DType.FLOAT32)
        similar = st.one_of(st.just(shape), SHAPES)
        if tensor.is_array:
            shapes = draw(st.lists(similar, max_size=3))
            operands[tensor.name] = [TensorType(dtype, s) for s in shapes]
        else:
            operands[tensor.name] = TensorType(dtype, draw(similar))
    attributes = {
        key: draw(st.one_of(values(a.type), st.just(face.defaults.get(key, 1))))
        if key in face.defaults
        else draw(values(a.type))
        for key, a in face.attributes.items()
    }
    return operands, attributes


def data(name: str, type_: TensorType, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Items of the operand `name`; indices are valid for every extent."""
    if name in ("indices", "batch_index"):
        return random.integers(-1 if name == "indices" else 0, 1, type_.dims)
    if type_.dtype is DType.BOOL:
        return random.random(type_.dims) < 0.5
    if type_.dtype.is_integer:
        return random.integers(-2, 9, type_.dims)
    return random.normal(size=type_.dims)


@pytest.mark.slow
@every_sampled_operation
def test_rule_accepts_only_what_the_reference_computes(name: str) -> None:
    spec = declared()[name]
    extra = {"dtype": DType.INT32} if spec.chooses_type else {}

    @examples(0.3, database=None)
    @given(calls(interface(spec)))
    def check(drawn: tuple[dict[str, Any], dict[str, Any]]) -> None:
        operands, attributes = drawn
        types, problems = infer(spec, Call(name, operands, attributes))
        assert all(isinstance(p, str) and p for p in problems)
        if types is None:
            assert problems or name == "constant"
            return
        if sum(math.prod(t.dims) for t in types) > 20_000:
            return
        random = np.random.default_rng(0)
        arrays = [
            [data(name, t, random) for t in o] if isinstance(o, list) else data(name, o, random)
            for name, o in operands.items()
        ]
        with np.errstate(all="ignore"):
            result = spec.reference(*arrays, **attributes, **extra)  # type: ignore[misc]
        results = sequence(result)
        assert [np.shape(r) for r in ([result] if results is None else results)] == [
            t.shape for t in types
        ]

    check()


def test_deviations_from_the_specification_are_in_the_entries() -> None:
    entries = standard()
    added = {(name, attribute) for name, entry in entries.items() for attribute in entry.beyond}
    assert added == {("elu", "alpha"), ("slice", "stride")}
    assert all(attribute in entries[name].signature for name, attribute in added)
    lenient = {name for name, entry in entries.items() if entry.lenient_border}
    assert lenient == {"max_pool", "max_pool_with_index", "sample"}
