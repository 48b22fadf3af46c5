"""Approximate rates of a core: the constants of the cost models of passes and lowerings.

They come from an AMD EPYC with Zen 4 cores (3.7 GHz, 512-bit vectors, 1 MiB of L2 cache per core,
32 MiB of L3 cache).  The rates of arithmetic, memory and L2 cache were measured where each is the
only limit.  The others were fitted so that the models pick the measured winner.  Since models only
compare costs, rates need not be exact, nor match every machine.  Rates that concern one kernel are
in its lowering.  Constants that kernels depend on are in `nnefc.support.alignment`: a change of
rates leaves compiled kernels valid.
"""

from __future__ import annotations

from typing import Final

# -- arithmetic on float32

MACS_PER_NS: Final = 50.0
"""Multiply-adds of register tiles in products and convolutions, including stalls."""
PEAK_MACS_PER_NS: Final = 60.0
"""Multiply-adds without stalls, 16 per cycle, for models that add memory costs separately."""
HALF_MACS_PER_NS: Final = 110.0
"""Multiply-adds of bfloat16 in vectors, including stalls."""
MATRIX_MACS_PER_NS: Final = 300.0
"""Multiply-adds of bfloat16 in matrix registers, including stalls; of codes twice as many."""
DOT_MACS_PER_NS: Final = 32.0
"""Multiply-adds of rows that are read once, or of row-major tensors in strips."""

# -- items of 4 bytes, in the caches

VECTOR_ITEMS_PER_NS: Final = 8.0
"""Items that vector code copies or applies a simple operation to."""
LOOP_ITEMS_PER_NS: Final = 4.0
"""Items that short or strided loops process."""

# -- nanoseconds per byte

MEMORY_NS: Final = 0.05
"""Weights from main memory: 20 GB/s for a single core."""
L3_CACHE_NS: Final = 0.02
"""Weights, or activations that are also written, from the L3 cache."""
WEIGHT_NS: Final = 0.03
"""Weights that are partly in the L3 cache, as in a network of many layers."""
COPY_NS: Final = 0.016
"""Copies within the caches."""
L2_CACHE_NS: Final = 0.012
"""Weights from the L2 cache."""
REMOTE_NS: Final = 0.05
"""Data that another core has written, or will read."""

# -- capacity

L3_CACHE_BYTES: Final = 32 << 20
"""Size of the L3 cache."""

# -- launches, in nanoseconds

LAUNCH_NS: Final = 100.0
"""A launch by one thread, which reads the parameters and tables of the kernel."""
SHARED_LAUNCH_NS: Final = 2000.0
"""A launch by several threads, mostly waiting for the last one."""
STEP_NS: Final = 1500.0
"""One of several consecutive launches of the same tiles by several threads."""
TICKET_NS: Final = 500.0
"""Taking a tile and reporting its completion."""
START_NS: Final = 300.0
"""Latency until another thread notices new tiles."""
