"""Check that all operators of a model are known, before any of them is evaluated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import onnx
from onnx import NodeProto

from nnefc.frontends.onnx.model import OnnxModel, domain_of, function_key, nodes_within, opsets_of
from nnefc.frontends.onnx.registry import (
    MICROSOFT,
    STANDARD,
    find,
    operators,
    refusal,
    versions_of,
)
from nnefc.frontends.onnx.standard_functions import is_standard_function
from nnefc.ops.tools.suggest import suggestion
from nnefc.support.errors import Diagnostics


def check_operators(model: OnnxModel, diagnostics: Diagnostics) -> None:
    """Report each unknown operator once, with the number of its uses."""
    newest = onnx.defs.onnx_opset_version()
    unknown: Counter[tuple[str, str, int]] = Counter()
    for nodes, opsets in _bodies(model):
        version = opsets.get(STANDARD, 1)
        if version > newest:
            message = f"the model needs version {version} of ai.onnx; the newest known one is"
            hint = "install a newer version of the package onnx"
            diagnostics.error("onnx/version", f"{message} {newest}", model.place, hint=hint)
        for domain, number in opsets.items():
            if number < 1:
                message = f"the model needs version {number} of {domain or 'ai.onnx'}"
                hint = "versions start at 1"
                diagnostics.error("onnx/version", message, model.place, hint=hint)
        for node in nodes:
            key = function_key(node.domain, node.op_type, node.overload)
            domain = domain_of(node.domain)
            version = opsets.get(domain, 1)
            is_defined = key in model.functions or version < 1
            if not is_defined and not _is_known(domain, node.op_type, version):
                unknown[domain, node.op_type, version] += 1
    for (domain, name, version), count in unknown.items():
        often = f"{count} times" if count > 1 else "once"
        full = f"{domain or 'ai.onnx'}.{name}"
        message = f"operator {full} of version {version}, used {often}, is not supported"
        hint = refusal(domain, name) or _hint(domain, name)
        diagnostics.error("onnx/operator", message, model.place, hint=hint)


def _bodies(model: OnnxModel) -> Iterable[tuple[Iterable[NodeProto], dict[str, int]]]:
    """The nodes of the graph and of each function, with the versions of their operators."""
    yield nodes_within(model.graph), model.opsets
    for function in model.functions.values():
        graph = onnx.GraphProto(node=function.node)
        yield nodes_within(graph), opsets_of(function)


def _is_known(domain: str, name: str, version: int) -> bool:
    known = find(domain, name, version) is not None
    return known or is_standard_function(domain, name, version)


def _hint(domain: str, name: str) -> str:
    if domain not in (STANDARD, MICROSOFT):
        return "operators of other domains are custom; a function of the model can define them"
    if (domain, name) in operators():
        return f"it is known in versions {versions_of(operators()[domain, name])}"
    return suggestion(name, [known for where, known in operators() if where == domain])
