"""Files of `torch.export.save` compute what the module computes, and are read without PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false, reportMissingTypeStubs=false
from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import numpy as np
import torch
from torch import nn

import nnefc
from nnefc.formats.archives.torch_archive import open_torch_archive
from nnefc.frontends.read_model import read_graph
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits
from tests.helpers.command_line import Cli
from tests.helpers.pytorch.hostile_archives import (
    altered,
    import_or_refuse,
    json_member,
    members_of,
    zipped,
)
from tests.helpers.tflite.hostile import mutations


class Network(nn.Module):
    """Operators in place, several results, shared weights, and constants of many types."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.register_buffer("rows", torch.arange(16.0).reshape(2, 8).t()[:, 1], persistent=False)
        self.register_buffer("flags", torch.arange(8) % 3 == 0)
        self.narrow = nn.Parameter(torch.rand(8).bfloat16())

    def forward(self, x: Any, factor: Any) -> Any:
        y = torch.relu_(self.norm(self.conv(x))).mean((2, 3)) * factor
        low, high = self.second(self.first(y) + self.rows).chunk(2, 1)
        top, at = low.max(1)
        z = (
            torch.where(self.get_buffer("flags"), y, float("-inf"))
            + torch.tensor([0.5]) * self.narrow.float()
        )
        return {"y": y.reshape(x.shape[0] * 8), "top": top, "at": at, "z": z, "high": high}


@pytest.fixture(scope="module")
def program() -> Any:
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=2, max=64)
    inputs = (torch.randn(3, 3, 6, 6), torch.tensor(2.0))
    shapes = {"x": {0: batch}, "factor": None}
    return torch.export.export(Network().eval(), inputs, dynamic_shapes=shapes)


@pytest.fixture(scope="module")
def archive(program: Any) -> bytes:
    out = BytesIO()
    torch.export.save(program, out)
    return out.getvalue()


def older(program: Any, *, bare: bool) -> bytes:
    """The archive of PyTorch before 2.8 (`bare`), or of 2.8: tensors are those of `torch.save`."""
    from torch._export.serde.serialize import serialize

    made: Any = serialize(program)
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        if bare:
            archive.writestr("version", "8.8")
            archive.writestr("serialized_exported_program.json", made.exported_program)
            archive.writestr("serialized_state_dict.pt", made.state_dict)
            archive.writestr("serialized_constants.pt", made.constants)
        else:
            archive.writestr("net/archive_format", "pt2")
            archive.writestr("net/models/model.json", made.exported_program)
            archive.writestr("net/data/weights/model.pt", made.state_dict)
            archive.writestr("net/data/constants/model.pt", made.constants)
    return out.getvalue()


KINDS: dict[str, Callable[[Any, bytes], bytes]] = {
    "new": lambda _, archive: archive,
    "deflated": lambda _, archive: zipped(members_of(archive), zipfile.ZIP_DEFLATED),
    "decomposed": lambda program, _: _saved(program.run_decompositions()),
    "2.8": lambda program, _: older(program, bare=False),
    "before 2.8": lambda program, _: older(program, bare=True),
}


def _saved(program: Any) -> bytes:
    out = BytesIO()
    torch.export.save(program, out)
    return out.getvalue()


