"""Measure how the time to check a flat graph grows with its number of operations.

    python benchmarks/check_scaling.py [COUNT...]

Time and memory per operation should not grow with the number.
"""

from __future__ import annotations

import resource
import sys
import time

from nnefc.frontends.nnef import check_document
from nnefc.syntax.parser import parse


def flat_document(count: int) -> str:
    """A flat graph of about `count` operations: convolutions, activations, sums."""
    lines = ["version 1.0;", "graph net( x ) -> ( y )", "{"]
    lines.append("    x = external(shape = [1,8,16,16]);")
    last = "x"
    for i in range((count - 2) // 4):
        lines.append(f"    w{i} = variable(shape = [8,8,3,3], label = 'block{i}/filter');")
        lines.append(
            f"    c{i} = conv({last}, w{i}, 0.0, padding = [(1,1),(1,1)], border = 'constant', "
            "stride = [1,1], dilation = [1,1], groups = 1);"
        )
        lines.append(f"    r{i} = relu(c{i});")
        lines.append(f"    s{i} = add(r{i}, {last});")
        last = f"s{i}"
    lines += [f"    y = copy({last});", "}", ""]
    return "\n".join(lines)


def main(counts: list[int]) -> None:
    for count in counts:
        text = flat_document(count)
        start = time.perf_counter()
        document = parse(text)
        parsed = time.perf_counter()
        check_document(document)
        end = time.perf_counter()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{count:8} operations: parse {parsed - start:6.2f} s, check {end - parsed:6.2f} s, "
            f"{(end - start) / count * 1e6:5.0f} us each, peak {peak:.0f} MB"
        )


if __name__ == "__main__":
    main([int(a) for a in sys.argv[1:]] or [500, 5_000, 50_000])
