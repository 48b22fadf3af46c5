"""The text of an llvmlite module; functions that are not inlined get a text of their own."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any


def module_texts(module: Any) -> tuple[str, str]:
    """(the module without separate functions, which it declares; a module that defines them)

    Separate functions are those that are not inlined (`vector.separate_function`).  The second text
    is empty if the module has none.  The bodies are removed from `module`.
    """
    functions = module.functions
    separate = [f for f in functions if f.blocks and "noinline" in f.attributes]
    if not separate:
        return str(module), ""
    definitions = "\n".join(map(str, separate))
    for function in separate:
        function.blocks = []  # leaves a declaration
    declared = [str(f) for f in functions if not f.blocks and f not in separate]
    return str(module), "\n".join([*declared, definitions, *map(str, module.metadata)])
