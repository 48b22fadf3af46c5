"""Check the arguments of the Python interface."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from nnefc.formats.files import require_path
from nnefc.support.errors import Diagnostic, NnefError

if TYPE_CHECKING:
    from nnefc.support.limits import Limits

Dialect = Literal["auto", "nnef", "tract"]
"""The language of a document; "auto": as the document declares."""
Scalar = Literal["float32", "float64"]
"""The item type of `tensor<scalar>`."""
Integer = Literal["int32", "int64"]
"""The item type of `tensor<integer>`."""


def as_integer(value: object) -> int | None:
    """`value` as an integer, also from NumPy's; None for bools and other types."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(cast(Any, value))
    except TypeError:
        return None


def check_threads(threads: object) -> int | None:
    """The number of threads; raises NnefError `input/threads` unless it is a positive integer."""
    if threads is None:
        return None
    count = as_integer(threads)
    if count is None or count < 1:
        raise NnefError.of(
            "input/threads", f"threads = {threads!r}: must be an integer, at least 1"
        )
    return count


def check_fixed_point_position(position: object) -> None:
    """Raise NnefError `input/argument` unless `position` is a number of bits, 0 to 15."""
    bits = as_integer(position)
    if bits is None or not 0 <= bits < 16:
        message = f"fixed_point_position = {position!r}: must be an integer from 0 to 15"
        raise NnefError.of("input/argument", message)


def check_accuracy(accuracy: object) -> Literal["fast", "strict"]:
    """`accuracy`; raises NnefError `input/argument` unless it is "fast" or "strict"."""
    if accuracy not in ("fast", "strict"):
        raise NnefError.of("input/argument", f"accuracy = {accuracy!r}: must be 'fast' or 'strict'")
    return accuracy


def check_precision(precision: object) -> Literal["float32", "bfloat16", "float16"]:
    """`precision`; raises NnefError `input/argument` unless it is one of these."""
    if precision not in ("float32", "bfloat16", "float16"):
        raise NnefError.of(
            "input/argument",
            f"precision = {precision!r}: must be 'float32', 'bfloat16' or 'float16'",
        )
    return precision


def check_dialect(dialect: object) -> Dialect:
    """`dialect`; raises NnefError `input/argument` unless it is one of `Dialect`."""
    if dialect not in ("auto", "nnef", "tract"):
        raise NnefError.of(
            "input/argument", f"dialect = {dialect!r}: must be 'auto', 'nnef' or 'tract'"
        )
    return dialect


def check_flags(**flags: object) -> None:
    """Raise NnefError `input/argument` for values other than True and False."""
    problems = [
        Diagnostic("input/argument", f"{name} = {abbreviated(value)}: must be True or False")
        for name, value in flags.items()
        if not _is_bool(value)
    ]
    if problems:
        raise NnefError(problems)


def _is_bool(value: object) -> bool:
    """Whether `value` is a bool, Python's or NumPy's."""
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool"


