"""Cases of PyTorch's data movement, window functions, matrix products and Fourier transforms."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.helpers.pytorch.cases import (
    BIAS,
    FILTER,
    FORMS,
    SQUARE,
    TABLE,
    TRANSPOSED,
    WEIGHT,
    WINDOW,
    A,
    B,
    C,
    Case,
    Functions,
    J,
    U,
    V,
    X,
    of_functions,
    random,
)


def _reshaping() -> Functions:
    return {
        "view": (lambda a: a.view(2, 12), A),
        "view_inferred": (lambda x: x.view(x.size(0), -1), X),
        "unflatten": (lambda a: a.unflatten(1, (2, 3)), A),
        "flatten": (lambda x: x.flatten(1), X),
        "flatten_some": (lambda x: x.flatten(1, 2), X),
        "transpose": (lambda x: x.transpose(1, -1), X),
        "permute": (lambda x: x.permute(0, 2, 3, 1), X),
        "movedim": (lambda x: x.movedim(1, -1), X),
        "t": (torch.t, A),
        "mT": (lambda x: x.mT, X),
        "squeeze": (lambda a: a.unsqueeze(1).squeeze(1), A),
        "squeeze_two": (lambda a: a.squeeze(2).squeeze(0), random(1, 4, 1, 3)),
        "unsqueeze": (lambda a: a.unsqueeze(-1), A),
        "flip": (lambda a: a.flip(0, 1), A),
        "rot90": (lambda a: torch.rot90(a), A),
        "roll": (lambda a: a.roll(2, 1), A),
        "roll_two": (lambda x: x.roll((1, -2), (2, 3)), X),
        "expand": (lambda a: a.unsqueeze(1).expand(4, 3, 6), A),
        "expand_as": (lambda v, a: v.expand_as(a), V, A),
        "repeat": (lambda a: a.repeat(2, 1, 3), A),
        "tile": (lambda a: torch.tile(a, (2, 2)), A),
        "repeat_interleave": (lambda a: a.repeat_interleave(3, dim=1), A),
        "cat": (lambda a, b: torch.cat((a, b), 1), A, B),
        "cat_of_integers": (lambda a, b: torch.cat((a, b)), U, J),
        "stack": (lambda a, b: torch.stack((a, b), -1), A, B),
        "hstack": (lambda a, b: torch.hstack((a, b)), A, B),
        "vstack": (lambda a, b: torch.vstack((a, b)), A, B),
        "dstack": (lambda a, b: torch.dstack((a, b)), X, X),
        "column_stack": (lambda a, b: torch.column_stack((a, b)), A, V[:4]),
        "split": (lambda a: torch.split(a, 2, 1), A),
        "split_unequal": (lambda a: torch.split(a, [1, 2, 3], 1), A),
        "chunk": (lambda a: torch.chunk(a, 3, 1), A),
        "tensor_split": (lambda a: torch.tensor_split(a, 4, 1), A),
        "unbind": (lambda a: torch.unbind(a, 0), A),
    }


def _slicing_and_creation() -> Functions:
    return {
        "slice": (lambda a: a[1:3, ::2], A),
        "slice_negative": (lambda a: a[:-1, -4:-1], A),
        "select": (lambda x: x[:, 1], X),
        "select_last": (lambda x: x[:, :, -1], X),
        "narrow": (lambda a: a.narrow(1, 1, 3), A),
        "index": (lambda a: a[torch.tensor([2, 0, 2])], A),
        "index_of_axis": (lambda a: a[:, torch.tensor([2, 0])], A),
        "index_of_both": (lambda a: a[torch.tensor([2, 0]), torch.tensor([1, 5])], A),
        "index_given": (lambda a, i: a[i], A, torch.tensor([3, 0, 1])),
        "index_negative": (lambda a, i: a[i], A, torch.tensor([-1, 0, -2])),
        "index_select": (lambda a, i: torch.index_select(a, 1, i), A, torch.tensor([3, 0, 1])),
        "gather": (lambda a, i: torch.gather(a, 1, i), A, U),
        "take_along_dim": (lambda a, i: torch.take_along_dim(a, i, 1), A, U),
        "take": (lambda a, i: torch.take(a, i), A, U),
        "embedding": (lambda i: F.embedding(i, TABLE), U),
        "scatter": (lambda a, i, b: torch.scatter(a, 1, i[:, :1], b), A, U, B),
        "scatter_number": (lambda a, i: torch.scatter(a, 1, i[:, :1], 7.0), A, U),
        "scatter_add": (lambda a, i, b: torch.scatter_add(a, 1, i, b), A, U, B),
        "scatter_reduce": (lambda a, i, b: torch.scatter_reduce(a, 1, i, b, "amax"), A, U, B),
        "index_put": (lambda a, b: torch.index_put(a, (torch.tensor([1, 3]),), b[:2]), A, B),
        "index_add": (lambda a, b: torch.index_add(a, 0, torch.tensor([1, 3]), b[:2]), A, B),
        "index_copy": (lambda a, b: torch.index_copy(a, 0, torch.tensor([1, 3]), b[:2]), A, B),
        "index_fill": (lambda a: torch.index_fill(a, 1, torch.tensor([1, 3]), 9.0), A),
        "select_scatter": (lambda a, b: torch.select_scatter(a, b[0], 0, 2), A, B),
        "slice_scatter": (lambda a, b: torch.slice_scatter(a, b[:2], 0, 1, 3), A, B),
        "assigned_row": (assigned_row, A),
        "triu": (lambda a: torch.triu(a, 1), A),
        "tril": (lambda a: torch.tril(a), A),
        "diag": (torch.diag, V),
        "diag_of_matrix": (torch.diag, SQUARE),
        "diagonal": (lambda a: torch.diagonal(a, offset=1), A),
        "diag_embed": (lambda a: torch.diag_embed(a), A),
        "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), random(1, 8, 3, 4)),
        "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), random(1, 2, 4, 6)),
        "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), random(1, 6, 3, 4)),
        "unfold": (lambda a: a.unfold(1, 3, 2), A),
        "im2col": (lambda x: F.unfold(x, 3, padding=1), X),
        "col2im": (lambda x: F.fold(x, (6, 6), 3, stride=3), random(1, 18, 4)),
        "meshgrid": (lambda a, b: torch.meshgrid(a, b, indexing="ij"), V, random(4)),
        "broadcast_tensors": (lambda a, v: torch.broadcast_tensors(a, v), A, V),
        "atleast_3d": (torch.atleast_3d, A),
        "zeros_like": (lambda a: torch.zeros_like(a) + a, A),
        "ones_like": (lambda a: torch.ones_like(a) * a, A),
        "full_like": (lambda a: torch.full_like(a, 3.0) + a, A),
        "arange": (lambda a: torch.arange(a.shape[1]) + a, A),
        "arange_step": (lambda a: torch.arange(1, 13, 2) + a, A),
        "linspace": (lambda a: torch.linspace(0, 1, 6) * a, A),
        "eye": (lambda a: torch.eye(4, 6) * a, A),
        "one_hot": (lambda i: F.one_hot(i, 5), U),
        "vander": (lambda v: torch.vander(v), V),
        "kron": (lambda a, b: torch.kron(a, b), random(2, 3), random(2, 2)),
        "block_diag": (lambda a, b: torch.block_diag(a, b), random(2, 3), random(2, 2)),
        "cartesian_prod": (lambda a, b: torch.cartesian_prod(a, b), V, random(3)),
        "hann_window": (lambda a: torch.hann_window(6) * a, A),
        "numel": (lambda a: a.sum() / a.numel(), A),
        "clone": (lambda a: a.clone() + 1, A),
    }


def movement() -> Functions:
    return {**_reshaping(), **_slicing_and_creation()}


def assigned_row(a: Tensor) -> Tensor:
    a = a.clone()
    a[0] = a[1] * 2
    return a


def _pooling_and_upsampling() -> Functions:
    return {
        "max_pool1d": (lambda x: F.max_pool1d(x, 3, 2, padding=1), C),
        "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, padding=1), X),
        "max_pool2d_dilated": (lambda x: F.max_pool2d(x, 2, 1, dilation=2), X),
        "max_pool3d": (lambda x: F.max_pool3d(x, 2), random(1, 2, 4, 5, 6)),
        "max_pool_indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), X),
        "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), C),
        "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, padding=1), X),
        "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), random(1, 2, 4, 5, 6)),
        "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 1), X),
        "adaptive_avg_pool2d_3": (lambda x: F.adaptive_avg_pool2d(x, 3), random(1, 2, 6, 9)),
        "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 1), C),
        "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 1), X),
        "upsample_nearest": (lambda x: F.interpolate(x, scale_factor=2.0), X),
        "upsample_nearest_size": (lambda x: F.interpolate(x, size=(14, 18)), X),
        "upsample_nearest_1d": (lambda x: F.interpolate(x, scale_factor=3.0), C),
        "upsample_exact": (lambda x: F.interpolate(x, size=(11, 13), mode="nearest-exact"), X),
        "upsample_bilinear": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), X),
        "upsample_bilinear_size": (lambda x: F.interpolate(x, size=(10, 5), mode="bilinear"), X),
        "upsample_bilinear_aligned": (
            lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True),
            X,
        ),
        "upsample_linear": (lambda x: F.interpolate(x, scale_factor=2.0, mode="linear"), C),
        "upsample_bicubic": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bicubic"), X),
        "upsample_trilinear": (
            lambda x: F.interpolate(x, scale_factor=2.0, mode="trilinear"),
            random(1, 2, 3, 4, 5),
        ),
    }


def _padding_and_normalisation() -> Functions:
    theta = random(2, 2, 3) * 0.3
    return {
        "pad_constant": (lambda x: F.pad(x, (1, 2, 0, 3), value=0.5), X),
        "pad_cropped": (lambda x: F.pad(x, (-1, 2)), X),
        "pad_reflect": (lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), X),
        "pad_replicate": (lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"), X),
        "pad_reflect_1d": (lambda x: F.pad(x, (1, 2), mode="reflect"), C),
        "grid_sample": (
            lambda x, t: F.grid_sample(
                x, F.affine_grid(t, [2, 3, 5, 6], False), align_corners=False
            ),
            X,
            theta,
        ),
        "grid_sample_border": (
            lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True),
            X,
            random(2, 4, 5, 2),
        ),
        "grid_sample_reflected": (
            lambda x, g: F.grid_sample(x, g, "nearest", "reflection", align_corners=False),
            X,
            random(2, 4, 5, 2),
        ),
        "layer_norm": (lambda x: F.layer_norm(x, (9,)), X),
        "layer_norm_of_two": (lambda x: F.layer_norm(x, (7, 9)), X),
        "rms_norm": (lambda x: F.rms_norm(x, (6,), eps=1e-6), A),
        "rms_norm_weighted": (lambda x: F.rms_norm(x, (6,), V, eps=1e-5), A),
        "instance_norm": (lambda x: F.instance_norm(x), X),
        "local_response_norm": (lambda x: F.local_response_norm(x, 2), X),
        "l1_distance": (lambda a: F.l1_loss(a, torch.zeros_like(a), reduction="none"), A),
        "conv_functional": (lambda x: F.conv2d(x, FILTER, padding=1), X),
        "conv_weights_given": (F.conv2d, X, random(4, 3, 3, 3)),
        "conv_same": (lambda x: F.conv2d(x, FILTER, padding="same"), X),
        "conv_transposed": (
            lambda x: F.conv_transpose2d(x, TRANSPOSED, stride=2, padding=1, output_padding=1),
            X,
        ),
    }


def images() -> Functions:
    return {**_pooling_and_upsampling(), **_padding_and_normalisation()}


def _matrix_products() -> Functions:
    D, E = random(2, 3, 4), random(2, 4, 5)
    return {
        "matmul": (torch.matmul, A, B.t().contiguous()),
        "matmul_batch": (torch.matmul, D, E),
        "matmul_broadcast": (torch.matmul, random(2, 1, 3, 4), random(5, 4, 2)),
        "matmul_vector": (torch.matmul, A, V),
        "vector_matmul": (torch.matmul, random(4), A),
        "mm": (torch.mm, A, B.t().contiguous()),
        "bmm": (torch.bmm, D, E),
        "mv": (torch.mv, A, V),
        "addmm": (lambda a, b, c: torch.addmm(c, a, b), A, random(6, 3), random(4, 3)),
        "addmm_scaled": (
            lambda a, b, c: torch.addmm(c, a, b, beta=0.5, alpha=2.0),
            A,
            random(6, 3),
            random(3),
        ),
        "baddbmm": (torch.baddbmm, random(2, 3, 5), D, E),
        "addbmm": (torch.addbmm, random(3, 5), D, E),
        "addmv": (torch.addmv, random(4), A, V),
        "addr": (torch.addr, A, random(4), V),
        "inner": (torch.inner, A, B),
        "chain_matmul": (
            lambda a, b, c: torch.chain_matmul(a, b, c),
            A,
            random(6, 3),
            random(3, 2),
        ),
        "tensordot": (lambda a, b: torch.tensordot(a, b, 1), random(2, 3), random(3, 4)),
        "bilinear": (lambda a, b: F.bilinear(a, b, FORMS), A, B),
        "linear": (lambda a: F.linear(a, WEIGHT, BIAS), A),
        "linear_3d": (lambda a: F.linear(a, WEIGHT, BIAS), C),
        "einsum": (lambda a, b: torch.einsum("bij,bjk->bik", a, b), D, E),
        "einsum_heads": (
            lambda a, b: torch.einsum("bqhd,bkhd->bhqk", a, b),
            random(2, 3, 2, 4),
            random(2, 5, 2, 4),
        ),
        "einsum_trace": (lambda a: torch.einsum("ii->i", a), SQUARE),
        "einsum_outer": (lambda a, b: torch.einsum("i,j->ij", a, b), V, random(4)),
        "einsum_three": (
            lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c),
            A,
            random(6, 3),
            random(3, 2),
        ),
        "einsum_sum": (lambda a: torch.einsum("ij->j", a), A),
        "einsum_implicit": (lambda a: torch.einsum("ii", a), SQUARE),
        "einsum_any": (lambda a, b: torch.einsum("...ij,jk->...ik", a, b), X, random(9, 4)),
        "einsum_any_of_two": (lambda a, b: torch.einsum("...i,...i", a, b), X, random(7, 9)),
    }


def _attention() -> Functions:
    return {
        "attention_of_matrices": (F.scaled_dot_product_attention, A, A, B),
        "attention_of_rank_5": (
            F.scaled_dot_product_attention,
            *(random(2, 2, 3, n, 4, seed=n) for n in (5, 7, 7)),
            random(2, 1, 1, 5, 7),
        ),
        "attention_without_keys": (
            F.scaled_dot_product_attention,
            *(random(2, 3, n, 4, seed=n) for n in (5, 7, 7)),
            torch.arange(5)[:, None] > torch.arange(7),
        ),
        "attention_without_finite": (
            F.scaled_dot_product_attention,
            *(random(2, 3, n, 4, seed=n) for n in (5, 7, 7)),
            torch.zeros(5, 7).masked_fill(torch.arange(7) >= torch.arange(5)[:, None], -torch.inf),
        ),
        "attention": (
            F.scaled_dot_product_attention,
            random(2, 3, 5, 4),
            random(2, 3, 7, 4),
            random(2, 3, 7, 4, seed=1),
        ),
        "attention_causal": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            random(2, 3, 5, 4),
            random(2, 3, 5, 4, seed=2),
            random(2, 3, 5, 4, seed=1),
        ),
        "attention_masked": (
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
            random(2, 3, 4, 4),
            random(2, 3, 6, 4, seed=2),
            random(2, 3, 6, 4, seed=1),
            A > -1.5,
        ),
        "attention_biased": (
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, scale=0.3),
            random(2, 3, 4, 4),
            random(2, 3, 6, 4, seed=2),
            random(2, 3, 6, 4, seed=1),
            A,
        ),
        "attention_3d": (
            F.scaled_dot_product_attention,
            random(3, 5, 4),
            random(3, 7, 4),
            random(3, 7, 4, seed=1),
        ),
        "attention_grouped": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            random(1, 4, 5, 8),
            random(1, 2, 5, 8, seed=2),
            random(1, 2, 5, 8, seed=1),
        ),
    }


def _spectra() -> Functions:
    return {
        "stft": (stft, random(2, 64)),
        "rfft": (lambda x: torch.view_as_real(torch.fft.rfft(x)), random(2, 16)),
        "fft": (lambda x: torch.view_as_real(torch.fft.fft(x)), random(2, 16)),
        "irfft": (lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2), random(2, 16)),
        "fft_magnitude": (lambda x: torch.fft.rfft(x).abs(), random(2, 16)),
    }


def products() -> Functions:
    return {**_matrix_products(), **_attention(), **_spectra()}


def stft(x: Tensor) -> Tensor:
    spectrum = torch.stft(x, 16, 8, window=WINDOW, return_complex=True)
    return torch.view_as_real(spectrum)


def cases() -> Iterator[Case]:
    for kind in (movement, images, products):
        yield from of_functions(kind.__name__, kind())
