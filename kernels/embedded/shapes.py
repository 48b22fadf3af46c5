"""The plan of an embedded model for given values of its symbols.

A model has patterns (`model_layout.PATTERN`): plans whose numbers are computed from symbols.  The
steps of a pattern are interpreted on registers, words that hold an integer or the bits of a float.
A guard that fails, and an operation that has no result in 64 bits, exclude a pattern.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from typing import Final

from nnefc.kernels.abi import BASE_ARENA, BASE_PARAMS, LAUNCH_BYTES, LAUNCH_TILES
from nnefc.kernels.embedded.libc import function
from nnefc.kernels.embedded.model_layout import (
    CAPACITY,
    DIMS,
    FIRST_CONSTANT,
    IN_WEIGHTS,
    INPUTS,
    MAPPED,
    NO_MEMORY,
    OFFSET,
    OK,
    OPERATIONS,
    OUTPUTS,
    OWN_DIMS,
    OWN_LAUNCHES,
    OWN_PARAMS,
    PARAMETERS,
    PATTERN_ARENA_BYTES,
    PATTERN_BYTES,
    PATTERN_DIMS,
    PATTERN_FIRST_INPUT,
    PATTERN_FIRST_OUTPUT,
    PATTERN_LAUNCH_COUNT,
    PATTERN_LAUNCHES,
    PATTERN_NUMBER_COUNT,
    PATTERN_NUMBERS,
    PATTERN_PARAM_BYTES,
    PATTERN_PARAMS,
    PATTERN_PIECE_COUNT,
    PATTERN_PIECES,
    PATTERN_RESULTS,
    PATTERN_SLOT_COUNT,
    PATTERN_SLOTS,
    PATTERN_STEP_COUNT,
    PATTERN_STEPS,
    PATTERN_TABLE,
    PATTERN_TILE_COUNT,
    PATTERN_TILES,
    PATTERNS,
    PIECE_BYTES,
    PRESENT_ARENA,
    PRESENT_ARENA_BYTES,
    PRESENT_COUNT,
    PRESENT_FIRST,
    PRESENT_FIRST_OUTPUT,
    PRESENT_LAUNCHES,
    PRESENT_RESULTS,
    REGISTERS,
    SHAPE,
    STEP_BYTES,
    STEP_LEFT,
    STEP_OP,
    STEP_RIGHT,
    STEP_TARGET,
    SYMBOLS,
    TABLE,
)
from nnefc.kernels.embedded.states import has_room, use_states, values_of_first_call
from nnefc.kernels.vector.memory import (
    LOAD,
    NUMBER,
    STORE,
    bits_float64,
    float64_bits,
    floor,
    helper,
)

_load, _store = LOAD["int64"], STORE["int64"]
_integer, _real = NUMBER["int64"], NUMBER["float64"]
_memcpy = function("memcpy", 3)
_mmap = function("mmap", 6)
_munmap = function("munmap", 2, "int")

_READ_WRITE, _PRIVATE_ANONYMOUS, _FAILED = 3, 0x22, -1
_PAGE: Final = 4096
_LARGEST: Final = 9.2e18
"""Below 2^63."""
_EXACT: Final = 1 << 53
"""Integers up to this size are floats."""
(
    _ADD,
    _SUB,
    _MUL,
    _FLOORDIV,
    _MOD,
    _LSHIFT,
    _MAX,
    _MIN,
    _NEG,
    _ABS,
    _BIT_LENGTH,
    _TO_FLOAT,
    _FADD,
    _FSUB,
    _FMUL,
    _FDIV,
    _FMAX,
    _FMIN,
    _FNEG,
    _FABS,
    _FCEIL,
    _FFLOOR,
    _EQ,
    _NE,
    _LT,
    _LE,
    _FEQ,
    _FNE,
    _FLT,
    _FLE,
) = range(len(OPERATIONS))


@helper
def place(net: int, data: int, row: int):
    """The address of the data that a `PIECE` describes."""
    start = _load(net + MAPPED) if _load(row + IN_WEIGHTS) != 0 else data
    return start + _load(row + OFFSET)


@helper
def _bit_length(value: int):
    """The number of bits of a magnitude."""
    count, rest = 0, value if value > 0 else -value
    while rest > 0:
        rest = rest >> 1
        count += 1
    return count


@helper
def _add(target: int, a: int, b: int):
    total = a + b
    _store(target, total)
    return 0 if ((a ^ total) & (b ^ total)) < 0 else 1


@helper
def _multiply(target: int, a: int, b: int):
    estimate = _real(a) * _real(b)
    _store(target, a * b)
    return 1 if -_LARGEST < estimate < _LARGEST else 0


@helper
def _divide(target: int, a: int, b: int, remainder: int):
    """Divide, rounding down; `remainder`: 1 stores the remainder in place of the quotient."""
    if b == 0 or b == -1:
        _store(target, 0 if remainder != 0 else -a)
        return 0 if b == 0 else 1
    quotient = a // b
    _store(target, a - quotient * b if remainder != 0 else quotient)
    return 1


@helper
def _shift(target: int, a: int, b: int):
    if b < 0 or b > 62:
        return 0
    _store(target, a << b)
    return 1 if a << b >> b == a else 0


@helper
def _compare(op: int, a, b):
    """Whether a comparison of two integers, or of two floats, holds: 1 or 0."""
    if op == _EQ:
        return 1 if a == b else 0
    if op == _NE:
        return 1 if a != b else 0
    if op == _LT:
        return 1 if a < b else 0
    return 1 if a <= b else 0


@helper
def _select(op: int, a, b):
    """The larger or smaller one of two integers or floats, or the negative or magnitude of `a`."""
    if op == _MAX:
        return b if b > a else a
    if op == _MIN:
        return b if b < a else a
    return a if op == _ABS and a > 0 else -a


@helper
def _compute_integer(target: int, op: int, a: int, b: int):
    """Compute an operation on integers; returns 1, or 0 without a result or for a failed guard."""
    if op == _ADD:
        return _add(target, a, b)
    if op == _SUB:
        return _add(target, a, -b)
    if op == _MUL:
        return _multiply(target, a, b)
    if op == _FLOORDIV:
        return _divide(target, a, b, 0)
    if op == _MOD:
        return _divide(target, a, b, 1)
    if op == _LSHIFT:
        return _shift(target, a, b)
    if _EQ <= op <= _LE:
        return _compare(op, a, b)
    if _MAX <= op <= _ABS:
        _store(target, _select(op, a, b))
    elif op == _BIT_LENGTH:
        _store(target, _bit_length(a))
    else:  # _TO_FLOAT
        _store(target, float64_bits(_real(a)))
        return 1 if -_EXACT <= a <= _EXACT else 0
    return 1


@helper
def _store_rounded(target: int, whole: float):
    """Store a whole float as an integer."""
    if -_LARGEST < whole < _LARGEST:
        _store(target, _integer(whole))
        return 1
    return 0


@helper
def _compute_float(target: int, op: int, a: float, b: float):
    """As `_compute_integer`, for operations on floats; some are numbered as those on integers."""
    if _FEQ <= op <= _FLE:
        return _compare(op - _FEQ + _EQ, a, b)
    if op == _FCEIL:
        return _store_rounded(target, -floor(-a))
    if op == _FFLOOR:
        return _store_rounded(target, floor(a))
    if op == _FDIV and b == 0.0:
        return 0
    value = a
    if op == _FADD:
        value = a + b
    elif op == _FSUB:
        value = a - b
    elif op == _FMUL:
        value = a * b
    elif op == _FDIV:
        value = a / b
    elif _FMAX <= op <= _FABS:
        value = _select(op - _FMAX + _MAX, a, b)
    _store(target, float64_bits(value))
    return 1


@helper
def holds(net: int, data: int, row: int, values: int):
    """Compute the registers of a pattern for parameters; returns 1 if its guards hold."""
    registers, count = net + _load(data + REGISTERS), _load(data + PARAMETERS)
    for i in range(count):
        _store(registers + 8 * i, _load(values + 8 * i))
    numbers = data + _load(row + PATTERN_NUMBERS)
    for i in range(_load(row + PATTERN_NUMBER_COUNT)):
        _store(registers + 8 * (count + i), _load(numbers + 8 * i))
    steps = data + _load(row + PATTERN_STEPS)
    for i in range(_load(row + PATTERN_STEP_COUNT)):
        step = steps + STEP_BYTES * i
        op, target = _load(step + STEP_OP), registers + 8 * _load(step + STEP_TARGET)
        a = _load(registers + 8 * _load(step + STEP_LEFT))
        b = _load(registers + 8 * _load(step + STEP_RIGHT))
        if (_FADD <= op <= _FFLOOR) or op >= _FEQ:
            done = _compute_float(target, op, bits_float64(a), bits_float64(b))
        else:
            done = _compute_integer(target, op, a, b)
        if done == 0:
            return 0
    return 1


@helper
def _reserve(net: int, nbytes: int):
    """Make the arena of an instance at least so large; returns a status.

    An instance without an arena has no shape, so one is made even for 0 bytes.
    """
    if _load(net + PRESENT_ARENA) != 0 and _load(net + PRESENT_ARENA_BYTES) >= nbytes:
        return OK
    rounded = (nbytes + nbytes // 8 + _PAGE) // _PAGE * _PAGE
    arena = _mmap(0, rounded, _READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0)
    if arena == _FAILED:
        return NO_MEMORY
    if _load(net + PRESENT_ARENA) != 0:
        _munmap(_load(net + PRESENT_ARENA), _load(net + PRESENT_ARENA_BYTES))
    _store(net + PRESENT_ARENA, arena)
    _store(net + PRESENT_ARENA_BYTES, rounded)
    return OK


@helper
def _use(net: int, data: int, row: int):
    """Make the plan of a pattern, whose registers are computed, the present one."""
    registers, bases = net + _load(data + REGISTERS), net + TABLE
    params, launches = net + _load(data + OWN_PARAMS), net + _load(data + OWN_LAUNCHES)
    count = _load(row + PATTERN_LAUNCH_COUNT)
    _memcpy(params, data + _load(row + PATTERN_PARAMS), _load(row + PATTERN_PARAM_BYTES))
    _memcpy(launches, data + _load(row + PATTERN_LAUNCHES), LAUNCH_BYTES * count)
    pairs = data + _load(row + PATTERN_SLOTS)
    for i in range(_load(row + PATTERN_SLOT_COUNT)):
        slot, register = _load(pairs + 16 * i), _load(pairs + 16 * i + 8)
        _store(params + 8 * slot, _load(registers + 8 * register))
    pairs = data + _load(row + PATTERN_TILES)
    for i in range(_load(row + PATTERN_TILE_COUNT)):
        launch, register = _load(pairs + 16 * i), _load(pairs + 16 * i + 8)
        tiles = launches + LAUNCH_BYTES * launch + LAUNCH_TILES
        _store(tiles, _load(registers + 8 * register))
    wanted = data + _load(row + PATTERN_DIMS)
    dims = net + _load(data + OWN_DIMS)
    for i in range(DIMS * (_load(data + INPUTS) + _load(data + OUTPUTS))):
        _store(dims + 8 * i, _load(registers + 8 * _load(wanted + 8 * i)))
    pieces = data + _load(row + PATTERN_PIECES)
    first = bases + 8 * _load(data + FIRST_CONSTANT)
    for i in range(_load(row + PATTERN_PIECE_COUNT)):
        _store(first + 8 * i, place(net, data, pieces + PIECE_BYTES * i))
    _store(bases + 8 * BASE_PARAMS, params)
    _store(bases + 8 * BASE_ARENA, _load(net + PRESENT_ARENA))
    _store(net + PRESENT_LAUNCHES, launches)
    _store(net + PRESENT_COUNT, count)
    _store(net + PRESENT_FIRST, _load(row + PATTERN_FIRST_INPUT))
    _store(net + PRESENT_FIRST_OUTPUT, _load(row + PATTERN_FIRST_OUTPUT))
    _store(net + PRESENT_RESULTS, _load(row + PATTERN_RESULTS))
    use_states(net, data, row)


@helper
def _is_full(net: int, data: int, values: int):
    """Whether a first call with these values of symbols has a plan, and states have no room for it.

    Guards of a plan demand room too, but do not tell why they fail.
    """
    first, symbols = values_of_first_call(net, data), _load(data + SYMBOLS)
    for i in range(_load(data + PARAMETERS)):
        _store(first + 8 * i, _load(values + 8 * i) if i < symbols else 0)
    rows = data + _load(data + PATTERN_TABLE)
    for i in range(_load(data + PATTERNS)):
        row = rows + PATTERN_BYTES * i
        if holds(net, data, row, first) != 0:
            return 1 - has_room(net, data, row, values)
    return 0


@helper
def choose_pattern(net: int, data: int, values: int):
    """Use the first pattern whose guards hold for the parameters `values`; returns a status.

    The present plan stays if there is none, or no memory.
    """
    rows = data + _load(data + PATTERN_TABLE)
    for i in range(_load(data + PATTERNS)):
        row = rows + PATTERN_BYTES * i
        if holds(net, data, row, values) != 0:
            registers = net + _load(data + REGISTERS)
            nbytes = _load(registers + 8 * _load(row + PATTERN_ARENA_BYTES))
            if _reserve(net, nbytes) != OK:
                return NO_MEMORY
            _use(net, data, row)
            return OK
    return CAPACITY if _is_full(net, data, values) != 0 else SHAPE
