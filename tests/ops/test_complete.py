"""Every operation is complete; a failure tells what to add to which file."""

from __future__ import annotations

import inspect

import pytest

from nnefc.frontends.nnef.import_model import import_text
from nnefc.ir.graph import walk
from nnefc.kernels.vector.instructions import INSTRUCTIONS
from nnefc.lower import load_lowerings
from nnefc.lower.context import has_blocked_lowering, has_lowering
from nnefc.ops.core.spec import OpSpec
from nnefc.ops.core.traits import COMPOUND
from nnefc.ops.tools.cost import flops, macs
from nnefc.ops.tools.sample import instance
from nnefc.ops.tools.table import declared, operations, standard
from nnefc.ops.tools.verify import rule_problems

STORED = ("external", "variable", "constant")
"""Operations that compute nothing."""
BLOCKED_CONVOLUTIONS = ("fused_conv", "fused_deconv")
"""They have no blocked rule: `passes/machine/assign_layouts.py` always blocks their tensors."""


def missing(spec: OpSpec) -> list[str]:
    """Instructions for what an operation lacks; empty if it is complete."""
    entry = f"the entry of '{spec.name}' under nnefc/ops/"
    lacks: list[str] = []
    if not spec.is_internal and spec.infer is None:
        lacks.append(f"add `infer=` to {entry}")
    if spec.is_internal and spec.evaluate is None:
        lacks.append(f"add `evaluate=` to {entry}")
    computable = spec.reference or spec.evaluate or spec.expand
    if not computable and spec.name not in ("external", "variable"):
        lacks.append(f"add `reference=`, the formula in NumPy, to {entry}")
    if not spec.is_internal and not spec.samples and spec.name not in ("external", "variable"):
        lacks.append(f"add `samples=`, three or more, to {entry}")
    if spec.elementwise and spec.expand is None and spec.name not in INSTRUCTIONS:
        lacks.append(
            f"add '{spec.name}' to INSTRUCTIONS in kernels/vector/instructions.py, "
            f"or `expand=` to {entry}"
        )
        return lacks  # which has the lowerings, too
    lowered = has_lowering(spec.name) or (spec.is_internal and has_blocked_lowering(spec.name))
    if spec.expand is None and spec.name not in STORED and not lowered:
        lacks.append(
            f'add a function with @lowering("{spec.name}") to a module under nnefc/lower/, '
            f"or `expand=` to {entry}"
        )
    own = spec.traits._replace(cost=COMPOUND.cost, folding=COMPOUND.folding)
    if spec.expand is not None and own != COMPOUND:
        lacks.append(f"`traits=COMPOUND` in {entry}: passes see what it expands into")
    if spec.elementwise and spec.traits.cost.other is None and spec.name != "copy":
        lacks.append(f"`traits=ELEMENTWISE` in {entry}")
    if spec.traits.blocked is not None and not has_blocked_lowering(spec.name):
        lacks.append(
            f'add a function with @blocked_lowering("{spec.name}") to a module under '
            f"nnefc/lower/blocked/, or `blocked=None` to {entry}"
        )
    if spec.traits.view and spec.traits.aliased != 0:
        lacks.append(f"`traits=VIEW` in {entry}: its result shares the memory of its operand")
    if spec.traits.cheap and not spec.elementwise:
        lacks.append(f"`cheap=False` in {entry}: only element-wise operations are fused")
    products = spec.traits.cost.multiply_adds is not None and spec.expand is None
    if products and spec.traits.accumulator is None:
        lacks.append(f"add `accumulator=`, the item type of its sums, to {entry}")
    return lacks


@pytest.mark.parametrize("name", sorted(operations()))
def test_every_operation_is_complete(name: str) -> None:
    load_lowerings()
    lacks = missing(operations()[name])
    assert not lacks, f"operation '{name}' is not complete:\n- " + "\n- ".join(lacks)


def test_instructions_and_blocked_convolutions_are_operations() -> None:
    load_lowerings()
    assert set(INSTRUCTIONS) <= set(operations())
    assert all(operations()[name].elementwise for name in INSTRUCTIONS)
    assert all(has_blocked_lowering(name) for name in BLOCKED_CONVOLUTIONS)


def test_internal_operations_are_not_for_documents() -> None:
    internal = set(operations()) - set(declared())
    assert {"fused", "fused_conv", "attention", "scan", "layout"} <= internal
    assert not internal & set(standard())
    # a fragment may have such a name
    graph = import_text(
        "version 1.0; extension KHR_enable_fragment_definitions; "
        "fragment scan( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = exp(x); } "
        "graph g( x ) -> ( y ) { x = external(shape = [2]); y = scan(x); }"
    )
    assert [op.name for op in walk(graph)] == ["exp"]


@pytest.mark.parametrize("name", sorted(set(declared()) - set(STORED)))
def test_samples_keep_the_rules_and_have_a_cost(name: str) -> None:
    spec = declared()[name]
    for sample in spec.samples:
        one = instance(spec, sample)
        for op in one.graph.ops:
            assert rule_problems(op) == []
            assert macs(op) >= 0
            assert flops(op) >= 2 * macs(op)


def test_an_entry_must_state_every_trait() -> None:
    for kind in (OpSpec, type(operations()["add"].traits)):
        parameters = inspect.signature(kind).parameters
        required = {n for n, p in parameters.items() if p.default is inspect.Parameter.empty}
        assert required >= ({"traits"} if kind is OpSpec else {*parameters})
