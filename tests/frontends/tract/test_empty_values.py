"""Extents of 0 in operators: a symbol that is 0 in one call and 2 in the next, against PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (PyTorch is typed in part)

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import nnefc
from nnefc.support.errors import NnefError
from tests.helpers.nnef.hostile import tensor_file

HEAD = """\
version 1.0;
extension tract_registry tract_core;
extension tract_registry tract_transformers;
extension tract_symbol N;
fragment step( a: tensor<scalar>, h: tensor<scalar> ) -> ( r: tensor<scalar> ) { r = a + h; }
fragment total( a: tensor<scalar>, h: tensor<scalar> ) -> ( r: tensor<scalar> )
{ r = h + sum_reduce(a, axes = [0, 1]); }
"""
INPUTS = """\
    x = tract_core_external(shape = [N, 4], datum_type = 'f32');
    y = tract_core_external(shape = [4, N], datum_type = 'f32');
    z = tract_core_external(shape = [3, 4], datum_type = 'f32');
    q = tract_core_external(shape = [2, N, 6, 8], datum_type = 'f32');
    i = tract_core_external(shape = [N], datum_type = 'i64');
"""
SCAN = (
    "tract_core_scan('{}', scan = [('a', {}, 0, 1)], full = [], state = [('h', {}, 'r')], "
    "output = [('r', '{}', 0, 1)])"
)
ONES = "[[1.0, 1.0, 1.0, 1.0]]"
WIDE = "tract_core_broadcast(unsqueeze(i, axes = [1]), shape = [N, 4])"
HEADS = "transpose(q, axes = [0, 2, 1, 3])"
FILTER = "tract_core_broadcast(1.0, shape = [3, N, 3, 3])"

Formula = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of matrices."""
    return F.scaled_dot_product_attention(q[None], k[None], v[None])[0]


def causal(x: Tensor) -> Tensor:
    """Attention of heads to themselves, up to the diagonal."""
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


def convolved(q: Tensor) -> Tensor:
    """A convolution with ones and the bias 5; PyTorch drops the bias without channels."""
    y = F.conv2d(q, torch.ones(3, q.shape[1], 3, 3), padding=1) if q.numel() else torch.zeros(1)
    return (y + 5).expand(2, 3, 6, 8)


