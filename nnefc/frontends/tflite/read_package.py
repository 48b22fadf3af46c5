"""Read an nnpackage: its manifest, its models, and their connections."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from nnefc.formats.files import printable
from nnefc.formats.nnpackage.manifest import RULE, TYPE_OF, Manifest, parse_manifest
from nnefc.formats.nnpackage.package_files import open_package, read_manifest
from nnefc.formats.paths import MANIFEST
from nnefc.formats.source_files import SourceFiles
from nnefc.formats.tflite.join_models import join_models
from nnefc.formats.tflite.model import Model
from nnefc.formats.tflite.model_file import read_model_bytes
from nnefc.frontends.tflite.check_operators import check_operators
from nnefc.frontends.tflite.source import SHAPES, TfliteSource
from nnefc.support.errors import Diagnostics, NnefError, Place
from nnefc.support.limits import Limits


class PackageSource(TfliteSource):
    """The network of a package."""

    def __init__(
        self,
        model: Model,
        models: Mapping[str, Model],
        texts: Mapping[str, bytes | memoryview],
        limits: Limits,
        shapes: Mapping[str, Sequence[int]] | None = None,
        given: Mapping[str, int] | None = None,
    ) -> None:
        """`models`: those of `texts`, which has the manifest besides, by path in the package."""
        super().__init__(model, b"", limits, shapes, given)
        self._models = models
        self._texts = texts

    def with_symbols(self, values: Mapping[str, int]) -> PackageSource:
        """A source of the same network, in which exactly these symbols are `given`."""
        models, texts = self._models, self._texts
        return PackageSource(self.model, models, texts, self.limits, self._shapes, values)

    def models(self) -> Sequence[tuple[Model, memoryview]]:
        """The models of the package that are used, and their files."""
        return [(model, memoryview(self._texts[path])) for path, model in self._models.items()]

    def files(self) -> SourceFiles:
        """The manifest and the models, and the shapes of inputs that replace their own."""
        texts = {path: bytes(content) for path, content in self._texts.items()}
        texts[SHAPES] = json.dumps(self._shapes).encode()
        given = dict(self.given)
        return SourceFiles(self.model.file, texts, {}, None, given, self.limits, "nnpackage")

    def description(self) -> dict[str, Any]:
        """As that of a model, with the models of the package."""
        return {**super().description(), "package": list(self._models)}


def read_package(
    path: str | os.PathLike[str],
    limits: Limits,
    diagnostics: Diagnostics,
    shapes: Mapping[str, Sequence[int]] | None = None,
    symbols: Mapping[str, int] | None = None,
) -> PackageSource:
    """The source of a package; raises NnefError with all errors of the manifest or the models."""
    with open_package(path, limits) as files:
        manifest = read_manifest(files, diagnostics)
        used = _used_models(manifest, diagnostics)
        texts: dict[str, bytes | memoryview] = {MANIFEST: files.manifest_text()}
        for i, model in enumerate(manifest.models):
            content = files.content(model)
            if content is None:
                message = f"model {i} is '{printable(model)}', but the package has no such file"
                diagnostics.error(RULE, message, Place(manifest.file))
            elif model in used:
                texts[model] = content
        diagnostics.raise_errors()
        names = {model: files.display_name(model) for model in used}
    return _source(manifest, files.name, names, texts, limits, diagnostics, shapes, symbols)


def read_stored_package(files: SourceFiles, diagnostics: Diagnostics) -> PackageSource:
    """The source of a package that `PackageSource.files` returned; raises NnefError."""
    texts = {path: text for path, text in files.texts.items() if path != SHAPES}
    manifest = parse_manifest(texts[MANIFEST], f"{files.file}: {MANIFEST}", diagnostics)
    names = {path: f"{files.file}: {printable(path)}" for path in texts}
    shapes = json.loads(files.texts[SHAPES])
    given = files.symbols
    return _source(manifest, files.file, names, texts, files.limits, diagnostics, shapes, given)


def _used_models(manifest: Manifest, diagnostics: Diagnostics) -> Sequence[str]:
    """The paths of the models of the network: all that are connected, or the first."""
    if manifest.is_connected or len(manifest.models) == 1:
        return manifest.models
    first, count = printable(manifest.models[0]), len(manifest.models)
    message = f"the package has {count} models that are not connected; the first is used, '{first}'"
    hint = "'pkg-inputs', 'pkg-outputs' and 'model-connect' of the manifest make one network of all"
    diagnostics.warn(RULE, message, Place(manifest.file), hint=hint)
    return manifest.models[:1]


def _source(
    manifest: Manifest,
    name: str,
    names: Mapping[str, str],
    texts: Mapping[str, bytes | memoryview],
    limits: Limits,
    diagnostics: Diagnostics,
    shapes: Mapping[str, Sequence[int]] | None,
    given: Mapping[str, int] | None,
) -> PackageSource:
    """The source of the models in `texts`; `names`: of these models in messages."""
    models: dict[str, Model] = {}
    for i, path in enumerate(manifest.models):
        if path not in texts:
            continue
        content = memoryview(texts[path])
        if manifest.types:
            _check_type(manifest, i, bytes(content[4:8]), diagnostics)
        try:
            models[path] = read_model_bytes(content, names[path], limits, Diagnostics())
            check_operators(models[path], diagnostics)
        except NnefError as error:  # those of all models are reported
            for each in error.errors:
                diagnostics.add(each)
    diagnostics.raise_errors()
    joined = next(iter(models.values()))
    if manifest.is_connected:
        every = [models[path] for path in manifest.models]
        joined = join_models(every, manifest, name, diagnostics)
    return PackageSource(joined, models, texts, limits, shapes, given)


def _check_type(
    manifest: Manifest, index: int, identifier: bytes, diagnostics: Diagnostics
) -> None:
    """Report a model of another type than the manifest says."""
    actual = TYPE_OF.get(identifier)
    if actual is not None and actual != manifest.types[index]:
        model, given = printable(manifest.models[index]), manifest.types[index]
        message = f"'model-types'[{index}] is '{given}', but '{model}' is a model of type {actual}"
        diagnostics.error(RULE, message, Place(manifest.file))
