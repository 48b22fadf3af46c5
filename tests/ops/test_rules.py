"""Each rule of the specification on arguments, and its message."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (arrays of any type)

from __future__ import annotations

from typing import Any

import pytest

from nnefc.ir import DType, TensorType
from nnefc.ops.core.interface import defaults, interface
from nnefc.ops.core.spec import UNKNOWN, Call, infer
from nnefc.ops.tools.table import operations

KINDS = {"scalar": DType.FLOAT32, "integer": DType.INT32, "logical": DType.BOOL}


def invoke(name: str, *shapes: Any, **attributes: Any) -> tuple[list[TensorType] | None, list[str]]:
    """The verdict on an invocation with operands of these shapes (lists for tensor arrays)."""
    spec = operations()[name]
    operands: dict[str, Any] = {}
    for parameter, shape in zip(interface(spec).tensors, shapes, strict=True):
        dtype = KINDS.get(parameter.dtype or "", DType.FLOAT32)
        operands[parameter.name] = (
            [TensorType(dtype, s) for s in shape]
            if isinstance(shape, list)
            else None
            if shape is None
            else TensorType(dtype, shape)
        )
    return infer(spec, Call(name, operands, {**defaults(spec), **attributes}))


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("external", (), {"shape": (1, 0)}, "items in shape must be positive: shape = [1,0]"),
    ("external", (), {"shape": (1, -1)}, "shape = [1,-1]"),
    ("external", (), {"shape": (1,) * 9}, "the rank of output must be at most 8: it is 9"),
    ("constant", (), {"shape": (2,), "value": ()}, "must be 1 or the volume of shape: 0 items"),
    ("constant", (), {"shape": (2, 2), "value": (1.0,) * 3}, "3 items, shape = [2,2], volume 4"),
    ("variable", (), {"shape": (0,), "label": "a"}, "items in shape must be positive"),
    ("variable", (), {"shape": (1,), "label": ""}, "label must not be empty"),
    ("variable", (), {"shape": (1,), "label": "a b:c"}, "has ' ', ':'"),
    ("append", ((2, 5), (2, 1)), {"axis": 2, "begin": 0}, "less than the rank of memory: axis = 2"),
    (
        "append",
        ((2, 5), (3, 1)),
        {"axis": 1, "begin": 0},
        "except along axis 1: memory.shape",
    ),
    (
        "append",
        ((2, 5), (2, 2)),
        {"axis": 1, "begin": 4},
        "there must be room for items: begin = 4",
    ),
    ("append", ((2, 5), (2, 2)), {"axis": 1, "begin": -1}, "begin = -1, memory.shape = [2,5]"),
    ("add", ((2, 3), (2, 4)), {}, "x.shape = [2,3], y.shape = [2,4] differ in dimension 1"),
    ("add", ((3,), (2, 3)), {}, "extents of x and y must be equal or singular"),
    ("select", ((2,), (3,), ()), {}, "extents of condition, true_value and false_value"),
    ("clamp", ((2,), (), (3,)), {}, "extents of x, a and b"),
    ("sum_reduce", ((2, 3),), {"axes": (2,)}, "less than the rank of input: axes = [2], rank 2"),
    ("max_reduce", ((2, 3),), {"axes": (-1,)}, "items in axes must be non-negative"),
    ("argmax_reduce", ((2, 3),), {"axes": (1, 1)}, "items in axes must be unique: axes = [1,1]"),
    ("moments", ((2, 3),), {"axes": (3,)}, "axes = [3], rank 2"),
    ("softmax", ((2,),), {}, "items in axes must be less than the rank of x: axes = [1], rank 1"),
    ("reshape", ((2, 3),), {"shape": (4,)}, "[4], extents [2,3], 4 is not 6"),
    ("reshape", ((2, 3),), {"shape": (-2,)}, "items in shape must be non-negative or -1"),
    ("reshape", ((2, 3),), {"shape": (-1, -1)}, "at most one item in shape may be -1"),
    ("reshape", ((2, 3),), {"shape": (-1, 4)}, "6 is no multiple of 4"),
    ("reshape", ((2, 3),), {"shape": (6,), "axis_start": 3}, "axis_start = 3, rank 2"),
    ("reshape", ((2, 3),), {"shape": (6,), "axis_start": -1}, "axis_start must be non-negative"),
    (
        "reshape",
        ((2, 3),),
        {"shape": (6,), "axis_count": -2},
        "non-negative or -1: axis_count = -2",
    ),
    (
        "reshape",
        ((2, 3),),
        {"shape": (3,), "axis_start": 1, "axis_count": 2},
        "axis_start + axis_count must be at most the rank",
    ),
    ("reshape", ((2, 3),), {"shape": (6, 1, 0)}, "must have an extent of input to inherit"),
    ("reshape", ((2,),), {"shape": (2,) + (1,) * 8}, "the rank of output must be at most 8"),
    ("squeeze", ((2, 1),), {"axes": (0,)}, "extents along axes must be singular: axes = [0]"),
    ("squeeze", ((2, 1),), {"axes": (1, 1)}, "must be unique"),
    ("squeeze", ((2, 1),), {"axes": (2,)}, "axes = [2], rank 2"),
    ("unsqueeze", ((2, 1),), {"axes": (3,)}, "the rank of output: axes = [3], rank 3"),
    ("unsqueeze", ((2,),), {"axes": tuple(range(8))}, "the rank of output must be at most 8"),
    ("transpose", ((2, 3),), {"axes": (0, 2)}, "axes must be a permutation of 0 to 1"),
    ("transpose", ((2, 3),), {"axes": (0, 1, 2)}, "must not be longer than the rank of input"),
    ("split", ((2, 3),), {"axis": 1, "ratios": (1, 0)}, "items in ratios must be positive"),
    ("split", ((2, 3),), {"axis": 1, "ratios": ()}, "ratios must not be empty"),
    ("split", ((2, 3),), {"axis": 1, "ratios": (1, 1)}, "ratios = [1,1] sum to 2, axis = 1"),
    ("split", ((2, 3),), {"axis": 2, "ratios": (1,)}, "the rank of value: axis = 2, rank 2"),
    ("concat", ([],), {"axis": 0}, "values must not be empty"),
    ("concat", ([(2,), (2, 1)],), {"axis": 0}, "the ranks of values must be the same"),
    ("concat", ([(2, 3), (2, 4)],), {"axis": 0}, "in all dimensions other than axis: axis = 0"),
    ("concat", ([(2, 4), (1, 3), (2, 4)],), {"axis": 1}, "shapes [2,4], [1,3]"),
    ("concat", ([(2, 3)],), {"axis": 2}, "axis = 2, rank 2"),
    ("concat", ([(2, 3)],), {"axis": -1}, "axis must be non-negative"),
    ("stack", ([],), {"axis": 0}, "values must not be empty"),
    ("stack", ([(2, 3), (3, 2)],), {"axis": 0}, "they are [2,3], [3,2]"),
    ("stack", ([(3, 2), (2, 3)],), {"axis": 0}, "they are [3,2], [2,3]"),
    ("stack", ([(2, 3)],), {"axis": 3}, "the rank of value: axis = 3, rank 3"),
    ("stack", ([(1,) * 8],), {"axis": 0}, "the rank of value must be at most 8"),
    ("unstack", ((2, 3),), {"axis": 2}, "axis = 2, rank 2"),
    ("unstack", ((10**7,),), {"axis": 0}, "unstack gives at most"),
    ("slice", ((4,),), {"axes": (0,), "begin": (1, 2), "end": (3,)}, "the lengths of axes"),
    ("slice", ((4,),), {"axes": (0,), "begin": (0,), "end": (5,)}, "must be in the range (-4,4]"),
    ("slice", ((4,),), {"axes": (0,), "begin": (-4,), "end": (2,)}, "begin = -4"),
    ("slice", ((4,),), {"axes": (0,), "begin": (2,), "end": (2,)}, "must be greater than"),
    ("slice", ((4,),), {"axes": (0,), "begin": (4,), "end": (0,)}, "must be greater than"),
    ("slice", ((4,),), {"axes": (1,), "begin": (0,), "end": (1,)}, "axes = [1], rank 1"),
    ("slice", ((4, 4),), {"axes": (0, 0), "begin": (0, 0), "end": (1, 1)}, "must be unique"),
    (
        "slice",
        ((4,),),
        {"axes": (0,), "begin": (0,), "end": (2,), "stride": (0,)},
        "must not be 0",
    ),
    (
        "slice",
        ((4,),),
        {"axes": (0,), "begin": (0,), "end": (2,), "stride": (1, 1)},
        "axes = [0], begin = [0], end = [2], stride = [1,1]",
    ),
    (
        "slice",
        ((4,),),
        {"axes": (0,), "begin": (0,), "end": (2,), "stride": (-1,)},
        "take some of it",
    ),
    ("pad", ((2, 3),), {"padding": ((1, 1),)}, "the length of padding must equal the rank"),
    ("pad", ((2,),), {"padding": ((-1, -1),)}, "extents of output must be positive"),
    ("pad", ((2,),), {"padding": ((0, 0),), "border": "mirror"}, "border = 'mirror'"),
    ("tile", ((2,),), {"repeats": (0,)}, "items in repeats must be positive"),
    ("tile", ((2,),), {"repeats": (1, 1)}, "the length of repeats must equal the rank of input"),
    ("gather", ((2, 3), (2,)), {"axis": 2}, "axis = 2, rank 2"),
    ("gather", ((1,) * 8, (1, 1)), {}, "the rank of output must be at most 8"),
    ("matmul", ((4,), (4,)), {}, "must be at least 2"),
    ("matmul", ((1, 2, 3), (3, 2)), {}, "the ranks of A and B must be equal"),
    ("matmul", ((2, 3), (2, 3)), {}, "the columns of A must equal the rows of B: 3 and 2"),
    ("matmul", ((2, 3), (4, 3)), {"transposeA": True}, "the rows of A must equal the rows of B"),
    ("matmul", ((2, 3, 3), (4, 3, 3)), {}, "extents of the batch of A and the batch of B"),
    ("linear", ((2, 3), (4, 5), ()), {}, "the columns of input must equal the columns of filter"),
    ("linear", ((2, 3), (4, 3), (1, 5)), {}, "the product of input and filter and bias"),
    ("update", ((2, 3), (3, 2)), {}, "value.shape = [3,2], variable.shape = [2,3]"),
    ("update", ((2, 1), (2,)), {}, "value.shape = [2], variable.shape = [2,1]"),
    ("linear_quantize", ((2,), (), ()), {"bits": 0}, "bits must be positive and at most 64"),
    ("logarithmic_quantize", ((2,), ()), {"bits": 65}, "bits = 65"),
    (
        "min_max_linear_quantize",
        ((2,), (), ()),
        {"bits": 1, "signed": True, "symmetric": True},
        "bits must be at least 2",
    ),
    ("copy_n", ((2,),), {"times": -1}, "times must be non-negative"),
    ("copy_n", ((2,),), {"times": 10**9}, "times = 1000000000"),
    ("add_n", ([(2,), (2,), (3,)],), {}, "extents of x[0], x[1] and x[2]"),
]


@pytest.mark.parametrize(("name", "shapes", "attributes", "message"), WRONG)
def test_each_violation_has_its_message(
    name: str, shapes: tuple[Any, ...], attributes: dict[str, Any], message: str
) -> None:
    types, problems = invoke(name, *shapes, **attributes)
    assert types is None
    assert any(message in problem for problem in problems), problems


def test_all_violations_are_reported() -> None:
    _, problems = invoke("reshape", (2, 3), shape=(-2, -1, -1), axis_start=-1, axis_count=-5)
    assert len(problems) == 4
    _, problems = invoke("sum_reduce", (2, 3), axes=(-1, 4, 4))
    assert len(problems) == 3


@pytest.mark.parametrize(
    ("name", "attributes", "message"),
    [
        ("reshape", {"shape": UNKNOWN, "axis_start": -1}, "axis_start"),
        ("slice", {"axes": UNKNOWN, "begin": (1,), "end": (1, 2)}, "begin = [1], end = [1,2]"),
        ("split", {"axis": UNKNOWN, "ratios": (0,)}, "ratios = [0]"),
        ("variable", {"shape": UNKNOWN, "label": ""}, "label must not be empty"),
        ("pad", {"padding": UNKNOWN, "border": "x"}, "border = 'x'"),
    ],
)
def test_unknown_attributes_hide_no_violation(
    name: str, attributes: dict[str, Any], message: str
) -> None:
    """Operands and some attributes are unknown, as in a fragment that is never invoked."""
    operands = [None] * len(interface(operations()[name]).tensors)
    _, problems = invoke(name, *operands, **attributes)
    assert any(message in problem for problem in problems), problems


RIGHT: list[tuple[str, tuple[Any, ...], dict[str, Any], list[tuple[int, ...]]]] = [
    ("external", (), {"shape": ()}, [()]),
    ("constant", (), {"shape": (2, 3), "value": (1.0,)}, [(2, 3)]),
    ("variable", (), {"shape": (1,), "label": "a-B_0.c/d\\e"}, [(1,)]),
    ("add", ((3,), (3, 4)), {}, [(3, 4)]),
    ("add", ((), (3, 4)), {}, [(3, 4)]),
    ("prelu", ((2, 3), (1, 3, 4)), {}, [(2, 3, 4)]),
    ("max_reduce", ((2, 3),), {"axes": ()}, [(2, 3)]),
    ("softmax", ((2, 3),), {}, [(2, 3)]),
    ("reshape", ((2, 3, 4),), {"shape": (0, -1)}, [(2, 12)]),
    (
        "reshape",
        ((2, 3, 4),),
        {"shape": (1, 1), "axis_start": 3, "axis_count": 0},
        [(2, 3, 4, 1, 1)],
    ),
    ("reshape", ((1, 1),), {"shape": ()}, [()]),
    ("transpose", ((2, 3, 4),), {"axes": (1, 0)}, [(3, 2, 4)]),
    ("split", ((2, 6),), {"axis": 1, "ratios": (1, 2)}, [(2, 2), (2, 4)]),
    ("concat", ([(2, 3), (2, 1)],), {"axis": 1}, [(2, 4)]),
    ("stack", ([(2, 3)] * 3,), {"axis": 2}, [(2, 3, 3)]),
    ("unstack", ((2, 3),), {"axis": 0}, [(3,), (3,)]),
    ("slice", ((4,),), {"axes": (0,), "begin": (-3,), "end": (0,)}, [(3,)]),
    ("slice", ((4,),), {"axes": (0,), "begin": (3,), "end": (-99,), "stride": (-3,)}, [(2,)]),
    ("pad", ((4, 2),), {"padding": ((-1, -2), (3, 0))}, [(1, 5)]),
    ("pad", ((4,),), {"padding": ((9, 9),), "border": "reflect"}, [(22,)]),
    ("tile", ((2, 3),), {"repeats": (1, 4)}, [(2, 12)]),
    ("gather", ((2, 4, 3), (5, 6)), {"axis": 1}, [(2, 5, 6, 3)]),
    ("matmul", ((1, 2, 4, 3), (5, 1, 4, 6)), {"transposeA": True}, [(5, 2, 3, 6)]),
    ("linear", ((2, 3), (4, 3), (1, 4)), {}, [(2, 4)]),
    ("copy_n", ((2,),), {"times": 2}, [(2,), (2,)]),
    ("copy_n", ((2,),), {"times": 0}, []),
    ("add_n", ([],), {}, [()]),
    ("moments", ((2, 3),), {"axes": (1,)}, [(2, 1), (2, 1)]),
]


@pytest.mark.parametrize(("name", "shapes", "attributes", "expected"), RIGHT)
def test_results_have_the_expected_shapes(
    name: str,
    shapes: tuple[Any, ...],
    attributes: dict[str, Any],
    expected: list[tuple[int, ...]],
) -> None:
    types, problems = invoke(name, *shapes, **attributes)
    assert problems == []
    assert types is not None
    assert [t.shape for t in types] == expected


@pytest.mark.parametrize(
    ("name", "shapes", "attributes", "dtype"),
    [
        ("lt", ((), ()), {}, DType.BOOL),
        ("argmax_reduce", ((2,),), {"axes": (0,)}, DType.INT32),
        ("add", ((), ()), {}, DType.FLOAT32),
        ("and", ((), ()), {}, DType.BOOL),
        ("any_reduce", ((2,),), {"axes": (0,)}, DType.BOOL),
        ("constant", (), {"shape": (), "value": (1,)}, DType.INT32),
        ("constant", (), {"shape": (), "value": (True,)}, DType.BOOL),
        ("constant", (), {"shape": (), "value": (1.0,)}, DType.FLOAT32),
        ("gather", ((2,), (2,)), {}, DType.FLOAT32),
    ],
)
def test_results_have_the_expected_item_types(
    name: str, shapes: tuple[Any, ...], attributes: dict[str, Any], dtype: DType
) -> None:
    types, _ = invoke(name, *shapes, **attributes)
    assert types is not None
    assert types[0].dtype is dtype
