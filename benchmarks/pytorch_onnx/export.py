"""Exports a network by one of PyTorch's two exporters; the file is written once."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import warnings
from collections.abc import Generator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch

from benchmarks.pytorch_onnx.network import Network

EXPORTERS: Final = ("torchscript", "dynamo")
"""`torch.onnx.export` with `dynamo=False` and `dynamo=True`."""

_PACKAGES = ("torch", "onnxscript", "transformers", "torchvision")
_COMMANDS = {"__main__.py", "check.py", "exported_files.py"}


class Variant(NamedTuple):
    """How a network is exported."""

    exporter: str
    dynamic: bool
    """Whether its variable axes are symbols."""

    @property
    def title(self) -> str:
        return f"{self.exporter}, dynamic" if self.dynamic else self.exporter

    def extents(self, network: Network) -> dict[str, int]:
        """The extents of the inputs to export with; the exporters take an extent of 1 as fixed."""
        if not self.dynamic:
            return network.extents
        return {symbol: max(extent, 2) for symbol, extent in network.extents.items()}

    def samples(self, network: Network) -> list[dict[str, int]]:
        """The extents of inputs that the exported file takes."""
        first = self.extents(network)
        if not self.dynamic:
            return [first]
        fixed = network.fixed_by_dynamo if self.exporter == "dynamo" else frozenset[str]()
        return [first, {k: first[k] if k in fixed else n for k, n in network.others.items()}]


def exported(name: str, network: Network, variant: Variant, folder: Path, *, small: bool) -> Path:
    """The path of the ONNX file, which is exported unless it exists."""
    size = "small" if small else "real"
    parts = (name, size, variant.exporter, *(("dynamic",) if variant.dynamic else ()))
    place = folder / f"pytorch_onnx-{_digest()}" / "-".join(parts)
    path = place / "model.onnx"
    if not path.exists():
        place.mkdir(parents=True, exist_ok=True)
        unfinished = place / "unfinished.onnx"
        export(network, variant, unfinished)
        unfinished.replace(path)
    return path


def export(network: Network, variant: Variant, path: Path) -> None:
    """Export a network; weights are part of the file."""
    torch.manual_seed(1)
    inputs = network.inputs(variant.extents(network))
    options: dict[str, Any] = {
        "input_names": list(inputs),
        "output_names": list(network.outputs),
        "dynamo": variant.exporter == "dynamo",
    }
    if variant.exporter == "dynamo":
        options |= {"external_data": False, "verbose": False}
        if variant.dynamic:
            options["dynamic_shapes"] = _dynamic_shapes(network, inputs)
    elif variant.dynamic:
        options["dynamic_axes"] = network.axes
    with _quiet(), torch.no_grad():
        torch.onnx.export(network.module, tuple(inputs.values()), path, **options)


def _dynamic_shapes(network: Network, inputs: dict[str, Any]) -> tuple[Any, ...]:
    """The symbols of each parameter of `forward`; those of `*past` are a tuple."""
    fixed = network.fixed_by_dynamo
    axes = [
        {i: symbol for i, symbol in network.axes.get(name, {}).items() if symbol not in fixed}
        for name in inputs
    ]
    code = network.module.forward.__code__
    if not code.co_flags & 0x04:  # no *arguments
        return tuple(axes)
    single = code.co_argcount - 1
    return *axes[:single], tuple(axes[single:])


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Drops what the exporters print, and uses layers that the older one knows."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
        torch.backends.mha.set_fastpath_enabled(fast)


def _digest() -> str:
    """A digest of the sources of networks and of the versions of packages."""
    total = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.name not in _COMMANDS:
            total.update(path.read_bytes())
    for package in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            total.update(version(package).encode())
    return total.hexdigest()[:12]