KINDS: dict[str, list[tuple[str, Formula]]] = {
    "movement": [
        ("concat([x, z], axis = 0)", lambda x, y, z, q, i: torch.cat([x, z])),
        ("concat([x, x, z, x], axis = 0)", lambda x, y, z, q, i: torch.cat([x, x, z, x])),
        ("concat([x, x], axis = 1)", lambda x, y, z, q, i: torch.cat([x, x], 1)),
        ("concat([[], z, x], axis = 0)", lambda x, y, z, q, i: torch.cat([z, x])),
        ("concat([tract_core_broadcast([], shape = [1, 0]), z], axis = 0)",
         lambda x, y, z, q, i: z),
        ("stack([x, x], axis = 0)", lambda x, y, z, q, i: torch.stack([x, x])),
        ("slice(z, axes = [0], begin = [1], end = [1])", lambda x, y, z, q, i: z[1:1]),
        ("concat([slice(z, axes = [0], begin = [1], end = [1]), z], axis = 0)",
         lambda x, y, z, q, i: z),
        ("tract_core_dyn_slice(x, 0, 0, 0, axis = 0)", lambda x, y, z, q, i: x[:0]),
        ("tract_core_broadcast(x, shape = [3, N, 4])", lambda x, y, z, q, i: x.expand(3, -1, -1)),
        ("tile(x, repeats = [2, 3])", lambda x, y, z, q, i: x.repeat(2, 3)),
        ("reshape(q, shape = [2, N, 48])", lambda x, y, z, q, i: q.flatten(2)),
        ("transpose(q, axes = [1, 3, 0, 2])", lambda x, y, z, q, i: q.permute(1, 3, 0, 2)),
        ("pad(x, padding = [(1, 2), (1, 0)], value = 2.0)",
         lambda x, y, z, q, i: F.pad(x, (1, 0, 1, 2), value=2)),
        ("pad(i, padding = [(1, 2)], value = 2.0)",
         lambda x, y, z, q, i: F.pad(i, (1, 2), value=2)),
        ("pad(q, padding = [(0, 0), (20, 20), (20, 20), (30, 30)], value = 2.0)",  # not folded
         lambda x, y, z, q, i: F.pad(q, (30, 30, 20, 20, 20, 20), value=2)),
        ("tract_core_shape_of(x)", lambda x, y, z, q, i: torch.tensor(x.shape)),
        ("tract_core_range(0, N, 1)", lambda x, y, z, q, i: torch.arange(len(x))),
    ],
    "reductions": [
        ("sum_reduce(x, axes = [0])", lambda x, y, z, q, i: x.sum(0, keepdim=True)),
        ("sum_reduce(x, axes = [0], normalize = true)",
         lambda x, y, z, q, i: x.mean(0, keepdim=True)),
        ("mean_reduce(y, axes = [1])", lambda x, y, z, q, i: y.mean(1, keepdim=True)),
        ("sum_reduce(i, axes = [0])", lambda x, y, z, q, i: i.sum(0, keepdim=True)),
        ("tract_core_product_reduce(y, axes = [1])", lambda x, y, z, q, i: y.prod(1, keepdim=True)),
        ("max_reduce(y, axes = [0])", lambda x, y, z, q, i: y.amax(0, keepdim=True)),
        ("argmax_reduce(y, axes = [0])", lambda x, y, z, q, i: y.argmax(0, keepdim=True)),
        ("all_reduce(y > 0.0, axes = [1])", lambda x, y, z, q, i: (y > 0).all(1, keepdim=True)),
        ("any_reduce(y > 0.0, axes = [1])", lambda x, y, z, q, i: (y > 0).any(1, keepdim=True)),
        ("softmax(x, axes = [0])", lambda x, y, z, q, i: x.softmax(0)),
        ("tract_core_log_softmax(y, axes = [1])", lambda x, y, z, q, i: y.log_softmax(1)),
        ("tract_core_rms_norm(y, axis = 1, eps = 0.1)",
         lambda x, y, z, q, i: y / (y.square().mean(1, keepdim=True) + 0.1).sqrt()),
        ("tract_core_cumsum(x, axis = 0)", lambda x, y, z, q, i: x.cumsum(0)),
        ("relu(x * 2.0 + 1.0)", lambda x, y, z, q, i: F.relu(x * 2 + 1)),
        ("select(x > 0.0, x, 0.0)", lambda x, y, z, q, i: F.relu(x)),
    ],
    "products": [
        ("matmul(y, x)", lambda x, y, z, q, i: y @ x),
        ("matmul(x, y)", lambda x, y, z, q, i: x @ y),
        ("matmul(x, z, transposeB = true)", lambda x, y, z, q, i: x @ z.T),
        ("linear(x, z, [[1.0, 2.0, 3.0]])",
         lambda x, y, z, q, i: F.linear(x, z, torch.tensor([1.0, 2.0, 3.0]))),
        ("linear(y, y, 2.0)", lambda x, y, z, q, i: y @ y.T + 2),
        ("tract_core_einsum([y, x], 'an,nb->ab')",
         lambda x, y, z, q, i: torch.einsum("an,nb->ab", y, x)),
        ("tract_core_einsum([x, z], 'na,ba->nb')",
         lambda x, y, z, q, i: torch.einsum("na,ba->nb", x, z)),
        ("tract_core_einsum([x], 'na->a')", lambda x, y, z, q, i: torch.einsum("na->a", x)),
        (f"conv(q, {FILTER}, [[5.0]], padding = [(1, 1), (1, 1)])",
         lambda x, y, z, q, i: convolved(q)),
        (f"deconv(q, {FILTER}, [[5.0, 5.0, 5.0]], padding = [(1, 1), (1, 1)])",
         lambda x, y, z, q, i: convolved(q)),
    ],
    "indices": [
        ("tract_core_gather(z, i, axis = 0)", lambda x, y, z, q, i: z[i]),
        ("tract_core_gather(x, [], axis = 1)", lambda x, y, z, q, i: x[:, :0]),
        (f"tract_core_gather_elements(z, {WIDE}, axis = 0)",
         lambda x, y, z, q, i: z.gather(0, i[:, None].expand(-1, 4))),
        ("tract_core_gather_nd(z, unsqueeze(i, axes = [1]))", lambda x, y, z, q, i: z[i]),
        ("tract_core_scatter_nd(z, unsqueeze(i, axes = [1]), x)",
         lambda x, y, z, q, i: z.index_copy(0, i, x)),
        (f"tract_core_scatter_elements(z, {WIDE}, x, axis = 0)",
         lambda x, y, z, q, i: z.scatter(0, i[:, None].expand(-1, 4), x)),
        ("tract_core_one_hot(i, axis = 1, dim = 3)", lambda x, y, z, q, i: F.one_hot(i, 3) * 1.0),
    ],
    "attention": [
        ("tract_transformers_sdpa(z, x, x)", lambda x, y, z, q, i: attention(z, x, x)),
        ("tract_transformers_sdpa(x, z, z)", lambda x, y, z, q, i: attention(x, z, z)),
        ("tract_transformers_sdpa(q, q, q)",
         lambda x, y, z, q, i: F.scaled_dot_product_attention(q, q, q)),
        (f"tract_transformers_sdpa({HEADS}, {HEADS}, {HEADS}, is_causal = true)",
         lambda x, y, z, q, i: causal(q.transpose(1, 2))),
        ("tract_transformers_sdpa(z, x, x, tract_core_broadcast(true, shape = [3, N]))",
         lambda x, y, z, q, i: attention(z, x, x)),
        ("tract_transformers_sdpa(z, x, x, tract_core_broadcast(false, shape = [3, N]))",
         lambda x, y, z, q, i: 0 * z),
    ],
    "loops": [
        (SCAN.format("step", "x", ONES, "full"), lambda x, y, z, q, i: x.cumsum(0) + 1),
        (SCAN.format("step", "x", ONES, "last"), lambda x, y, z, q, i: x.sum(0, keepdim=True) + 1),
        (SCAN.format("step", "y", "tract_core_broadcast(0.0, shape = [1, N])", "full"),
         lambda x, y, z, q, i: y.cumsum(0)),
        (SCAN.format("total", "y", "[[7.0]]", "full"),
         lambda x, y, z, q, i: y.sum(1, keepdim=True).cumsum(0) + 7),
        (SCAN.format("total", "y", "[[7.0]]", "last"),
         lambda x, y, z, q, i: y.sum().reshape(1, 1) + 7),
    ],
}  # fmt: skip


