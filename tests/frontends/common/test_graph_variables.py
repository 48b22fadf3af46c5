"""Names of variables."""

from __future__ import annotations

from nnefc.frontends.common.graph_variables import VariableNames


def test_names_have_the_characters_of_labels_and_differ() -> None:
    names = VariableNames()
    labels = ["onnx::Conv_1", "onnx__Conv_1", "ONNX::conv_1", "layer.0/weight", ""]
    found = [names.name(label) for label in labels]
    assert found[0] == "onnx__Conv_1"
    assert found[3] == "layer.0/weight"
    assert len({name.lower() for name in found}) == len(labels)
    assert [names.name(label) for label in labels] == found
    assert [names.label(name) for name in found] == labels
