"""Runs a chain of kernels tile by tile, so that intermediate results stay in the cache."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.abi import BASE_CODE
from nnefc.kernels.family import Kernel, KernelFunction, family
from nnefc.kernels.parameters import Words
from nnefc.kernels.vector.memory import LOAD, call_kernel, load_word

COUNT, LINKS, LINK_BYTES = 0, 8, 16

_load = LOAD["int64"]


def chain_words(links: list[tuple[Kernel, Words]]) -> Words:
    """The parameters of `chain.tiles` for kernels with their parameters.

    The number of kernels; for each kernel its code offset and the byte offset of its parameters
    from the start; then the parameters of all kernels in order.
    """
    heads: Words = [len(links)]
    bodies: Words = []
    for kernel, words in links:
        heads += [kernel, LINKS + LINK_BYTES * len(links) + 8 * len(bodies)]
        bodies += words
    return heads + bodies


@family()
def tiles() -> KernelFunction:
    def chain(bases, params, first, last):
        code = _load(bases + 8 * BASE_CODE)
        for tile in range(first, last):
            for i in range(load_word(params + COUNT)):
                link = params + LINKS + LINK_BYTES * i
                kernel, words = code + load_word(link), params + load_word(link + 8)
                call_kernel(kernel, bases, words, tile, tile + 1)

    return chain