def document(folder: Path, values: list[str], inputs: str = INPUTS) -> Path:
    """A document whose results are the values of expressions."""
    names = ", ".join(f"r{n}" for n in range(len(values)))
    lines = "".join(f"    r{n} = {value};\n" for n, value in enumerate(values))
    taken = ", ".join(line.split()[0] for line in inputs.splitlines())
    path = folder / "graph.nnef"
    path.write_text(f"{HEAD}graph net( {taken} ) -> ( {names} )\n{{\n{inputs}{lines}}}\n")
    return path


def tensors(n: int) -> list[Tensor]:
    """Values of the inputs x, y, z, q, i for N = n."""
    torch.manual_seed(n)
    shapes = ((n, 4), (4, n), (3, 4), (2, n, 6, 8))
    return [*(torch.randn(shape) for shape in shapes), torch.arange(n)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_symbol_that_is_0_in_some_calls(tmp_path: Path, kind: str) -> None:
    values, formulas = zip(*KINDS[kind], strict=True)
    model = nnefc.compile(document(tmp_path, list(values)), threads=1)
    for n in (0, 2, 0):
        given = tensors(n)
        found = model(*(x.numpy() for x in given))
        for value, formula, y in zip(values, formulas, found, strict=True):
            expected = formula(*given).numpy()
            assert y.shape == expected.shape, (n, value)
            np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5, err_msg=f"{n} {value}")


