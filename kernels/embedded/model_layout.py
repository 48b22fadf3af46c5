"""Memory layout of an embedded model: byte offsets for native code and Python.

An object for C programs has code at the symbol `CODE` and read-only data at the symbol `DATA`; the
data begin with the words of `MODEL`.  Offsets into code and data are relative to these symbols.
"""

from __future__ import annotations

from typing import Final

from nnefc.kernels.abi import LIBM
from nnefc.kernels.executor.call_status import STATUS_BYTES
from nnefc.kernels.executor.team_state import MAX_WORKERS, STATE_BYTES
from nnefc.kernels.parameters import Layout

CODE: Final = "nnefc_code"
DATA: Final = "nnefc_model"

STATUS: Final = {
    "OK": "no error",
    "ARGUMENT": "an argument is null or out of range",
    "PROCESSOR": "the processor lacks instructions that the model is compiled for",
    "NO_FILE": "the file of weights cannot be read",
    "WRONG_WEIGHTS": "the file does not hold the weights of this model",
    "NO_MEMORY": "the system gives no memory",
    "NO_THREADS": "the system gives no threads",
    "SHAPE": "no plan holds for these shapes, or no shape is set",
    "INDEX": "an index in the inputs is out of range",
    "CAPACITY": "the states have no memory for the items of this call",
}
"""Status codes by name, numbered from 0, with their messages."""
(
    OK,
    ARGUMENT,
    PROCESSOR,
    NO_FILE,
    WRONG_WEIGHTS,
    NO_MEMORY,
    NO_THREADS,
    SHAPE,
    INDEX,
    CAPACITY,
) = range(len(STATUS))
UNKNOWN_STATUS: Final = "no such status"

FEATURE_WORDS: Final = 7
"""Words that describe the features of a processor.  On x86-64: ECX of CPUID leaf 1, EBX, ECX and
EDX of leaf 7, EAX of leaf 7 subleaf 1, ECX of leaf 0x80000001, and XCR0.  On aarch64: AT_HWCAP and
AT_HWCAP2 of Linux."""
HEADER_WORDS: Final = 7
"""Words of the header of the weights file: magic (2), size of the file, digest of the rest (4)."""
MAGIC: Final = b"nnefc weights 1\n"

MODEL: Final = Layout(
    f"weights:{HEADER_WORDS} features:{FEATURE_WORDS} cpuid xgetbv "
    "alone together work futex setaffinity getaffinity gettid yield spins "
    "block first_constant constants constant_table first_state states state_table "
    "first_input inputs outputs arena launches launch_count params parallel "
    "symbols parameters sessions session_table patterns pattern_table registers own_params "
    "own_launches dims own_values "
    f"texts:{len(STATUS) + 1}"
)
"""The words of a model.

- `weights`: header of the weights file; its size is 0 if the model has no weights file
- `features`: features that the processor must have
- `cpuid`, `xgetbv`: code offsets of these functions, 0 except on x86-64
- `alone`, `together`, `work`: code offsets of the executor's functions
- `futex` to `spins`: fields of `team_state`
- `block`: bytes of an instance
- `first_...`: first entry in the base table; outputs follow the inputs
- `constants`, `states`, `inputs`, `outputs`: their numbers
- `constant_table`, `state_table`: data offsets of tables of `PIECE` and of `STATE`
- `arena`: offset of the arena in an instance
- `launches`, `launch_count`, `params`: the plan; `parallel`: whether it has work for several
  threads
- `symbols`, `patterns`: their numbers, 0 for a model of known shapes; `pattern_table`: data offset
  of rows of `PATTERN`
- `sessions`: number of states that a session keeps; `session_table`: data offset of rows of
  `SESSION`
- `parameters`: number of the values that determine a plan: those of the symbols, the length of each
  session state, and whether a call has stored the others (0 or 1)
- `registers`, `own_params`, `own_launches`, `dims`: offsets in an instance of the numbers of
  `shapes`, of the plan for the present shape, and of the extents of inputs and outputs
- `own_values`: offset in an instance of the present parameters, of those that are tried, of the
  lengths of session states after the next call, and of the parameters of a first call
- `texts`: data offsets of the messages of `STATUS`, then of `UNKNOWN_STATUS`
"""
(
    WEIGHTS,
    FEATURES,
    CPUID,
    XGETBV,
    ALONE,
    TOGETHER,
    WORK,
    MODEL_FUTEX,
    MODEL_SETAFFINITY,
    MODEL_GETAFFINITY,
    MODEL_GETTID,
    MODEL_YIELD,
    MODEL_SPINS,
    BLOCK,
    FIRST_CONSTANT,
    CONSTANTS,
    CONSTANT_TABLE,
    FIRST_STATE,
    STATES,
    STATE_TABLE,
    FIRST_INPUT,
    INPUTS,
    OUTPUTS,
    ARENA,
    PLAN_LAUNCHES,
    LAUNCH_COUNT,
    PARAMS,
    PARALLEL,
    SYMBOLS,
    PARAMETERS,
    SESSIONS,
    SESSION_TABLE,
    PATTERNS,
    PATTERN_TABLE,
    REGISTERS,
    OWN_PARAMS,
    OWN_LAUNCHES,
    OWN_DIMS,
    OWN_VALUES,
    TEXTS,
) = MODEL.offsets
WEIGHTS_SIZE: Final = WEIGHTS + 16

