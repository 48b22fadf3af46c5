"""Rates of a core, roughly: the constants of the cost models of passes and lowerings.

They come from an AMD EPYC with Zen 4 cores (3.7 GHz, vectors of 512 bits, 1 MiB of second cache a
core, 32 MiB of last cache).  Arithmetic, and reading from memory and the second cache, were
measured where they alone are the limit; the rest were fitted so that the models pick the measured
winner.  Models compare them with each other, so they need not be exact, nor right for every
machine.  Rates of a single kernel stand where it is lowered.  Facts that kernels depend on are in
`nnefc.support.hardware`: a change of rates leaves compiled kernels valid.
"""

from __future__ import annotations

from typing import Final

# -- arithmetic on float32

MACS_PER_NS: Final = 50.0
"""Multiply-adds of products and convolutions by register tiles, with all that these wait for."""
PEAK_MACS_PER_NS: Final = 60.0
"""The same with all operands at hand, 16 a cycle: for models that count waiting apart."""
DOT_MACS_PER_NS: Final = 32.0
"""Multiply-adds of rows that are read once, or of row-major tensors in strips."""

# -- items of 4 bytes, in the caches

VECTOR_ITEMS_PER_NS: Final = 8.0
"""Items that vectors move, or do something simple to."""
LOOP_ITEMS_PER_NS: Final = 4.0
"""The same with strides, by loops of a few items."""

# -- a byte, in nanoseconds

MEMORY_NS: Final = 0.05
"""Of weights from main memory: 20 GB/s for a core alone."""
SHARED_CACHE_NS: Final = 0.02
"""Of weights, or of activations that are written as well, from the last cache."""
WEIGHT_NS: Final = 0.03
"""Of weights of which some are in the last cache, as in a network of many layers."""
COPY_NS: Final = 0.016
"""To copy it, in the caches."""
NEAR_NS: Final = 0.012
"""Of weights from the second cache."""
REMOTE_NS: Final = 0.05
"""That another core has written, or has to get."""

# -- capacity

LAST_CACHE_BYTES: Final = 32 << 20
"""Of the last cache."""

# -- launches, in nanoseconds

LAUNCH_NS: Final = 100.0
"""Of one thread: it reads the parameters, and the tables of the kernel."""
SHARED_LAUNCH_NS: Final = 2000.0
"""Of several threads: most of it is waiting for the last one."""
STEP_NS: Final = 1500.0
"""The same for one of launches that follow each other, of the same tiles."""
TICKET_NS: Final = 500.0
"""To take a tile, and to say that it is done."""
START_NS: Final = 300.0
"""Until another thread has seen that there are tiles."""
