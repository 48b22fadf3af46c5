"""A small Llama of transformers, with random weights, that generates tokens with `generate()`.

Its forward function is compiled by `torch.compile(..., backend="nnefc")`; the rest is PyTorch's.
The keys and values of a step are written into the memory of a static cache, and behind those of a
dynamic one.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (transformers may be missing, and is not typed)

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def network(width: int, layers: int, words: int) -> Any:
    """A Llama with heads of 64 numbers."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=width,
        intermediate_size=width * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        vocab_size=words,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config).eval()


def generated(model: Any, ids: Any, tokens: int, cache: str) -> tuple[Any, float]:
    """The tokens that follow `ids`, and the seconds that they took."""
    start = time.perf_counter()
    with torch.inference_mode():
        found = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=tokens,
            cache_implementation=cache,
            disable_compile=True,  # of generate() itself, which would compile static caches
        )
    return found, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--words", type=int, default=32000)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    model = network(options.width, options.layers, options.words)
    ids = torch.randint(options.words, (1, 32))
    eager = model.forward
    for cache in ("dynamic", "static"):
        torch.compiler.reset()
        model.forward = eager
        generated(model, ids, 2, cache)
        want, theirs = generated(model, ids, options.tokens, cache)
        model.forward = torch.compile(eager, backend="nnefc")
        generated(model, ids, options.tokens, cache)  # compiles
        found, ours = generated(model, ids, options.tokens, cache)
        same = int((found == want).sum()) - ids.numel()
        rates = (
            f"nnefc {options.tokens / ours:.0f}, PyTorch {options.tokens / theirs:.0f} per second"
        )
        print(f"{cache} cache: {same} of {options.tokens} tokens as PyTorch's; {rates}")


if __name__ == "__main__":
    main()
