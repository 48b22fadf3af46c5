"""`python -m tests.fuzz --count 100000`: hostile inputs, none of which may do harm.

Findings are kept in a folder, one file each; `--only KIND NUMBER` makes one input again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz.inputs import KINDS, make
from tests.fuzz.runner import fuzz, try_one


def main() -> int:
    """Run; status 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kind", nargs="*", default=sorted(KINDS), choices=sorted(KINDS))
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--only", nargs=2, metavar=("KIND", "NUMBER"))
    arguments = parser.parse_args()
    if arguments.only:
        kind, number = arguments.only[0], int(arguments.only[1])
        content = make(kind, arguments.seed, number)
        sys.stdout.buffer.write(content + b"\n")
        print(try_one(kind, content) or "nothing wrong")
        return 0
    began = time.monotonic()
    found = fuzz(arguments.count, arguments.seed, arguments.jobs, arguments.kind)
    for finding in found:
        arguments.keep.mkdir(exist_ok=True)
        name = f"{finding.kind}-{arguments.seed}-{finding.number}"
        (arguments.keep / name).write_bytes(make(finding.kind, arguments.seed, finding.number))
        print(f"--- {name}\n{finding.what}")
    seconds = time.monotonic() - began
    print(f"{arguments.count:,} inputs in {seconds:.0f} s, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
