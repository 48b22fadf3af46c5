"""Compiles the kernels of networks for one row of the ISA table, on all processors.

For each variant of the row, processes lower the networks, and then compile the kernels that they
need.  Most kernels are the same for all variants, and are compiled for the first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

from kernel_packs.networks import Selection, kernels_of
from kernel_packs.pieces import pieces
from kernel_packs.usual import usual_kernels
from nnefc.kernels.codegen.object_code import emit
from nnefc.kernels.target.isa import BUILD, Isa, host
from nnefc.runtime.compile import support_code
from nnefc.runtime.compile.compile_unit import CompileUnit, row_for, shipped_key_of, shipped_row_of
from nnefc.runtime.machine.resources import usable_cpus
from nnefc.runtime.shipped.pack_file import pack
from nnefc.support.progress import Progress

T = TypeVar("T")
U = TypeVar("U")


def compile_pack(row: Isa, selection: Selection, progress: Progress) -> bytes:
    """The pack of a row with the selected kernels and the support code."""
    codes: dict[bytes, bytes] = {}
    processes = usable_cpus() if selection.complete else 1  # importing the compiler takes a second
    for setting, isa in selection.variants(row).items():
        # other kernels of variants differ in code, not in arguments
        find = partial(kernels_of, complete=selection.complete, brief=bool(codes))
        with ProcessPoolExecutor(processes, get_context("spawn"), _use, (setting,)) as pool:
            units: list[CompileUnit] = _support_code()
            if selection.complete:
                units += pool.submit(usual_kernels).result()
            label = f"{setting}: networks"
            for kernels in _each(pool, find, selection.networks, label, progress):
                units += kernels
            keys = {shipped_key_of(unit, isa): unit for unit in units}
            missing = {key: unit for key, unit in keys.items() if key and key not in codes}
            objects = _each(pool, compile_unit, missing.values(), f"{setting}: kernels", progress)
            codes.update(zip(missing, objects, strict=True))
    return pack({key: pieces(code) for key, code in codes.items()})


def _use(setting: str) -> None:
    """Let `host` of this process return a variant of a row."""
    os.environ["NNEFC_ISA"] = BUILD + setting


def _support_code() -> list[CompileUnit]:
    return [
        function
        for module in support_code.SUPPORT_MODULES
        for function in support_code.functions(module)
    ]


def _each(
    pool: ProcessPoolExecutor,
    function: Callable[[T], U],
    items: Iterable[T],
    label: str,
    progress: Progress,
) -> Iterator[U]:
    """`function` of each item, in order."""
    tasks = [pool.submit(function, item) for item in items]
    progress(0, len(tasks), label)
    try:
        for done, task in enumerate(as_completed(tasks), 1):
            task.result()
            progress(done, len(tasks), label)
    except BaseException:  # a failure ends the build at once
        pool.shutdown(cancel_futures=True)
        raise
    return (task.result() for task in tasks)


def compile_unit(unit: CompileUnit) -> bytes:
    """The object code for all processors that use the unit's key."""
    row = shipped_row_of(unit, host())
    assert row is not None
    return emit(unit.function(), unit.symbol, row_for(unit, row))
