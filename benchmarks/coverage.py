"""Measure which kernels of networks the release wheel contains, without compiling any.

    python -m benchmarks.coverage           # networks that the set was not made from
    python -m benchmarks.coverage --groups zoo,exports,examples
    python -m benchmarks.coverage --model net.nnef.tgz --row x86-64-v3 --json coverage.json

Networks are lowered for a row of the instruction sets, and the names of their kernels are compared
with those of the set (`build_backend/kernel_packs`).  It takes some minutes of processor time.
"""

from __future__ import annotations

import itertools
import json as json_module
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeAlias

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import arguments
from nnefc.kernels.target.isa import BUILD, row_of

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.kernels.family import Kernel

_ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.append(str(_ROOT / "build_backend"))

GROUPS: Final = ("unseen", "zoo", "exports", "examples")
_EXAMPLES: Final = {
    "alexnet": ("examples/alexnet/graph.nnef", ()),
    "lstm": ("examples/lstm/graph.nnef", ()),
    "digits": ("examples/digits/digits.nnef.tgz", ()),
    "digits, 450 images": ("examples/digits/digits.nnef.tgz", ("image=450,1,8,8",)),
}


_Groups: TypeAlias = "dict[str, list[tuple[str, list[Kernel]]]]"
"""(name, kernels) of networks, by group."""


class Coverage(NamedTuple):
    """The kernels of a network."""

    kernels: list[Kernel]
    missing: list[Kernel]


def main(
    groups: Annotated[str, typer.Option(help="Groups of networks; commas between.")] = "unseen",
    model: Annotated[list[Path] | None, typer.Option(help="A model to measure as well.")] = None,
    row: Annotated[str, typer.Option(help="Row of the instruction sets.")] = "x86-64-v4",
    threads: arguments.ThreadCounts = "1,2",
    brief: Annotated[
        bool, typer.Option("--brief", help="Compare with the kernels for one machine, batch 1.")
    ] = False,
    json: arguments.Json = None,
    models_dir: arguments.ModelsDir = None,
) -> None:
    """Lower networks, and compare their kernels with those of the release wheel."""
    wanted = arguments.known_of(groups, "--groups", GROUPS) if groups else []
    if not wanted and not model:
        raise typer.BadParameter("--groups is empty, and no --model is given")
    counts = arguments.counts_of(threads, "--threads")
    arguments.check_writable(json, "--json")
    os.environ["NNEFC_ISA"] = BUILD + row_of(row).name
    shipped, networks = brief_kernels(counts) if brief else (release_kernels(), {})
    found: dict[str, Coverage] = {}
    for group in wanted:
        for name, kernels in networks.get(group) or kernels_by_network(group, counts, models_dir):
            found[name] = coverage(kernels, shipped)
    for path in model or ():
        found[str(path)] = coverage(_of_file(path, (), counts), shipped)
    _print(found, len(shipped))
    if json is not None:
        json.write_text(json_module.dumps(_facts(found, len(shipped), row), indent=1) + "\n")


def release_kernels() -> frozenset[Kernel]:
    """The kernels of the release wheel for the instruction set of this process."""
    from kernel_packs.networks import SETS, kernels_of
    from kernel_packs.usual import usual_kernels

    find = partial(kernels_of, complete=True)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        kernels = pool.map(find, SETS["release"].networks)
        return frozenset(usual_kernels()).union(*kernels)


def brief_kernels(threads: list[int]) -> tuple[frozenset[Kernel], _Groups]:
    """The `release_kernels` for one machine and batches of 1, and the kernels of the networks of
    the groups zoo and exports.

    It takes a tenth of the time: each network is prepared once.
    """
    from kernel_packs.networks import SETS, kernels_of, prepared
    from kernel_packs.usual import usual_kernels

    shipped = set(usual_kernels())
    groups: _Groups = {"zoo": [], "exports": []}
    for name in SETS["release"].networks:
        graph = prepared(name)
        if not name.endswith("batch 4"):
            shipped.update(kernels_of(name, complete=True, brief=True, graph=graph))
        if group := _group_of(name):
            groups[group].append((name, _lowered(graph, _is_dynamic(name), threads)))
    return frozenset(shipped), groups


def coverage(kernels: Collection[Kernel], shipped: Collection[Kernel]) -> Coverage:
    """Which kernels neither are shipped nor have a substitute that is."""
    names = list(dict.fromkeys((each.substitutes() or [each])[0] for each in kernels))
    return Coverage(names, [each for each in names if each not in shipped])


