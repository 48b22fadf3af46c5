"""Check the arguments of `export` and convert them to plain types."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from nnefc.formats.files import is_folder, printable, require_path
from nnefc.frontends.common.extents import NoValue, extent_of, names_of
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
        hint = "functions are called by the forward of a module"
        if isinstance(module, torch.export.ExportedProgram):
            hint = "program.module() is one; torch.export.save writes a file for nnefc.compile"
        raise NnefError.of(
            "input/argument",
            f"the module is given as {type(module).__name__}, expected a torch.nn.Module",
            hint=hint,
        )
    return module


def check_inputs(inputs: object) -> tuple[Any, ...]:
    """The inputs of the module as a tuple; raises NnefError `input/argument`."""
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
    tensors = tuple(cast(Iterable[Any], inputs))
    problems = [
        Diagnostic(
            "input/argument",
            f"input {i} is given as an array of NumPy, expected a tensor",
            hint="torch.from_numpy(x)",
        )
        for i, each in enumerate(tensors)
        if isinstance(each, np.ndarray)
    ]
    if problems:
        raise NnefError(problems)
    return tensors


def check_version(version: object) -> str:
    """The version of tract; raises NnefError `input/argument`."""
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        message = f"version = {version!r}: expected a version of tract"
        raise NnefError.of("input/argument", message, hint="for example '0.23.9'")
    return version


def check_path(path: object) -> Path:
    """The path of the archive; raises NnefError if nothing can be written there."""
    require_path("the archive", path)
    archive = Path(cast("str | os.PathLike[str]", path))
    if not archive.name.endswith(SUFFIX):
        hint = f"for example {archive.name.partition('.')[0] or 'net'}{SUFFIX}"
        message = f"{archive.name} does not end in {SUFFIX}"
        raise NnefError.of("input/argument", message, hint=hint)
    if not is_folder(archive.absolute().parent):
        place = Place(printable(str(archive)))
        raise NnefError.of("data/write", "there is no such folder", place, "make it first")
    return archive


def check_tensor_names(
    argument: str, names: object, default: str, count: int, *, exact: bool
) -> list[str]:
    """Names of `count` tensors, derived from `default` if `names` is None.

    `exact`: the number of names must be `count`.  Raises NnefError `input/argument`.
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
        problems.append(f"{argument} = {listed}: a name occurs twice")
    if exact and len(listed) != count:
        problems.append(f"{argument} = {listed}: {len(listed)} names, expected {count}")
    if problems:
        raise NnefError(Diagnostic("input/argument", problem) for problem in problems)
    return cast(list[str], listed)


def check_axes(
    axes: object, inputs: Mapping[str, Sequence[int] | None]
) -> tuple[Axes, dict[str, int]]:
    """Symbols by input and axis, counted from 0, and their values for these shapes of `inputs`.

    Inputs without a shape are tuples, whose tensors have names such as `state_0`.  Raises
    NnefError `input/argument` with all errors.
    """
    example = f"for example {{{next(iter(inputs), 'x')!r}: {{0: 'B'}}}}"
    prefixes = tuple(f"{name}_" for name, shape in inputs.items() if shape is None)
    if axes is None:
        return {}, {}
    if not isinstance(axes, Mapping):
        message = f"dynamic_axes = {axes!r}: expected axes with symbols, by input"
        raise NnefError.of("input/argument", message, hint=example)
    checked: Axes = {}
    values: dict[str, int] = {}
    problems: list[Diagnostic] = []

    def problem(message: str, hint: str = "") -> None:
        problems.append(Diagnostic("input/argument", f"dynamic_axes: {message}", hint=hint))

    for name, each in cast(Mapping[Any, object], axes).items():
        shape = inputs.get(name)
        if shape is None and not str(name).startswith(prefixes):
            known = (each if shape else f"{each}_..." for each, shape in inputs.items())
            hint = f"the inputs are {', '.join(known)}; results follow them"
            problem(f"there is no input {name!r}", hint)
            continue
        if not isinstance(each, Mapping):
            problem(f"{name!r} has {each!r}, expected symbols by axis", example)
            continue
        checked[name] = {}
        for key, symbol in cast(Mapping[object, object], each).items():
            axis = as_integer(key)
            if not isinstance(symbol, str) or not _NAME.fullmatch(symbol) or symbol in KEYWORDS:
                problem(f"{symbol!r} of {name!r} cannot be a symbol", "letters and digits: 'B'")
            elif axis is None or (shape is not None and not -len(shape) <= axis < len(shape)):
                rank = "" if shape is None else f" of rank {len(shape)}"
                problem(f"{name!r}{rank} has no axis {key!r}")
            elif shape is None:
                checked[name][axis] = symbol
            elif values.setdefault(symbol, shape[axis]) != shape[axis]:
                problem(f"{symbol} is {values[symbol]}, and {shape[axis]} at axis {key} of {name}")
            else:
                checked[name][axis % len(shape)] = symbol
    if problems:
        raise NnefError(problems)
    return checked, values


def check_assertions(assertions: object, axes: Axes, values: Mapping[str, int]) -> list[str]:
    """The assertions about the symbols of `axes` as a list.

    Raises NnefError `input/argument` for syntax errors, unknown symbols, and assertions that do
    not hold for the `values` of the symbols in the trace.
    """
    if isinstance(assertions, str) or not isinstance(assertions, Iterable):
        message = f"assertions = {assertions!r}: expected a list of them"
        raise NnefError.of("input/argument", message, hint="for example ['S <= 512']")
    symbols = {symbol for each in axes.values() for symbol in each.values()}
    problems: list[Diagnostic] = []
    listed = list(cast(Iterable[object], assertions))
    for text in listed:
        _, _, compared = str(text).rpartition(":")  # after the name of a scenario
        try:
            expression = parse_expression(compared)
        except NnefError:
            message = f"{text!r} is no assertion"
            problems.append(Diagnostic("input/argument", message, hint="for example 'S <= 512'"))
            continue
        if unknown := [name for name in names_of([expression]) if name not in symbols]:
            message = f"{text!r}: no axis has the symbol {unknown[0]}"
            hint = f"symbols of dynamic_axes: {', '.join(sorted(symbols)) or 'none'}"
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
