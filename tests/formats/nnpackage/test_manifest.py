"""Manifests of packages, of 2019 and later, and their errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nnefc.formats.nnpackage.manifest import End, Manifest, parse_manifest
from nnefc.support.errors import Diagnostics, NnefError


def parse(value: Any) -> Manifest:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return parse_manifest(text, "pkg/metadata/MANIFEST", Diagnostics())


def test_main_model() -> None:
    manifest = parse({"main-model": "./sub//my.model"})
    assert (manifest.models, manifest.types, manifest.is_connected) == (
        ("sub/my.model",),
        (),
        False,
    )


def test_models_come_before_main_model() -> None:
    assert parse({"main-model": "a", "models": ["b", "c"]}).models == ("b", "c")


def test_all_attributes() -> None:
    manifest = parse(
        {
            "major-version": "1",
            "minor-version": 3,
            "patch-version": "1",
            "configs": ["model.cfg"],
            "models": ["a.tflite", "b.circle"],
            "model-types": ["tflite", "circle"],
            "pkg-inputs": ["0:0:1"],
            "pkg-outputs": ["1:0:2"],
            "model-connect": [{"from": "0:0:0", "to": ["1:0:0", "1:0:1"]}],
            "later": {},
        }
    )
    assert manifest == Manifest(
        "pkg/metadata/MANIFEST",
        ("a.tflite", "b.circle"),
        ("tflite", "circle"),
        ("model.cfg",),
        (End(0, 0, 1),),
        (End(1, 0, 2),),
        ((End(0, 0, 0), End(1, 0, 0)), (End(0, 0, 0), End(1, 0, 1))),
    )


def test_all_errors_at_once() -> None:
    with pytest.raises(NnefError) as caught:
        parse(
            {
                "major-version": "2",
                "minor-version": "x",
                "models": ["../a", "/b", "", 5],
                "model-types": ["TFLITE", "tvn"],
                "configs": ["../../etc/passwd"],
                "pkg-inputs": ["0:0", 7],
                "pkg-outputs": "0:0:0",
                "model-connect": [{"from": "0:0:-1", "to": ["a"]}, "0:0:0"],
            }
        )
    assert {each.rule for each in caught.value.errors} == {"tflite/package"}
    assert {str(each.place) for each in caught.value.errors} == {"pkg/metadata/MANIFEST"}
    messages = [each.message for each in caught.value.errors]
    for part in (
        "'major-version' is 2",
        "'minor-version' is 'x'",
        "'models'[0] is '../a': its path leads out of the package",
        "'models'[1] is '/b': its path is absolute",
        "'models'[2] is '': it is empty",
        "'models'[3] is 5; a string is expected",
        "'model-types' has 2 items, but there are 4 models",
        "'model-types'[0] is 'TFLITE'",
        "'model-types'[1] is 'tvn'",
        "'configs'[0] is '../../etc/passwd': its path leads out",
        "'pkg-inputs'[0] is '0:0'",
        "'pkg-inputs'[1] is 7",
        "'pkg-outputs' is '0:0:0'; a list is expected",
        "'model-connect'[0], 'from' is '0:0:-1'",
        "'model-connect'[0], 'to'[0] is 'a'",
        "'model-connect'[1] is '0:0:0'",
    ):
        assert any(part in message for message in messages), (part, messages)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "not valid JSON"),
        (b"", "not valid JSON"),
        (b"\xff{}", "byte 0 is not UTF-8"),
        (b"[" * 10_000, "nested too deeply"),
        (b"[]", "an object is expected, not []"),
        (b"null", "an object is expected"),
        (b"{}", "neither 'models' nor 'main-model'"),
        (b'{"models": []}', "'models' is empty"),
        (b'{"models": "a"}', "'models' is 'a'; a list is expected"),
        (b'{"models": null}', "neither 'models' nor 'main-model'"),
        (b'{"main-model": 1}', "'main-model' is 1"),
        (b'{"main-model": "a", "main-model": "b"}', "'main-model' occurs more than once"),
    ],
)
def test_errors(text: bytes, message: str) -> None:
    with pytest.raises(NnefError) as caught:
        parse(text)
    assert message in str(caught.value)