def kernels_by_network(
    group: str, threads: list[int], models_dir: Path | None = None
) -> Iterator[tuple[str, list[Kernel]]]:
    """(name, kernels) of the networks of a group."""
    if group == "examples":
        for name, (path, shapes) in _EXAMPLES.items():
            yield name, _of_file(_ROOT / path, shapes, threads)
    elif group == "unseen":
        from benchmarks.unseen.networks import NETWORKS, write

        folder = arguments.models_folder(models_dir) / "unseen"
        folder.mkdir(parents=True, exist_ok=True)
        for name in NETWORKS:
            path = folder / f"{name}.nnef.tgz"
            if not path.exists():
                write(name, path)
            yield name, _of_file(path, (), threads)
    else:
        yield from _of_set(group, threads)


def _of_set(group: str, threads: list[int]) -> Iterator[tuple[str, list[Kernel]]]:
    """The networks of the zoo, or the exported ones, as they are lowered on this machine."""
    from kernel_packs.networks import NETWORKS, prepared

    for name in NETWORKS:
        if _group_of(name) == group:
            yield name, _lowered(prepared(name), _is_dynamic(name), threads)


def _group_of(name: str) -> str | None:
    """The group of a network of the release set; None for typical graphs and layers."""
    from kernel_packs.networks import NETWORKS

    if name not in NETWORKS or name.startswith("typical "):
        return None
    return "exports" if name.startswith("exported ") else "zoo"


def _is_dynamic(name: str) -> tuple[bool, ...]:
    """Whether plans of other shapes follow the graph of that name; both are lowered."""
    return (False, True) if name.endswith("symbolic") else (False,)


def _of_file(path: Path, shapes: tuple[str, ...], threads: list[int]) -> list[Kernel]:
    from nnefc.cli.cache.warm import graphs_to_warm
    from nnefc.cli.support.options import parse_import
    from nnefc.driver.lower_graph import prepare

    config = parse_import(shapes=list(shapes), random_weights=1 if path.suffix == ".nnef" else None)
    kernels: dict[Kernel, None] = {}
    for each in graphs_to_warm({str(path): config}):
        found = _lowered(prepare(each.graph), (each.dynamic_shapes,), threads)
        kernels.update(dict.fromkeys(found))
    return list(kernels)


def _lowered(graph: Graph, dynamic: tuple[bool, ...], threads: list[int]) -> list[Kernel]:
    """The kernels of a prepared graph; `dynamic`: values of `dynamic_shapes`."""
    from nnefc.driver.lower_graph import lower_prepared
    from nnefc.options.compile_config import CompileConfig

    kernels: dict[Kernel, None] = {}
    for is_dynamic, count in itertools.product(dynamic, threads):
        program = lower_prepared(
            graph.clone(),
            CompileConfig(count, algorithms={}),
            dynamic_shapes=is_dynamic,
            keep_sources=True,
        )
        kernels.update(dict.fromkeys(program.kernels))
    return list(kernels)


def _print(found: dict[str, Coverage], count: int) -> None:
    table = Table(title=f"kernels in a release wheel of {count:,}", title_justify="left")
    for title in ("network", "kernels", "shipped", "missing"):
        table.add_column(title, justify="right" if title in ("kernels", "shipped") else "left")
    for name, (kernels, missing) in found.items():
        families = Counter(kernel.family for kernel in missing)
        text = ", ".join(f"{n} {family}" for family, n in families.items())
        table.add_row(name, str(len(kernels)), _percent(len(kernels), len(missing)), text)
    total, missing = (sum(len(each[i]) for each in found.values()) for i in range(2))
    whole = sum(not each.missing for each in found.values())
    table.add_section()
    summary = f"{whole} of {len(found)} networks need no compiler"
    table.add_row("all", str(total), _percent(total, missing), summary)
    Console().print(table)


def _percent(total: int, missing: int) -> str:
    return f"{(total - missing) / max(total, 1):.1%}"


def _facts(found: dict[str, Coverage], count: int, row: str) -> dict[str, Any]:
    networks = {
        name: {"kernels": len(each.kernels), "missing": [str(k) for k in each.missing]}
        for name, each in found.items()
    }
    total, missing = (sum(len(each[i]) for each in found.values()) for i in range(2))
    return {
        "row": row,
        "release_kernels": count,
        "share": (total - missing) / max(total, 1),
        "networks": networks,
    }


if __name__ == "__main__":
    run: Callable[..., None] = arguments.run
    run(main)
