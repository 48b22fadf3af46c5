"""JSON files beside a document, for `tract_resource_get` and templates."""

from __future__ import annotations

from typing import Any

from nnefc.formats.container import Container
from nnefc.formats.files import printable
from nnefc.formats.json_text import parse_json
from nnefc.support.errors import NnefError


def json_value(container: Container | None, label: str) -> Any:
    """The parsed LABEL.json; raises NnefError `tract/resource` if it is missing or not JSON."""
    data = None if container is None else container.resource(f"{label}.json")
    file = f"{printable(label)}.json"
    if data is None:
        raise NnefError.of("tract/resource", f"there is no resource {file}")
    try:
        return parse_json(data)
    except ValueError as error:
        raise NnefError.of("tract/resource", f"{file} is not JSON: {error}") from None