def test_files_and_constants_without_items(tmp_path: Path) -> None:
    inputs = "    z = tract_core_external(shape = [1, 2, 3, 4], datum_type = 'f32');\n"
    path = document(
        tmp_path,
        [
            "concat([unsqueeze(variable<scalar>(label = 'v', shape = [0]), axes = [0, 1, 2]), z], "
            "axis = 2)",
            "concat([z, variable<scalar>(label = 'v', shape = [0])], axis = 1)",
            "constant(shape = [0, 4], value = [1.0])",
            "constant<integer>(shape = [0], value = [])",
            "variable<scalar>(label = 'b', shape = [0, 32])",
            "variable<scalar>(label = 's', shape = [2, 0])",
        ],
        inputs,
    )
    (tmp_path / "v.dat").write_bytes(tensor_file((0,), data=b""))
    blocks = tensor_file((0, 32), 0xFFFFFFFF, 0x3040, vendor=0x5452, data=b"")
    (tmp_path / "b.dat").write_bytes(blocks)
    (tmp_path / "s.dat").write_bytes(tensor_file((2, 0), 16, 0, data=b""))
    z = np.random.default_rng(0).normal(size=(1, 2, 3, 4)).astype(np.float32)
    model = nnefc.compile(path, threads=1)
    first, second, *others = model(z)
    np.testing.assert_array_equal(first, z)
    np.testing.assert_array_equal(second, z)
    assert [(x.shape, str(x.dtype)) for x in others] == [
        ((0, 4), "float32"), ((0,), "int64"), ((0, 32), "float32"), ((2, 0), "float16"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        "concat([tract_core_broadcast(0.0, shape = [0, 3]), z], axis = 0)",
        "concat([tract_core_broadcast(0.0, shape = [2, 0]), z], axis = 0)",
        "concat([tract_core_broadcast(0.0, shape = [0, 1]), z], axis = 0)",
    ],
)
def test_extents_of_empty_tensors_must_fit(tmp_path: Path, value: str) -> None:
    path = document(tmp_path, [value], INPUTS.splitlines(keepends=True)[2])
    with pytest.raises(NnefError, match="the same in all dimensions") as caught:
        nnefc.compile(path)
    assert caught.value.errors[0].rule == "argument/concat"


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("reshape(tract_core_broadcast(0.0, shape = [0, 4]), shape = [1, 4])", "argument/reshape"),
        ("tract_core_gather(tract_core_broadcast(0.0, shape = [0, 4]), [0], axis = 0)",
         "argument/gather"),
        ("min_reduce(tract_core_broadcast(0.0, shape = [3, 0]), axes = [1])", "operator/empty"),
        ("tract_core_topk(tract_core_broadcast(0.0, shape = [0, 4]), k = 1, axis = 0)",
         "argument/topk"),
        ("matmul(z, tract_core_broadcast(0.0, shape = [0, 3]))", "argument/matmul"),
        ("max_pool(tract_core_broadcast(0.0, shape = [1, 2, 0]), size = [1, 1, 1], "
         "padding = [(0, 0), (0, 0), (1, 1)])", "operator/empty"),
        ("tract_core_resize(tract_core_broadcast(0.0, shape = [1, 2, 0]), sizes = [1, 2, 3])",
         "operator/empty"),
        ("tract_transformers_sdpa(z, z, tract_core_broadcast(0.0, shape = [0, 4]))",
         "argument/matmul"),
    ],
)  # fmt: skip
def test_undefined_results_are_errors(tmp_path: Path, value: str, rule: str) -> None:
    path = document(tmp_path, [value], INPUTS.splitlines(keepends=True)[2])
    with pytest.raises(NnefError) as caught:
        nnefc.compile(path)
    assert caught.value.errors[0].rule == rule