_RUN = """
import sys
sys.modules["torch"] = None  # an import of PyTorch fails
import nnefc, numpy as np
given = np.load(sys.argv[2])
np.savez(sys.argv[3], *nnefc.compile(sys.argv[1])(given["x"], given["factor"]))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_archives_compute_what_the_module_computes(
    kind: str, program: Any, archive: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(KINDS[kind](program, archive))
    x, factor = torch.randn(5, 3, 6, 6), torch.tensor(0.5)
    want = program.module()(x, factor)
    if kind == "new":
        np.savez(tmp_path / "in.npz", x=x.numpy(), factor=factor.numpy())
        command = [sys.executable, "-c", _RUN, path, tmp_path / "in.npz", tmp_path / "out.npz"]
        subprocess.run(command, check=True, timeout=300)
        found = list(np.load(tmp_path / "out.npz").values())
    else:
        found = nnefc.compile(path)(x.numpy(), factor.numpy())
    for y, expected in zip(found, want.values(), strict=True):
        np.testing.assert_allclose(y, expected.detach().numpy(), 1e-5, 1e-5)


def test_weights_are_views_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    layer = nn.Linear(200, 300)
    torch.export.save(torch.export.export(layer, (torch.randn(1, 200),)), path)
    weight = open_torch_archive(path, Limits()).array("weight")
    assert not weight.flags.owndata
    assert not weight.flags.writeable
    np.testing.assert_array_equal(weight, layer.weight.detach().numpy())


def refusal(path: Path, content: bytes) -> NnefError:
    path.write_bytes(content)
    error = import_or_refuse(path)
    assert error is not None
    return error


MODEL, WEIGHTS = "model.json", "weights_config.json"
GRAPH = ("graph_module", "graph")
WEIGHT = ("config", "conv.weight")
META = (*WEIGHT, "tensor_meta")
EVIL = [{"as_expr": {"expr_str": "__import__('os').getpid()", "hint": None}}]


@pytest.mark.parametrize(
    ("end", "path", "value", "message"),
    [
        (MODEL, ("schema_version", "major"), 99, "version 99"),
        (MODEL, ("graph_module",), None, "an object is expected"),
        (MODEL, (*GRAPH, "nodes"), [], "no node before has the name"),
        (MODEL, (*GRAPH, "tensor_values", "x", "sizes"), EVIL, "the extent"),
        (WEIGHTS, (*WEIGHT, "use_pickle"), True, "pickled form"),
        (WEIGHTS, (*WEIGHT, "path_name"), "../../../etc/passwd", "there is no member"),
        (WEIGHTS, (*META, "storage_offset"), {"as_int": 1}, "its storage"),
        (WEIGHTS, (*META, "sizes", 0, "as_int"), 1 << 40, "more than"),
    ],
)
def test_damaged_archives_name_what_is_wrong(
    end: str, path: tuple[Any, ...], value: Any, message: str, archive: bytes, tmp_path: Path
) -> None:
    members = members_of(archive)
    name, whole = json_member(members, end)
    at = whole
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    error = refusal(tmp_path / "a.pt2", zipped({**members, name: json.dumps(whole).encode()}))
    assert message in str(error)


def test_files_of_other_kinds_are_explained(tmp_path: Path) -> None:
    saved = BytesIO()
    torch.save({"x": torch.zeros(3)}, saved)
    assert "torch.save" in str(refusal(tmp_path / "a.pt2", saved.getvalue()))
    assert "torch.save" in str(refusal(tmp_path / "net.pth", saved.getvalue()))
    assert "torch.export.save" in str(refusal(tmp_path / "a.pt2", b"not an archive"))


def test_pickles_are_never_executed(program: Any, tmp_path: Path) -> None:
    """A member that would create a file if it were unpickled."""
    target = tmp_path / "created"
    evil = f"cbuiltins\nopen\n(V{target}\nVw\ntR.".encode()
    inner = zipped({"archive/data.pkl": evil, "archive/byteorder": b"little"})
    members = members_of(older(program, bare=True))
    for name in ("serialized_state_dict.pt", "serialized_constants.pt"):
        error = refusal(tmp_path / "a.pt2", zipped({**members, name: inner}))
        assert "no dictionary of tensors" in str(error)
    assert not target.exists()


@pytest.mark.parametrize("seed", range(2))
def test_altered_archives_are_refused_or_read(seed: int, archive: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.pt2"
    for content in (*altered(archive, seed, 40), *mutations(archive, seed, 20)):
        path.write_bytes(content)
        import_or_refuse(path)


class Masked(nn.Module):
    """Changes a view, and has an operator that PyTorch decomposes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Any, given: Any = None, *, y: Any) -> Any:
        mask = torch.zeros_like(x)
        mask[:, 1:3] = 5.0
        return {"masked": self.linear(x) * mask, "other": torch.special.xlog1py(y, y)}


