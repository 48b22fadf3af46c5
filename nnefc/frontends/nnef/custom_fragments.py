"""Resolve fragments without a body to registered custom operations."""

from __future__ import annotations

from nnefc.frontends.nnef.operation_declarations import Declaration, same_signature
from nnefc.ops import custom
from nnefc.support.errors import Diagnostics, Place


def resolve(declaration: Declaration, place: Place, diagnostics: Diagnostics) -> None:
    """Attach the registered operation to a fragment without a body, if one is registered."""
    custom.load_entry_points()
    spec = custom.spec(declaration.name)
    if spec is None:
        return
    ours = Declaration(spec.declaration, spec)
    if same_signature(ours, declaration):
        declaration.spec = spec
        return
    diagnostics.error(
        "custom/signature",
        f"the declaration of '{declaration.name}' differs from the registered one: "
        f"{describe(declaration)} is declared, {describe(ours)} is registered",
        place,
    )
    declaration.malformed = True


def describe(declaration: Declaration) -> str:
    """The signature as text: `name<?>(x: tensor<?>) -> (y: tensor<?>)`."""
    parameters = ", ".join(f"{p.name}: {p.type}" for p in declaration.parameters)
    results = ", ".join(f"{name}: {type_}" for name, type_ in declaration.results)
    generic = "<?>" if declaration.generic else ""
    return f"{declaration.name}{generic}({parameters}) -> ({results})"
