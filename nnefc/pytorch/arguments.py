"""What is to be exported, as callers say it: in plain types, or an error with all that is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from nnefc.formats.files import printable, require_path
from nnefc.frontends.common.symbols import NoValue, extent_of, names_of
from nnefc.options.arguments import as_integer
from nnefc.support.errors import Diagnostic, NnefError, Place
from nnefc.syntax.lexer import KEYWORDS
from nnefc.syntax.parser import parse_expression

if TYPE_CHECKING:
    import torch

SUFFIX: Final = ".nnef.tgz"
Axes = dict[str, dict[int, str]]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?")


def check_module(module: object) -> torch.nn.Module:
    """The module; raises NnefError `input/argument`."""
    import torch

    if not isinstance(module, torch.nn.Module):
        raise NnefError.of(
            "input/argument",
            f"the module is given as {type(module).__name__}, expected a torch.nn.Module",
            hint="functions are called by the forward of a module",
        )
    return module


def check_inputs(inputs: object) -> tuple[Any, ...]:
    """What the module is called with; raises NnefError `input/argument`."""
    import torch

    if isinstance(inputs, torch.Tensor):
        return (inputs,)
    kind = type(inputs).__name__
    if isinstance(inputs, str | Mapping | np.ndarray) or not isinstance(inputs, Iterable):
        raise NnefError.of(
            "input/argument",
            f"the inputs are given as {kind}, expected tensors in order",
            hint="torch.from_numpy(x)" if isinstance(inputs, np.ndarray) else "for example (x, y)",
        )
    given = tuple(cast(Iterable[Any], inputs))
    problems = [
        Diagnostic(
            "input/argument",
            f"input {i} is given as an array of NumPy, expected a tensor",
            hint="torch.from_numpy(x)",
        )
        for i, each in enumerate(given)
        if isinstance(each, np.ndarray)
    ]
    if problems:
        raise NnefError(problems)
    return given


def check_version(version: object) -> str:
    """That of tract; raises NnefError `input/argument`."""
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        message = f"version = {version!r}: expected that of tract"
        raise NnefError.of("input/argument", message, hint="for example '0.23.9'")
    return version


def check_path(path: object) -> Path:
    """Where the archive goes; raises NnefError if it cannot go there."""
    require_path("the archive", path)
    found = Path(cast("str | os.PathLike[str]", path))
    if not found.name.endswith(SUFFIX):
        hint = f"for example {found.name.partition('.')[0] or 'net'}{SUFFIX}"
        message = f"{found.name} does not end in {SUFFIX}"
        raise NnefError.of("input/argument", message, hint=hint)
    if not found.absolute().parent.is_dir():
        place = Place(printable(str(found)))
        raise NnefError.of("data/write", "there is no such folder", place, "make it first")
    return found


def check_tensor_names(
    argument: str, names: object, default: str, count: int, *, exact: bool
) -> list[str]:
    """Names of so many tensors, those of the `default` if there are none.

    `exact`: there has to be one for each.  Raises NnefError `input/argument`.
    """
    if names is None:
        return [default] if count == 1 else [f"{default}_{i}" for i in range(count)]
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise NnefError.of(
            "input/argument", f"{argument} = {names!r}: expected names", hint="for example ['x']"
        )
    listed = list(cast(Iterable[object], names))
    problems = [
        f"{argument}: {name!r} cannot be the name of a tensor"
        for name in listed
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in KEYWORDS
    ]
    if not problems and len(set(listed)) < len(listed):
        problems.append(f"{argument} = {listed}: each name can be there once")
    if exact and len(listed) != count:
        problems.append(f"{argument} = {listed}: {len(listed)} names, expected {count}")
    if problems:
        raise NnefError(Diagnostic("input/argument", problem) for problem in problems)
    return cast(list[str], listed)


def check_axes(
    axes: object, inputs: Mapping[str, Sequence[int] | None]
) -> tuple[Axes, dict[str, int]]:
    """Symbols of axes from 0 on, and their values for `inputs` of these shapes; raises NnefError
    `input/argument` with all that is wrong.

    Inputs without a shape have tensors within them, which are named after them: `state_0`.
    """
    example = f"for example {{{next(iter(inputs), 'x')!r}: {{0: 'B'}}}}"
    several = tuple(f"{name}_" for name, shape in inputs.items() if shape is None)
    if axes is None:
        return {}, {}
    if not isinstance(axes, Mapping):
        message = f"dynamic_axes = {axes!r}: expected axes with symbols, by input"
        raise NnefError.of("input/argument", message, hint=example)
    found: Axes = {}
    values: dict[str, int] = {}
    problems: list[Diagnostic] = []

    def problem(message: str, hint: str = "") -> None:
        problems.append(Diagnostic("input/argument", f"dynamic_axes: {message}", hint=hint))

    for name, each in cast(Mapping[Any, object], axes).items():
        shape = inputs.get(name)
        if shape is None and not str(name).startswith(several):
            known = (each if shape else f"{each}_..." for each, shape in inputs.items())
            hint = f"the inputs are {', '.join(known)}; results follow them"
            problem(f"there is no input {name!r}", hint)
            continue
        if not isinstance(each, Mapping):
            problem(f"{name!r} has {each!r}, expected symbols by axis", example)
            continue
        found[name] = {}
        for key, symbol in cast(Mapping[object, object], each).items():
            axis = as_integer(key)
            if not isinstance(symbol, str) or not _NAME.fullmatch(symbol) or symbol in KEYWORDS:
                problem(f"{symbol!r} of {name!r} cannot be a symbol", "letters and digits: 'B'")
            elif axis is None or (shape is not None and not -len(shape) <= axis < len(shape)):
                rank = "" if shape is None else f" of rank {len(shape)}"
                problem(f"{name!r}{rank} has no axis {key!r}")
            elif shape is None:
                found[name][axis] = symbol
            elif values.setdefault(symbol, shape[axis]) != shape[axis]:
                problem(f"{symbol} is {values[symbol]}, and {shape[axis]} at axis {key} of {name}")
            else:
                found[name][axis % len(shape)] = symbol
    if problems:
        raise NnefError(problems)
    return found, values


def check_assertions(assertions: object, axes: Axes, values: Mapping[str, int]) -> list[str]:
    """What is asserted of the symbols of `axes`; raises NnefError `input/argument` for what is no
    assertion, has other symbols, or does not hold for the `values` that the inputs tell.
    """
    if isinstance(assertions, str) or not isinstance(assertions, Iterable):
        message = f"assertions = {assertions!r}: expected a list of them"
        raise NnefError.of("input/argument", message, hint="for example ['S <= 512']")
    symbols = {symbol for each in axes.values() for symbol in each.values()}
    problems: list[Diagnostic] = []
    listed = list(cast(Iterable[object], assertions))
    for text in listed:
        _, _, compared = str(text).rpartition(":")  # behind the name of a scenario
        try:
            expression = parse_expression(compared)
        except NnefError:
            message = f"{text!r} is no assertion"
            problems.append(Diagnostic("input/argument", message, hint="for example 'S <= 512'"))
            continue
        if unknown := [name for name in names_of([expression]) if name not in symbols]:
            message = f"{text!r}: no axis has the symbol {unknown[0]}"
            hint = f"those of dynamic_axes are {', '.join(sorted(symbols)) or 'none'}"
            problems.append(Diagnostic("input/argument", message, hint=hint))
            continue
        try:
            holds = ":" in str(text) or extent_of(expression, values)
        except NoValue:
            continue
        if not holds:
            known = ", ".join(f"{n} = {values[n]}" for n in dict.fromkeys(names_of([expression])))
            message = f"{text!r} does not hold for the inputs that are traced: {known}"
            problems.append(Diagnostic("input/argument", message))
    if problems:
        raise NnefError(problems)
    return cast(list[str], listed)