def test_programs_that_change_views_are_decomposed_by_pytorch(tmp_path: Path) -> None:
    """Where PyTorch is missing, they are refused."""
    path = tmp_path / "net.pt2"
    rows, y, module = torch.export.Dim("rows", max=99), torch.rand(3), Masked()
    shapes = {"x": {0: rows}, "y": None}
    torch.export.save(
        torch.export.export(module, (torch.randn(4, 6),), {"y": y}, dynamic_shapes=shapes), path
    )
    x = torch.randn(7, 6)
    model: Any = nnefc.compile(path)
    assert [each.name for each in model.inputs] == ["x", "y"]
    for found, wanted in zip(model(x.numpy(), y.numpy()), module(x, y=y).values(), strict=True):
        np.testing.assert_allclose(found, wanted.detach().numpy(), 1e-5, 1e-6)
    code = "import sys; sys.modules['torch'] = None; import nnefc; nnefc.compile(sys.argv[1])"
    command = [sys.executable, "-c", code, path]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert "torch/operator" in run.stderr
    assert "it is not installed" in run.stderr


def test_inputs_that_a_program_changes_are_results(tmp_path: Path) -> None:
    class Adding(nn.Module):
        def forward(self, x: Any, total: Any) -> Any:
            total.add_(x)
            return total * 2

    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(Adding(), (torch.ones(3), torch.ones(3))), path)
    model: Any = nnefc.compile(path)
    assert [each.name for each in model.outputs] == ["total_changed", "mul"]
    total, doubled = model(np.ones(3, np.float32), np.full(3, 4, np.float32))
    assert (total.tolist(), doubled.tolist()) == ([5.0] * 3, [10.0] * 3)


EVALUATED = [
    ("target", "torch.load"),
    ("target", "torch.ops.aten.from_file.default"),
    ("target", "torch.ops.aten.add.Tensor.__globals__"),
    ("target", "torch.ops.aten.__class__.mro"),
    ("target", "torch.ops.higher_order.triton_kernel_wrapper_mutation"),
    ("expr_str", "__import__('os').getpid()"),
    ("expr_str", "Symbol('s0').__class__"),
    ("expr_str", "Pow(Integer(9), Integer(9999999))"),
]


@pytest.mark.parametrize(("key", "value"), EVALUATED)
def test_texts_that_pytorch_would_evaluate_are_checked(
    key: str, value: str, tmp_path: Path
) -> None:
    path = tmp_path / "net.pt2"
    y = torch.rand(3)
    torch.export.save(torch.export.export(Masked(), (torch.randn(4, 6),), {"y": y}), path)
    members = members_of(path.read_bytes())
    name, whole = json_member(members, MODEL)
    graph = whole["graph_module"]["graph"]
    if key == "target":
        graph["nodes"][0]["target"] = value
    else:
        graph["sym_int_values"]["a"] = {"as_expr": {"expr_str": value, "hint": None}}
    error = refusal(path, zipped({**members, name: json.dumps(whole).encode()}))
    assert "is not given to PyTorch" in str(error)


def test_static_compilation_asks_for_values_of_symbols(archive: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(archive)
    with pytest.raises(NnefError, match=r"the shape of input 'x' is \[s\d+,3,6,6\]") as caught:
        read_graph(path)
    assert caught.value.errors[0].rule == "input/symbol"
    assert read_graph(path, ImportConfig(shapes={"x": (2, 3, 6, 6)})).inputs[0].type.dims[0] == 2


def test_commands_take_archives(cli: Cli, archive: bytes, tmp_path: Path) -> None:
    path, document = tmp_path / "net.pt2", tmp_path / "net.nnef.tgz"
    path.write_bytes(archive)
    assert "format  PyTorch" in cli("inspect", path).out
    shape = ("--shape", "x=2,3,6,6")
    assert cli("run", path, "--random-inputs", "1", *shape).status == 0
    converted = cli("convert", path, "-o", document, "--check", *shape)
    assert "equal bit for bit" in converted.out, converted
