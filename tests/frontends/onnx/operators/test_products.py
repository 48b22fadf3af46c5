"""Matrix products and Einstein sums against onnxruntime and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers.onnx.onnxruntime_oracle import compare, reals

MICROSOFT = "com.microsoft"


@pytest.mark.parametrize(
    ("a", "b"),
    [((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3,)), ((3,), (2, 3, 4)),
     ((2, 3), (5, 3, 4)), ((2, 1, 4, 3), (5, 3, 2)), ((2, 3, 4), (4, 5))],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint32])
def test_matmul(a: Any, b: Any, dtype: Any) -> None:
    inputs = [np.abs(reals(*shape, seed=i) * 9).astype(dtype) for i, shape in enumerate((a, b))]
    compare("MatMul", inputs, opset=13)


@pytest.mark.parametrize("opset", [6, 7, 9, 11, 13])
@pytest.mark.parametrize("c", [(3, 4), (4,), (1, 4), (3, 1), (1,), (1, 1), ()])
@pytest.mark.parametrize("transposed", [False, True])
def test_gemm(opset: int, c: tuple[int, ...], transposed: bool) -> None:
    inputs = [
        reals(5, 3) if transposed else reals(3, 5),
        reals(4, 5, seed=1) if transposed else reals(5, 4, seed=1),
        reals(*c, seed=2),
    ]
    settings: Any = {"alpha": 0.5, "beta": 1.5, "transA": transposed, "transB": transposed}
    if opset < 7:
        settings["broadcast"] = 1
        a, b = (x.T if transposed else x for x in inputs[:2])
        expected = [(0.5 * a @ b + 1.5 * inputs[2]).astype(np.float32)]
        compare("Gemm", inputs, opset=opset, expected=expected, **settings)
        return
    compare("Gemm", inputs, opset=opset, **settings)
    if opset >= 11:
        compare("Gemm", inputs[:2], opset=opset, **settings)


@pytest.mark.parametrize("dtype", [np.int32, np.uint64])
def test_gemm_of_integers(dtype: Any) -> None:
    a, b, c = (np.abs(reals(3, 3, seed=i) * 9).astype(dtype) for i in range(3))
    compare("Gemm", [a, b, c], opset=13, expected=[(2 * (a @ b) + c).astype(dtype)], alpha=2.0)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("...ij, ...jk -> ...ik", [(2, 3, 4), (1, 4, 5)]),
        ("ij->ji", [(2, 3)]),
        ("ii", [(3, 3)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("i,j", [(2,), (3,)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("aB,Bc", [(2, 3), (3, 4)]),
        ("ij->", [(2, 3)]),
    ],
)
def test_einsum(equation: str, shapes: Any) -> None:
    inputs = [reals(*shape, seed=i) for i, shape in enumerate(shapes)]
    expected = [np.asarray(np.einsum(equation, *inputs)).astype(np.float32)]
    compare("Einsum", inputs, opset=12, equation=equation, expected=expected)


@pytest.mark.parametrize("a_first", [False, True])
@pytest.mark.parametrize("b_first", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_fused_matmul(a_first: bool, b_first: bool, transposed: bool) -> None:
    a = reals(*(2, 3, 4, 5) if not a_first else (4, 2, 3, 5))
    b = reals(*(2, 3, 5, 6) if not b_first else (5, 2, 3, 6), seed=1)
    if transposed:
        a = reals(*(2, 3, 5, 4) if not a_first else (5, 2, 3, 4))
        b = reals(*(2, 3, 6, 5) if not b_first else (6, 2, 3, 5), seed=1)
    compare(
        "FusedMatMul",
        [a, b],
        domain=MICROSOFT,
        alpha=0.7,
        transA=transposed,
        transB=transposed,
        transBatchA=a_first,
        transBatchB=b_first,
    )


@pytest.mark.parametrize(
    ("activation", "settings"),
    [("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Tanh", {}),
     ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4})],
)  # fmt: skip
def test_fused_gemm(activation: str, settings: Any) -> None:
    inputs = [reals(3, 5), reals(5, 4, seed=1), reals(4, seed=2)]
    compare("FusedGemm", inputs, domain=MICROSOFT, activation=activation, **settings)


def test_fused_matmul_activation() -> None:
    a, b = reals(2, 3, 5), reals(4, 5, seed=1)
    y = 0.5 * a @ b.T
    expected = [np.where(y < 0, 0.2 * y, y).astype(np.float32)]
    settings: Any = {"activation": "LeakyRelu", "activation_alpha": 0.2, "alpha": 0.5, "transB": 1}
    compare("FusedMatMulActivation", [a, b], domain=MICROSOFT, expected=expected, **settings)