def test_states_without_items_must_have_the_shape_of_a_turn(tmp_path: Path) -> None:
    text = HEAD.replace("tract_transformers;", "tract_extra;")
    inputs = INPUTS.splitlines(keepends=True)[2]
    path = document(tmp_path, ["tract_extra_exp_mean_norm(z, [], axis = 0, alpha = 0.5)"], inputs)
    path.write_text(path.read_text().replace(HEAD, text))
    with pytest.raises(NnefError) as caught:
        nnefc.compile(path)
    assert caught.value.errors[0].rule.startswith("argument/")


def test_quantized_inputs_without_items_are_dequantized(tmp_path: Path) -> None:
    inputs = "    x = tract_core_external(shape = [N, 4], datum_type = 'qu8(Z:3S:0.5)');\n"
    path = document(tmp_path, ["x", "tract_core_cast(x, to = 'f32')", "x + 1.0"], inputs)
    model = nnefc.compile(path, threads=1)
    for n in (0, 2):
        codes = np.arange(4 * n, dtype=np.uint8).reshape(n, 4)
        same, real, more = model(codes)
        assert (same.dtype, real.dtype, more.dtype) == (np.uint8, np.float32, np.float32)
        np.testing.assert_array_equal(same, codes)
        np.testing.assert_array_equal(real, (codes - 3.0) / 2)
        np.testing.assert_array_equal(more, (codes - 3.0) / 2 + 1)


def test_artifacts_and_copies_take_tensors_without_items(tmp_path: Path) -> None:
    values = [value for value, _ in KINDS["products"][:4]]
    inputs = "".join(INPUTS.splitlines(keepends=True)[:3])
    model = nnefc.compile(document(tmp_path, values, inputs), threads=1)
    assert isinstance(model, nnefc.DynamicModel)
    given = {n: [x.numpy() for x in tensors(n)[:3]] for n in (0, 2)}
    expected = {n: model(*arrays) for n, arrays in given.items()}
    path = tmp_path / "net.nnefc"
    for shapes in (0, 2):
        model.save(path, shapes=[{"x": (shapes, 4), "y": (4, shapes)}])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a shape without a plan in the file
            for copied in (nnefc.load(path), pickle.loads(pickle.dumps(model))):
                for n in (0, 2, 0):
                    for ours, theirs in zip(copied(*given[n]), expected[n], strict=True):
                        np.testing.assert_array_equal(ours, theirs)


def test_static_artifacts_have_inputs_and_results_without_items(tmp_path: Path) -> None:
    inputs = "".join(INPUTS.splitlines(keepends=True)[:3]).replace("N", "0")
    path = document(tmp_path, ["relu(x)", "concat([x, z], axis = 0)", "matmul(y, x)"], inputs)
    model = nnefc.compile(path, threads=1)
    assert isinstance(model, nnefc.CompiledModel)
    model.save(tmp_path / "net.nnefc")
    x, y, z, *_ = (each.numpy() for each in tensors(0))
    for each in (model, nnefc.load(tmp_path / "net.nnefc")):
        results = each(x, y, z)
        for found, expected in zip(results, (x, z, np.zeros((4, 4))), strict=True):
            assert found.dtype == np.float32 and found.shape == expected.shape
            np.testing.assert_array_equal(found, expected)
        out = [np.full_like(result, 9) for result in results]
        each(x, y, z, out=out)
        np.testing.assert_array_equal(out[1], z)