def check_names(function: Callable[..., Any], names: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError, as Python does, for keyword arguments that a function does not take.

    `known`: names that its `**` parameter accepts.
    """
    known = [*(function.__kwdefaults__ or ()), *known]
    for name in names:
        if name not in known:
            hint = "; shapes={'input': (8, 3, 224, 224)} sets it" if name == "batch" else ""
            raise TypeError(
                f"{function.__name__}() got an unexpected keyword argument {name!r}: "
                f"options are {', '.join(known)}{hint}"
            )


def check_scalar(name: object) -> Scalar:
    """`scalar`; raises NnefError `input/dtype` unless it is one of `Scalar`."""
    if name not in ("float32", "float64"):
        raise NnefError.of("input/dtype", f"scalar = {name!r}: must be float32 or float64")
    return name


def check_integer(name: object) -> Integer:
    """`integer`; raises NnefError `input/dtype` unless it is one of `Integer`."""
    if name not in ("int32", "int64"):
        raise NnefError.of("input/dtype", f"integer = {name!r}: must be int32 or int64")
    return name


def check_limits(limits: object) -> Limits | None:
    """The limits, None for the default ones; raises NnefError `input/argument`."""
    if limits is None:
        return None
    from nnefc.support.limits import Limits

    if not isinstance(limits, Limits):
        raise NnefError([_wrong("limits", limits, "nnefc.Limits", "nnefc.Limits(recursion=5000)")])
    return None if limits == Limits() else limits


def check_progress(progress: Callable[..., object] | None) -> None:
    """Raise NnefError `input/argument` for a value that cannot be called."""
    if progress is not None and not callable(progress):
        raise NnefError([_wrong("progress", progress, "a function", "f(done, total, label)")])


def check_import_arguments(
    source: object, shapes: object, symbols: object, random_weights: object
) -> tuple[dict[str, tuple[int, ...]], dict[str, int], int | None]:
    """Shapes, symbols and a seed in plain types; raises NnefError `input/argument`."""
    problems: list[Diagnostic] = []
    try:
        require_path("the model", source)
    except NnefError as error:
        problems += error.errors
    chosen = {} if shapes is None else _shapes(shapes, problems)
    values = {} if symbols is None else _symbols(symbols, problems)
    seed = None if random_weights is None else as_integer(random_weights)
    if random_weights is not None and (seed is None or seed < 0):
        problems.append(_wrong("random_weights", random_weights, "an integer, at least 0", "1"))
    if problems:
        raise NnefError(problems)
    return chosen, values, seed


def check_shapes(
    shapes: object, symbols: object = None
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """Shapes and values of symbols, by name in plain types; one of the two may be None.

    Raises NnefError `input/argument` with all errors.
    """
    problems: list[Diagnostic] = []
    is_left_out = shapes is None and symbols is not None
    chosen = {} if is_left_out else _shapes(shapes, problems)
    values = {} if symbols is None else _symbols(symbols, problems)
    if problems:
        raise NnefError(problems)
    return chosen, values


_SHAPES = "{'input': (8, 3, 224, 224)}"
_SYMBOLS = "{'S': 16}"
SYMBOL_LIMIT: Final = 1 << 63
"""Values of symbols are smaller, as extents are."""


def _shapes(shapes: object, problems: list[Diagnostic]) -> dict[str, tuple[int, ...]]:
    chosen: dict[str, tuple[int, ...]] = {}
    if not isinstance(shapes, Mapping):
        problems.append(_wrong("shapes", shapes, "shapes by name", _SHAPES))
        return chosen
    for name, shape in cast(Mapping[Any, object], shapes).items():
        extents = _extents(shape)
        if extents is None or not isinstance(name, str):
            problems.append(_wrong(f"shapes[{name!r}]", shape, "integers by name", _SHAPES))
        else:
            chosen[name] = extents
    return chosen


def _symbols(symbols: object, problems: list[Diagnostic]) -> dict[str, int]:
    """Values of symbols in plain types, sorted by name."""
    values: dict[str, int] = {}
    if not isinstance(symbols, Mapping):
        problems.append(_wrong("symbols", symbols, "whole numbers by name", _SYMBOLS))
        return values
    for name, given in cast(Mapping[Any, object], symbols).items():
        value = as_integer(given)
        if value is None or abs(value) >= SYMBOL_LIMIT or not isinstance(name, str):
            expected = "whole numbers of at most 63 bits by name"
            problems.append(_wrong(f"symbols[{name!r}]", given, expected, _SYMBOLS))
        else:
            values[name] = value
    return dict(sorted(values.items()))


def _extents(shape: object) -> tuple[int, ...] | None:
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        return None
    extents = [as_integer(extent) for extent in cast(Iterable[object], shape)]
    return None if None in extents else tuple(e for e in extents if e is not None)


def _wrong(name: str, value: object, expected: str, example: str) -> Diagnostic:
    return Diagnostic(
        "input/argument",
        f"{name} = {abbreviated(value)}: expected {expected}",
        hint=f"for example {example}",
    )


def abbreviated(value: object) -> str:
    """`repr(value)` in one line of at most 80 characters."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python does not convert integers of more than 4300 digits
        text = f"<{type(value).__name__}>"
    return f"{text[:80]}…" if len(text) > 80 else text
