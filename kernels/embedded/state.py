"""An embedded model in memory: byte offsets for native code and Python.

An object for C programs has code, from the symbol `CODE` on, and read-only data that begin with the
words of `MODEL`, at the symbol `DATA`.  Offsets of code and data count from these.
"""

from __future__ import annotations

from typing import Final

from nnefc.kernels.abi import LIBM
from nnefc.kernels.executor.team_state import MAX_WORKERS, STATE_BYTES
from nnefc.kernels.parameters import Layout

CODE: Final = "nnefc_code"
DATA: Final = "nnefc_model"

STATUS: Final = {
    "OK": "no error",
    "ARGUMENT": "an argument is null or out of range",
    "PROCESSOR": "the processor lacks instructions that the model is compiled for",
    "NO_FILE": "the file of weights cannot be read",
    "WRONG_WEIGHTS": "the file is not that of the weights of this model",
    "NO_MEMORY": "the system gives no memory",
    "NO_THREADS": "the system gives no threads",
}
"""Status codes by name, numbered from 0, with their messages."""
OK, ARGUMENT, PROCESSOR, NO_FILE, WRONG_WEIGHTS, NO_MEMORY, NO_THREADS = range(len(STATUS))
UNKNOWN_STATUS: Final = "no such status"

FEATURE_WORDS: Final = 7
"""Words that say what a processor can do: on x86-64 ECX of CPUID leaf 1, EBX, ECX and EDX of leaf
7, EAX of leaf 7 part 1, ECX of leaf 0x80000001, and XCR0; on others what Linux has as AT_HWCAP and
AT_HWCAP2."""
HEADER_WORDS: Final = 7
"""What the file of weights begins with: magic (2 words), its size, a digest of the rest (4)."""
MAGIC: Final = b"nnefc weights 1\n"

MODEL: Final = Layout(
    f"weights:{HEADER_WORDS} features:{FEATURE_WORDS} cpuid xgetbv "
    "alone together work futex setaffinity getaffinity gettid spins "
    "block first_constant constants constant_table first_state states state_table "
    "first_input inputs outputs arena launches launch_count params parallel "
    f"texts:{len(STATUS) + 1}"
)
"""The header of the file of weights, whose size is 0 if there is none; what the processor must be
able to do; where its code asks for that (0: not x86-64), and that of the executor; what
`team_state` lists.  Bytes of an instance.  Of constants and
states the first entry in the table of bases, how many, where a table of them is; of inputs and
outputs the first entry, how many.
Where the arena is in an instance.  The plan.  Texts of `STATUS`, and of what is none."""
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
    TEXTS,
) = MODEL.offsets
WEIGHTS_SIZE: Final = WEIGHTS + 16

PIECE: Final = Layout("in_weights offset")
"""A constant: 1 if it is in the file of weights, 0 if it is in the data; where."""
IN_WEIGHTS, OFFSET = PIECE.offsets
PIECE_BYTES: Final = PIECE.nbytes
STATE: Final = Layout("in_weights offset nbytes place")
"""A state: where its initial value is, as of a constant; its size; where it is in an instance."""
_, _, STATE_NBYTES, STATE_PLACE = STATE.offsets
STATE_ROW: Final = STATE.nbytes

_WORDS: Final = Layout(
    f"mapped threads mutex:8 libm:{len(LIBM)} blocked:16 before:16 handles:{MAX_WORKERS} found:10"
)
"""An instance begins with these: the address of the file of weights; threads, the caller included;
a `pthread_mutex_t`; addresses as `abi.LIBM` lists them; two `sigset_t`; a `pthread_t` for each
worker; room."""
MAPPED, THREADS, MUTEX, MATHEMATICS, BLOCKED, BEFORE, HANDLES, FOUND = _WORDS.offsets
TEAM: Final = -(-_WORDS.nbytes // 128) * 128
"""The state of the team, see `team_state`."""
TABLE: Final = TEAM + STATE_BYTES
"""The table of bases; states and the arena follow where the model says."""
