"""Random inputs of every kind, and the checks for each kind.

An input depends on (kind, seed, number) only, so that failures can be reproduced.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random

from nnefc.options.import_config import ImportConfig
from nnefc.support.limits import Limits
from tests.fuzz.seeds import DOCUMENTS, QUANTIZATION, QUANTIZED
from tests.fuzz.tract_calls import calls
from tests.fuzz.tract_seeds import DOCUMENTS as TRACT
from tests.fuzz.tract_seeds import WEIGHTED, WEIGHTS
from tests.helpers.nnef import hostile, random_documents
from tests.helpers.nnef.conformance import cases

LIMITS = Limits(operations=20_000, steps=200_000, items=2_000_000, recursion=200)
"""Low limits, so that inputs reach them quickly."""

_TOKEN = re.compile(r"\s+|#[^\n]*|[A-Za-z_]\w*|\d[\w.]*|'[^'\n]*'|->|[<>=!]=|&&|\|\||.", re.S)


@cache
def _corpus() -> list[str]:
    texts = [path.read_bytes().decode() for path in cases("[vit]*/*.nnef")]
    return [*DOCUMENTS, *texts]


def _shuffle(random: Random, text: str, others: list[str]) -> str:
    """Edit whole tokens, which leaves more valid documents than `random_documents.mutate`."""
    tokens = _TOKEN.findall(text)
    words = [t for t in tokens if not t.isspace()]
    foreign = [t for t in _TOKEN.findall(random.choice(others)) if not t.isspace()]
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(tokens))
        match random.randint(0, 5):
            case 0:
                tokens[at] = random.choice(words)
            case 1:
                tokens[at] = random.choice(foreign)
            case 2:
                tokens[at] = random.choice(("0", "-1", "1", "2", "7", "1000000", "0.5", "[]", "x"))
            case 3:
                tokens.insert(at, random.choice(words))
            case 4:
                start = random.randrange(len(tokens))
                tokens[at:at] = tokens[start : start + random.randint(1, 30)]
            case _:
                del tokens[at : at + random.randint(1, 3)]
        if not tokens:
            tokens = [" "]
    return "".join(tokens)


def document(random: Random) -> bytes:
    """Nearly valid text, by characters, by tokens, by the grammar, or as bytes."""
    corpus = _corpus()
    text = random.choice(corpus)
    kind = random.random()
    if kind < 0.55:
        text = _shuffle(random, text, corpus)
    elif kind < 0.8:
        text = random_documents.mutate(random, text)
    elif kind < 0.9:
        text = random_documents.mutate(random, random_documents.plain_document(random))
    else:
        return hostile.mutate(text.encode(), random)
    return text.encode()


def use_document(content: bytes) -> None:
    """Import a document; a valid one must flatten to a valid one."""
    from nnefc.frontends.nnef import import_text
    from nnefc.frontends.nnef.flatten import flatten
    from nnefc.syntax.parser import decode

    text = decode(content, "fuzz")
    graph = import_text(text, config=ImportConfig(chosen_limits=LIMITS))
    if len(graph) < 1000:
        again = flatten(graph)
        try:
            import_text(again, config=ImportConfig(chosen_limits=LIMITS))
        except Exception as error:
            raise AssertionError(f"flattened document is refused: {error}\n{again}") from error


def tensor(random: Random) -> bytes:
    return hostile.random_tensor_file(random)


def use_tensor(content: bytes) -> None:
    from nnefc.formats.tensor_file import read_tensor

    read_tensor(BytesIO(content))


def archive(random: Random) -> bytes:
    return hostile.random_archive(random)


def use_archive(content: bytes) -> None:
    from nnefc.frontends.read_model import read_graph

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(content)
        read_graph(path, ImportConfig(chosen_limits=LIMITS, require_data=False))


def quantization(random: Random) -> bytes:
    text = random.choice(QUANTIZATION)
    if random.random() < 0.5:
        return _shuffle(random, text, [*QUANTIZATION, *DOCUMENTS]).encode()
    return random_documents.mutate(random, text).encode()


def use_quantization(content: bytes) -> None:
    from nnefc.frontends.read_model import read_graph

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "graph.nnef").write_text(QUANTIZED)
        (Path(folder) / "graph.quant").write_bytes(content)
        read_graph(folder, ImportConfig(chosen_limits=LIMITS, require_data=False))


def tract(random: Random) -> bytes:
    """Nearly valid text in the dialect of tract."""
    text = random.choice(TRACT)
    kind = random.random()
    if kind < 0.7:
        return _shuffle(random, text, TRACT).encode()
    if kind < 0.9:
        return random_documents.mutate(random, text).encode()
    return hostile.mutate(text.encode(), random)


def use_tract(content: bytes) -> None:
    """Read with random weights, with every symbol at a value; what is valid is a right graph."""
    from nnefc.frontends.read_model import read_model
    from nnefc.ir import Graph
    from nnefc.ir.verify import verify

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "graph.nnef").write_bytes(content)
        config = ImportConfig(dialect="tract", chosen_limits=LIMITS, load_data=False)
        read = read_model(folder, config)
        if not isinstance(read, Graph):
            read = read.graph(next(read.sample_shapes({}))[0])
        assert verify(read) == []


def tract_calls(random: Random) -> bytes:
    return calls(random).encode()


def tract_weights(random: Random) -> bytes:
    """A tensor file with items of tract: damaged, or of another shape than its blocks have."""
    content = random.choice(WEIGHTS)
    return hostile.mutate(content, random) if random.random() < 0.9 else content


def use_tract_weights(content: bytes) -> None:
    """Read as the weight of a document that multiplies with it."""
    from nnefc.frontends.read_model import read_graph

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "graph.nnef").write_text(WEIGHTED)
        (Path(folder) / "w.dat").write_bytes(content)
        read_graph(folder, ImportConfig(chosen_limits=LIMITS))


@cache
def _onnx_models() -> list[bytes]:
    """A rich model, and the small models of single operators that the package `onnx` tests."""
    from tests.helpers.onnx.backend_cases import backend_cases
    from tests.helpers.onnx.hostile import rich_model

    models = [case.model for case in backend_cases().values() if len(case.model) < 4096]
    return [rich_model().SerializeToString(), *models]


def onnx(random: Random) -> bytes:
    """An ONNX file with damaged bytes, or with fields that have other values."""
    from onnx import ModelProto

    from tests.helpers.onnx.hostile import alterations, mutations

    models, seed = _onnx_models(), random.randrange(1 << 30)
    content = models[0] if random.random() < 0.25 else random.choice(models)
    if random.random() < 0.3:
        return next(mutations(content, seed, 1))
    model = ModelProto.FromString(content)
    return next(alterations(model, seed, 1)).SerializeToString()


def use_onnx(content: bytes) -> None:
    """Import for sample shapes, beside the file of its external data."""
    from tests.helpers.onnx.hostile import import_or_refuse, write_external

    with tempfile.TemporaryDirectory() as name:
        write_external(Path(name))
        path = Path(name) / "net.onnx"
        path.write_bytes(content)
        import_or_refuse(path)


@cache
def _tflite_models() -> list[bytes]:
    """A model with most kinds of tables, and the conformance cases."""
    from tests.helpers.nnef.conformance import tflite_cases
    from tests.helpers.tflite.hostile import rich_model

    return [rich_model(), *((each / "model.tflite").read_bytes() for each in tflite_cases())]


def tflite(random: Random) -> bytes:
    """A TensorFlow Lite file with damaged bytes, or with fields that have other values."""
    from tests.helpers.tflite.hostile import alterations, mutations, rich_tables

    seed = random.randrange(1 << 30)
    if random.random() < 0.5:
        return next(alterations(rich_tables(), seed, 1))
    return next(mutations(random.choice(_tflite_models()), seed, 1))


def tflite_operators(random: Random) -> bytes:
    """A model of one operator with damaged bytes."""
    from tests.fuzz.tflite_seeds import operator_models
    from tests.helpers.tflite.hostile import mutations

    return next(mutations(random.choice(operator_models()), random.randrange(1 << 30), 1))


def use_tflite(content: bytes) -> None:
    """Import; what is valid is a right graph."""
    from nnefc.frontends.tflite.read_model import source_of_content
    from nnefc.ir.verify import verify
    from nnefc.support.errors import Diagnostics

    limits = replace(LIMITS, tensor_bytes=1 << 24)
    source = source_of_content(memoryview(content), "fuzz", limits, Diagnostics())
    assert verify(source.graph({})) == []


def nnpackage(random: Random) -> bytes:
    """An archive of a package: its manifest, one of its models or its bytes are damaged."""
    from tests.fuzz.tflite_seeds import package

    return package(random)


def use_nnpackage(content: bytes) -> None:
    """Import; what is valid is a right graph."""
    from nnefc.formats.nnpackage.package_files import is_nnpackage
    from nnefc.frontends.tflite.read_package import read_package
    from nnefc.ir.verify import verify
    from nnefc.support.errors import Diagnostics

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.zip"
        path.write_bytes(content)
        if is_nnpackage(path):
            source = read_package(path, replace(LIMITS, tensor_bytes=1 << 24), Diagnostics())
            assert verify(source.graph({})) == []


KINDS: dict[str, tuple[Callable[[Random], bytes], Callable[[bytes], None]]] = {
    "document": (document, use_document),
    "onnx": (onnx, use_onnx),
    "tensor": (tensor, use_tensor),
    "tflite": (tflite, use_tflite),
    "tflite_operators": (tflite_operators, use_tflite),
    "nnpackage": (nnpackage, use_nnpackage),
    "archive": (archive, use_archive),
    "quantization": (quantization, use_quantization),
    "tract": (tract, use_tract),
    "tract_calls": (tract_calls, use_tract),
    "tract_weights": (tract_weights, use_tract_weights),
}


def make(kind: str, seed: int, number: int) -> bytes:
    """Input `number` of a run."""
    return KINDS[kind][0](Random(f"{kind} {seed} {number}"))
