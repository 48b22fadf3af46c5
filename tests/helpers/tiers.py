"""The slow tier: everything that `-m "not slow"` leaves out as a whole.

Single tests of other modules are marked where they stand (`@pytest.mark.slow`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]

SLOW = (
    # every kernel, or every case again, for several instruction sets
    "models/test_isa_rows.py",
    "models/test_widths.py",
    "kernels/target/test_isa.py",
    # whole networks, and the same by other engines
    "benchmarks",
    "emit/convert/test_networks.py",
    "emit/convert/test_tract_samples.py",
    "models/test_exported_spellings.py",
    "emit/convert/test_onnx.py",
    "models/test_networks.py",
    "passes/machine/test_blocked.py",
    "pytorch/test_export.py",
    "pytorch/test_guide.py",
    # all samples of all operations, compiled; the same of single operations
    "lower/test_samples.py",
    "models/test_conformance.py",
    "frontends/tract/test_conformance.py",
    "frontends/tract/test_boxes.py",
    "frontends/tract/test_experts.py",
    "frontends/tract/test_lookups.py",
    "frontends/tract/test_newer_operators.py",
    "frontends/tract/test_random.py",
    "pytorch/test_operators.py",
    # all cases of the package onnx, compiled
    "onnx/test_backend_cases.py",
    # operators of ONNX against onnxruntime, in all versions
    "frontends/onnx/operators/test_arithmetic.py",
    "frontends/onnx/operators/test_attention.py",
    "frontends/onnx/operators/test_block_weights.py",
    "frontends/onnx/test_conformance.py",
    "frontends/onnx/operators/test_contributed.py",
    "frontends/onnx/operators/test_convolution_and_pooling.py",
    "frontends/onnx/operators/test_control_flow.py",
    "frontends/onnx/operators/test_control_flow_errors.py",
    "frontends/onnx/operators/test_group_query_attention.py",
    "frontends/onnx/test_hostile.py",
    "frontends/onnx/operators/test_linear_attention.py",
    "frontends/onnx/operators/test_movement.py",
    "frontends/onnx/operators/test_narrow_types.py",
    "frontends/onnx/operators/test_normalization.py",
    "frontends/onnx/operators/test_products.py",
    "frontends/onnx/operators/test_quantization.py",
    "frontends/onnx/operators/test_recurrent.py",
    "frontends/onnx/operators/test_resampling.py",
    "frontends/onnx/operators/test_selections.py",
    # kernels in many shapes and types
    "models/test_blocked_convolution.py",
    "models/test_blocked_groups.py",
    "models/test_casts.py",
    "models/test_compressed.py",
    "models/test_fixed_point.py",
    "models/test_integers.py",
    "models/test_item_types.py",
    "dynamic/test_plans_of_batches.py",
    "dynamic/test_plans_of_loops.py",
    "dynamic/test_plans_of_row_major_windows.py",
    "dynamic/test_plans_of_windows.py",
    "kernels/product/test_attention.py",
    "kernels/convolution/test_depthwise.py",
    "kernels/movement/test_strided.py",
    "kernels/reduce/test_mean_variance.py",
    "kernels/vector/test_expression_argument.py",
    "kernels/window/test_sliding.py",
    "models/test_blocked_operands.py",
    "models/test_wrong_indices.py",
    "kernels/tile/test_item_types.py",
    "lower/test_channel_padding.py",
    "lower/test_batch_stages.py",
    # inputs made to be slow or to break things
    "dynamic/test_sessions_whole.py",
    "formats/archives/test_archive_safety.py",
    "formats/test_read_progress.py",
    "formats/test_container.py",
    "syntax/test_robust.py",
    "frontends/nnef/test_expansion.py",
    "frontends/nnef/test_generated.py",
    "robustness",
    # whole models, their artifacts and caches
    "model_cache/test_start.py",
    "driver/test_kernels_ahead.py",
    "cli/artifacts/test_dynamic.py",
    "model_cache/test_onnx.py",
    "cli/test_check_indices.py",
    "cli/cache/test_notice.py",
    "cli/cache/test_cache.py",
    "dynamic/test_artifacts_without_compiler.py",
    "dynamic/test_artifacts_of_windows.py",
    "cli/test_sessions.py",
    "pytorch/test_stored.py",
    "frontends/common/test_symbolic_graph.py",
    "emit/test_c_named_values.py",
    "emit/test_c_shapes.py",
    "emit/test_shape_code.py",
    "emit/test_c_sessions.py",
    "frontends/onnx/test_schemas.py",
    "cli/compare/test_against.py",
    "cli/compare/test_dump.py",
    "cli/test_convert.py",
    "cli/test_run.py",
    "dynamic/test_artifacts.py",
    "dynamic/test_sessions.py",
    "frontends/onnx/test_counted_extents.py",
    "onnx/test_call_values.py",
    "onnx/test_examples.py",
    "onnx/test_kept_inputs.py",
    "onnx/test_value_inputs.py",
    # other processes: compilers in C, workers, several users of one folder, kills
    "artifacts/test_saving.py",
    "cli/artifacts/test_artifacts.py",
    "cli/test_bench.py",
    "cli/test_onnx.py",
    "cli/cache/test_explain.py",
    "cli/artifacts/test_compile.py",
    "cli/test_compiling.py",
    "cli/artifacts/test_inspect.py",
    "cli/test_profile.py",
    "cli/test_streams.py",
    "cli/test_tract.py",
    "driver/test_tuning.py",
    "emit/test_c.py",
    "emit/test_c_command.py",
    "emit/test_c_programs.py",
    "model_cache/test_command_line.py",
    "model_cache/test_entry.py",
    "model_cache/test_refused.py",
    "runtime/cache/test_cache.py",
    "runtime/cache/test_key.py",
    "runtime/cache/test_lru_folder.py",
    "runtime/compile",
    "runtime/run/test_team.py",
    "runtime/run/test_team_processes.py",
)
"""Folders and modules under tests/."""

WAITING = (
    "robustness/test_killed.py",
    "runtime/compile",
    "runtime/run/test_pauses.py",
    "runtime/run/test_team.py",
    "runtime/run/test_team_processes.py",
)
"""Folders and modules whose tests wait for other processes and for clocks most of the time."""

_SLOW_PATHS = frozenset(TESTS / name for name in SLOW)
_WAITING_PATHS = frozenset(TESTS / name for name in WAITING)


@cache
def is_slow(path: Path) -> bool:
    """Whether a folder or module belongs to the slow tier as a whole."""
    return not _SLOW_PATHS.isdisjoint((path, *path.parents))


@cache
def is_waiting(path: Path) -> bool:
    """Whether a folder or module belongs to `WAITING`."""
    return not _WAITING_PATHS.isdisjoint((path, *path.parents))