PIECE: Final = Layout("in_weights offset")
"""A constant: whether it is in the weights file (1) or in the data (0), and its offset there."""
IN_WEIGHTS, OFFSET = PIECE.offsets
PIECE_BYTES: Final = PIECE.nbytes
STATE: Final = Layout("in_weights offset nbytes place")
"""A state: its initial value as in `PIECE`, its size, and its offset in an instance."""
_, _, STATE_NBYTES, STATE_PLACE = STATE.offsets
STATE_ROW: Final = STATE.nbytes
SESSION: Final = Layout("place new_place nbytes capacity")
"""A state that a session keeps: its offset in an instance, that of its new value, and its size.

`capacity`: the most items of a growing state, to which calls append in place; 0 for others, whose
new value is copied after a call.
"""
SESSION_PLACE, SESSION_NEW_PLACE, SESSION_NBYTES, SESSION_CAPACITY = SESSION.offsets
SESSION_BYTES: Final = SESSION.nbytes

DIMS: Final = 8
"""Capacity for the extents of a tensor."""
PATTERN: Final = Layout(
    "pieces piece_count numbers number_count steps step_count params param_bytes slots slot_count "
    "launches launch_count tiles tile_count arena_bytes dims first_input first_output results "
    "session"
)
"""A plan for many shapes: data offsets of tables, and their numbers of rows.

- `pieces`: a `PIECE` per constant
- `numbers`: words for the registers after those of the symbols
- `steps`: rows of `STEP`, which compute further registers
- `params`, `launches`: the plan; `slots`: pairs (parameter, register); `tiles`: pairs (launch,
  register)
- `arena_bytes`: a register; `dims`: `DIMS` registers per input and output
- `first_input`, `first_output`: entries in the base table; `results`: the number of outputs before
  the new values of session states
- `session`: a `SESSION_USE` per session state
"""
(
    PATTERN_PIECES,
    PATTERN_PIECE_COUNT,
    PATTERN_NUMBERS,
    PATTERN_NUMBER_COUNT,
    PATTERN_STEPS,
    PATTERN_STEP_COUNT,
    PATTERN_PARAMS,
    PATTERN_PARAM_BYTES,
    PATTERN_SLOTS,
    PATTERN_SLOT_COUNT,
    PATTERN_LAUNCHES,
    PATTERN_LAUNCH_COUNT,
    PATTERN_TILES,
    PATTERN_TILE_COUNT,
    PATTERN_ARENA_BYTES,
    PATTERN_DIMS,
    PATTERN_FIRST_INPUT,
    PATTERN_FIRST_OUTPUT,
    PATTERN_RESULTS,
    PATTERN_SESSION,
) = PATTERN.offsets
PATTERN_BYTES: Final = PATTERN.nbytes
SESSION_USE: Final = Layout("taken returned appended")
"""How a plan uses a session state: entries in the base table of the input that takes it and of the
output with the new value, and the register of the number of appended items; -1 for none."""
USE_TAKEN, USE_RETURNED, USE_APPENDED = SESSION_USE.offsets
USE_BYTES: Final = SESSION_USE.nbytes
STEP: Final = Layout("op target left right")
"""An operation of `OPERATIONS` on two registers; comparisons are guards."""
STEP_OP, STEP_TARGET, STEP_LEFT, STEP_RIGHT = STEP.offsets
STEP_BYTES: Final = STEP.nbytes
OPERATIONS: Final = (
    *("add", "sub", "mul", "floordiv", "mod", "lshift", "max", "min"),
    *("neg", "abs", "bit_length", "to_float"),
    *("fadd", "fsub", "fmul", "fdiv", "fmax", "fmin", "fneg", "fabs", "fceil", "ffloor"),
    *("eq", "ne", "lt", "le", "feq", "fne", "flt", "fle"),
)
"""Operations of steps by their number: on integers, then on floats; `fceil` and `ffloor` give
integers."""

_WORDS: Final = Layout(
    f"mapped threads mutex:8 libm:{len(LIBM)} blocked:16 before:16 handles:{MAX_WORKERS} found:10 "
    "launches launch_count first_input first_output results skipped arena arena_bytes status"
)
"""The first words of an instance: address of the mapped weights file; number of threads including
the caller; a `pthread_mutex_t`; addresses of the functions of `abi.LIBM`; two `sigset_t`; a
`pthread_t` per worker; features of the processor and scratch; the plan for the present shape:
address and number of the launches, entries of the first input and of the first output, number of
the outputs before new values of session states, and number of these; address and size of an arena
of its own; the status of calls: OK, or why there is no plan for the next one."""
(
    MAPPED,
    THREADS,
    MUTEX,
    MATHEMATICS,
    BLOCKED,
    BEFORE,
    HANDLES,
    FOUND,
    PRESENT_LAUNCHES,
    PRESENT_COUNT,
    PRESENT_FIRST,
    PRESENT_FIRST_OUTPUT,
    PRESENT_RESULTS,
    PRESENT_SKIPPED,
    PRESENT_ARENA,
    PRESENT_ARENA_BYTES,
    PRESENT_STATUS,
) = _WORDS.offsets
TEAM: Final = -(-_WORDS.nbytes // 128) * 128
"""Offset of the state of the team, see `team_state`."""
TABLE: Final = TEAM + STATE_BYTES + STATUS_BYTES
"""Offset of the base table, behind the status of the call; states and the arena follow at offsets
that the model holds."""
