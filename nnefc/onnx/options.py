"""Options of sessions and of their calls, with the names of onnxruntime.

Source: the Python API of onnxruntime.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final


class GraphOptimizationLevel(IntEnum):
    """Levels of onnxruntime; nnefc always optimizes."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Modes of onnxruntime; nnefc divides each operation between the threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """Orders of onnxruntime; nnefc chooses the order when it compiles."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


_ELSEWHERE: Final = {
    "add_external_initializers": "the data lies in the folder of the model",
    "add_free_dimension_override_by_denotation": "add_free_dimension_override_by_name does it",
    "add_initializer": "onnx.save writes a model with another initializer",
    "register_custom_ops_library": "a function of the model can define an operator",
}
"""Methods of onnxruntime that options lack, and what does the same."""


@dataclass(slots=True)
class SessionOptions:
    """Options of a session, with the names of onnxruntime.

    `intra_op_num_threads` and `add_free_dimension_override_by_name` have an effect.  The others are
    accepted for programs that set them: nnefc always optimizes, and runs one graph at a time.
    """

    intra_op_num_threads: int = 0
    """Threads a call may use, the calling one included; 0: all usable CPUs."""
    inter_op_num_threads: int = 0
    execution_mode: Any = ExecutionMode.ORT_SEQUENTIAL
    graph_optimization_level: Any = GraphOptimizationLevel.ORT_ENABLE_ALL
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    profile_file_prefix: str = ""
    optimized_model_filepath: str = ""
    execution_order: Any = ExecutionOrder.DEFAULT
    use_per_session_threads: bool = True
    log_severity_level: int = 2
    log_verbosity_level: int = 0
    logid: str = ""
    use_deterministic_compute: bool = False
    free_dimensions: dict[str, int] = field(default_factory=dict[str, int])
    """Values of named dimensions."""
    _entries: dict[str, str] = field(default_factory=dict[str, str])

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Give a named dimension a value, as `symbols` of `nnefc.compile` does."""
        self.free_dimensions[name] = value

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Store an entry, which has no effect."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """The stored value of an entry; raises KeyError."""
        return self._entries[key]

    def __getattr__(self, name: str) -> Any:
        message = f"'SessionOptions' object has no attribute '{name}'"
        if name in _ELSEWHERE:
            message += f": {_ELSEWHERE[name]}"
        raise AttributeError(message)


@dataclass(slots=True)
class RunOptions:
    """Options of a call, with the names of onnxruntime; they have no effect."""

    log_severity_level: int = 2
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    _entries: dict[str, str] = field(default_factory=dict[str, str])

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Store an entry, which has no effect."""
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """The stored value of an entry; raises KeyError."""
        return self._entries[key]
