"""Writes a pack for each row of the ISA table, or for that of the machine, into a new folder.

    python -P -m kernel_packs small|release FOLDER

The importable `nnefc` is the package whose kernels are compiled.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from kernel_packs.compile import compile_pack
from kernel_packs.networks import SETS
from nnefc.cli.support.printing import progress
from nnefc.runtime.shipped.pack_file import SUFFIX, Pack


def main() -> None:
    """Compile and write the packs; progress is shown on standard error."""
    selection, folder = SETS[sys.argv[1]], Path(sys.argv[2])
    folder.mkdir(parents=True)
    for row in selection.rows:
        start = time.monotonic()
        with progress("compiling") as advance:
            data = compile_pack(row, selection, advance)
        (folder / f"{row.name}{SUFFIX}").write_bytes(data)
        seconds = time.monotonic() - start
        print(
            f"{row.name}: {Pack(data).count} kernels, {len(data):,} bytes, {seconds:.0f} s",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
