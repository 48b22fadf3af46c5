"""llama.cpp, through the C interface that llama-cpp-python wraps.

It sets matrix registers up once per thread, and other engines release them.  So it has a thread of
its own.  Where gcc 12 builds it for such registers, it may die of an illegal instruction: that
compiler leaves out most of the setup in `ggml_tile_config_init`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llama_cpp is optional)

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.language.decoder import Array, Call


def step(path: Path, call: Call, tokens: Array, threads: int) -> Callable[[], Array]:
    """A function that runs the call and returns its scores; earlier tokens are run here.

    Raises RuntimeError if llama.cpp cannot.
    """
    own = ThreadPoolExecutor(1)
    run = own.submit(_step, path, call, tokens, threads).result()
    return lambda: own.submit(run).result()


def _ignore(_level: int, _text: bytes, _data: Any) -> None:
    """Takes messages."""


def _step(path: Path, call: Call, tokens: Array, threads: int) -> Callable[[], Array]:
    api: Any = import_module("llama_cpp")
    silent = api.llama_log_callback(_ignore)
    api.llama_log_set(silent, None)
    api.llama_backend_init()
    options = api.llama_model_default_params()
    options.n_gpu_layers = 0
    model = api.llama_model_load_from_file(str(path).encode(), options)
    options = api.llama_context_default_params()
    most = max(call.past, call.count)
    options.n_ctx = call.past + call.count
    options.n_batch = options.n_ubatch = most
    options.n_threads = options.n_threads_batch = threads
    context = api.llama_init_from_model(model, options)
    if not model or not context:
        raise RuntimeError(f"llama.cpp cannot open {path}")
    memory = api.llama_get_memory(context)
    count = api.llama_vocab_n_tokens(api.llama_model_get_vocab(model))

    def run(tokens: Array) -> Array:
        given = (api.llama_token * len(tokens))(*tokens.tolist())
        if api.llama_decode(context, api.llama_batch_get_one(given, len(tokens))):
            raise RuntimeError("llama.cpp failed")
        scores = api.llama_get_logits_ith(context, -1)
        return np.ctypeslib.as_array(scores, (count,))[None].copy()

    if call.past:
        run(np.arange(call.past) % count)

    def again(_keep: Any = silent) -> Array:
        api.llama_memory_seq_rm(memory, 0, call.past, -1)
        return run(tokens)

    return again
