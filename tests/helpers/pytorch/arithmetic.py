"""Cases of PyTorch's element-wise functions, reductions and sorting."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn import functional as F

from tests.helpers.pytorch.cases import (
    EDGES,
    ODD,
    A,
    B,
    Case,
    Functions,
    J,
    M,
    N,
    P,
    Q,
    U,
    V,
    X,
    named,
    of_functions,
    random,
)


def unary() -> Functions:
    return {
        **named(
            torch,
            "sigmoid exp sin cos tan sinh cosh tanh atan asinh sign neg floor ceil abs square "
            "erf erfc expm1 exp2 sinc frac signbit trunc round i0 digamma deg2rad rad2deg "
            "positive ravel relu",
            A,
        ),
        **named(
            torch,
            "log log2 log10 log1p sqrt rsqrt reciprocal asin acos atanh logit lgamma digamma",
            P,
        ),
        **named(torch.special, "i0e i1 i1e entr", P, prefix="special_"),
        "acosh": (torch.acosh, P + 1),
        "round_halves": (torch.round, EDGES),
        "round_decimals": (lambda x: torch.round(x, decimals=1), A),
        "sign_edges": (torch.sign, EDGES),
        "isnan": (torch.isnan, ODD),
        "isinf": (torch.isinf, ODD),
        "isfinite": (torch.isfinite, ODD),
        "isposinf": (torch.isposinf, ODD),
        "isneginf": (torch.isneginf, ODD),
        "nan_to_num": (lambda x: torch.nan_to_num(x, nan=3.0, posinf=7.0, neginf=-7.0), ODD),
        "float_power": (lambda x: torch.float_power(x, 2.0).float(), P),
        "frexp": (torch.frexp, A),
        "mvlgamma": (lambda x: torch.mvlgamma(x + 2.0, 2), P),
        "logical_not": (torch.logical_not, M),
        "bitwise_not": (torch.bitwise_not, U),
        "bitwise_not_of_bool": (torch.bitwise_not, M),
        "abs_of_integers": (torch.abs, U - 2),
        "neg_of_integers": (torch.neg, U),
        "sign_of_integers": (torch.sign, U - 2),
        "square_of_integers": (torch.square, U - 2),
        "trunc_edges": (torch.trunc, EDGES),
    }


def activations() -> Functions:
    return {
        **named(
            F,
            "relu6 hardtanh hardsigmoid hardswish elu selu celu leaky_relu gelu silu mish "
            "softplus softsign tanhshrink hardshrink softshrink logsigmoid",
            A,
        ),
        "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), A),
        "elu_alpha": (lambda x: F.elu(x, 0.5), A),
        "celu_alpha": (lambda x: F.celu(x, 0.5), A),
        "leaky_slope": (lambda x: F.leaky_relu(x, 0.3), A),
        "hardtanh_limits": (lambda x: F.hardtanh(x, -0.3, 0.7), A),
        "threshold": (lambda x: F.threshold(x, 0.1, 20.0), A),
        "hardshrink_of_1": (lambda x: F.hardshrink(x, 1.0), A),
        "softshrink_of_1": (lambda x: F.softshrink(x, 1.0), A),
        "glu": (lambda x: F.glu(x, 1), A),
        "softmax": (lambda x: F.softmax(x, 1), X),
        "softmax_last": (lambda x: F.softmax(x, -1), X),
        "log_softmax": (lambda x: F.log_softmax(x, 1), X),
        "softmin": (lambda x: F.softmin(x, 0), A),
        "clamp": (lambda x: torch.clamp(x, -0.5, 0.5), A),
        "clamp_min": (lambda x: torch.clamp(x, min=0.1), A),
        "clamp_max": (lambda x: torch.clamp_max(x, 0.1), A),
        "clamp_of_integers": (lambda x: torch.clamp(x, 1, 3), U),
        "dropout": (lambda x: F.dropout(x, 0.5, training=False), A),
        "logsumexp": (lambda x: torch.logsumexp(x, 1), A),
    }


def _named_binary() -> Functions:
    return {
        **named(
            torch,
            "add sub mul div maximum minimum atan2 hypot fmax fmin logaddexp logaddexp2 "
            "copysign lt gt le ge eq ne rsub remainder fmod floor_divide isclose",
            A,
            B,
        ),
        **named(
            torch,
            "add sub mul maximum minimum lt gt le ge eq ne remainder fmod floor_divide "
            "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div pow",
            U,
            J,
            suffix="_of_integers",
        ),
        **named(
            torch,
            "logical_and logical_or logical_xor bitwise_and bitwise_or",
            M,
            N,
            suffix="_of_bools",
        ),
    }


def _other_binary() -> Functions:
    return {
        "add_alpha": (lambda a, b: torch.add(a, b, alpha=0.5), A, B),
        "sub_alpha": (lambda a, b: torch.sub(a, b, alpha=2), A, B),
        "add_number": (lambda a: a + 3, A),
        "number_less": (lambda a: 3 - a, A),
        "number_by": (lambda a: 1 / a, P),
        "integers_and_a_number": (lambda a: a * 2 + 1, U),
        "integers_and_floats": (lambda a, b: a + b, A, U),
        "integers_by_a_number": (lambda a: a / 2, U),
        "integers_floored": (lambda a: a // 2, U),
        "integers_modulo": (lambda a: a % 3, U),
        "div_floor": (lambda a, b: torch.div(a, b, rounding_mode="floor"), A, P),
        "div_trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), A, P),
        "pow": (torch.pow, P, A),
        "pow_2": (lambda a: a**2, A),
        "pow_3": (lambda a: a**3, A),
        "pow_half": (lambda a: a**0.5, P),
        "pow_of_number": (lambda a: 2.0**a, A),
        "pow_negative": (lambda a: a**-1.5, P),
        "row": (lambda a, v: a * v, A, V),
        "column": (lambda a, v: a - v, A, random(4, 1)),
        "higher_rank": (lambda a, v: a + v, X, random(9)),
        "channel": (lambda a, v: a + v, X, random(3, 1, 1)),
        "xlogy": (torch.xlogy, A.relu(), P),
        "special_xlog1py": (torch.special.xlog1py, A, P),
        "heaviside": (torch.heaviside, A.relu(), B),
        "ldexp": (torch.ldexp, A, B),
        "lerp": (lambda a, b: torch.lerp(a, b, 0.3), A, B),
        "addcmul": (lambda a, b, c: torch.addcmul(a, b, c, value=0.5), A, B, P),
        "addcdiv": (lambda a, b, c: torch.addcdiv(a, b, c, value=0.5), A, B, P),
        "where": (torch.where, M, A, B),
        "where_number": (lambda m, a: torch.where(m, a, 0.0), M, A),
        "masked_fill": (lambda a, m: a.masked_fill(m, -1e9), A, M),
        "masked_fill_infinite": (lambda a, m: a.masked_fill(m, -float("inf")), A, M),
        "cross": (lambda a, b: torch.linalg.cross(a, b), random(4, 3), random(4, 3, seed=1)),
        "outer": (torch.outer, V, random(4)),
        "dot": (torch.dot, V, V.flip(0)),
        "bools_summed": (lambda m: m.sum(1), M),
        "bools_as_floats": (lambda m: m.float() * 2, M),
        "floats_as_integers": (lambda a: (a * 3).long(), A),
        "floats_as_bytes": (lambda a: (a.abs() * 3).to(torch.uint8), A),
        "integers_as_bools": (lambda i: i.bool(), U),
        "type_as": (lambda a, i: i.type_as(a), A, U),
        "to_double": (lambda a: a.double() * 2, A),
        "to_half": (lambda a: a.half().float() * 2, A),
        "cosine_similarity": (lambda a, b: F.cosine_similarity(a, b, dim=1), A, B),
        "pairwise_distance": (lambda a, b: F.pairwise_distance(a, b), A, B),
        "cdist": (torch.cdist, A, random(5, 6)),
        "dist": (torch.dist, A, B),
        "mse_loss": (F.mse_loss, A, B),
        "l1_loss": (F.l1_loss, A, B),
        "huber_loss": (F.huber_loss, A, B),
        "smooth_l1_loss": (F.smooth_l1_loss, A, B),
        "kl_div": (F.kl_div, A, P),
        "cross_entropy": (lambda a: F.cross_entropy(a, torch.tensor([1, 0, 5, 2])), A),
        "nll_loss": (lambda a, i: F.nll_loss(a, i), A, torch.tensor([1, 0, 5, 2])),
        "binary_cross_entropy": (F.binary_cross_entropy, P, Q),
        "bce_with_logits": (F.binary_cross_entropy_with_logits, A, Q),
    }


def binary() -> Functions:
    return {**_named_binary(), **_other_binary()}


def reductions() -> Functions:
    return {
        "sum": (torch.sum, A),
        "sum_axis": (lambda a: a.sum(1), A),
        "sum_axes": (lambda a: a.sum((2, 3), keepdim=True), X),
        "sum_of_integers": (lambda a: a.sum(1), U),
        "mean": (torch.mean, A),
        "mean_axis": (lambda a: a.mean(-1), X),
        "mean_axes": (lambda a: a.mean((-1, -2)), X),
        "max": (torch.max, A),
        "max_axis": (lambda a: torch.max(a, 1), A),
        "max_axis_kept": (lambda a: torch.max(a, 1, keepdim=True)[0], A),
        "min_axis": (lambda a: torch.min(a, 1), A),
        "amax": (lambda a: a.amax((1, 2)), X),
        "amin": (lambda a: a.amin(1, keepdim=True), X),
        "aminmax": (lambda a: torch.aminmax(a, dim=1), A),
        "max_of_integers": (lambda a: a.amax(1), U),
        "argmax": (lambda a: a.argmax(1), A),
        "argmax_kept": (lambda a: a.argmax(-1, keepdim=True), A),
        "argmin": (lambda a: a.argmin(0), A),
        "argmax_of_integers": (lambda a: a.argmax(1), U),
        "prod": (lambda a: a.prod(1), A),
        "any": (lambda m: m.any(1), M),
        "all": (lambda m: m.all(1), M),
        "any_of_all": (torch.any, M),
        "count_nonzero": (lambda a: torch.count_nonzero(a, 1), U),
        "nansum": (lambda a: torch.nansum(a), ODD[:2]),
        "nanmean": (lambda a: torch.nanmean(a), ODD[:2]),
        "var": (lambda a: a.var(1), A),
        "var_biased": (lambda a: a.var(1, unbiased=False), A),
        "std": (lambda a: a.std(-1, keepdim=True), A),
        "var_mean": (lambda a: torch.var_mean(a, 1), A),
        "std_mean": (lambda a: torch.std_mean(a, 1), A),
        "norm": (lambda a: a.norm(dim=1), A),
        "norm_1": (lambda a: a.norm(1, dim=1), A),
        "norm_3": (lambda a: a.norm(3, dim=1, keepdim=True), P),
        "norm_infinite": (lambda a: a.norm(float("inf"), dim=1), A),
        "linalg_vector_norm": (lambda a: torch.linalg.vector_norm(a, dim=-1), A),
        "renorm": (lambda a: torch.renorm(a, 2, 0, 1.0), A),
        "cumsum": (lambda a: a.cumsum(1), A),
        "cumsum_first": (lambda a: a.cumsum(0), A),
        "cumsum_of_integers": (lambda a: a.cumsum(1), U),
        "cumprod": (lambda a: a.cumprod(1), A),
        "cummax": (lambda a: a.cummax(1), A),
        "cummin": (lambda a: a.cummin(1), A),
        "logcumsumexp": (lambda a: a.logcumsumexp(1), A),
        "diff": (lambda a: a.diff(dim=1), A),
        "trapezoid": (lambda a: torch.trapezoid(a, dim=1), A),
        "topk": (lambda a: torch.topk(a, 3, dim=1), A),
        "topk_smallest": (lambda a: torch.topk(a, 2, dim=0, largest=False), A),
        "sort": (lambda a: torch.sort(a, dim=1), A),
        "sort_descending": (lambda a: torch.sort(a, dim=0, descending=True), A),
        "argsort": (lambda a: torch.argsort(a, dim=1), A),
        "median_of_sorted": (lambda a: torch.sort(a, dim=1)[0][:, 2], A),
        "bucketize": (lambda a: torch.bucketize(a, torch.tensor([-1.0, 0.0, 0.5])), A),
        "searchsorted": (lambda a: torch.searchsorted(torch.tensor([-1.0, 0.0, 0.5]), a), A),
    }


def truths() -> Functions:
    """Functions of bools, which PyTorch treats as numbers 0 and 1."""
    return {
        "sum_of_two": (lambda m, n: m + n, M, N),
        "product": (lambda m, n: m * n, M, N),
        "minimum": (torch.minimum, M, N),
        "maximum": (torch.maximum, M, N),
        **named(torch, "eq ne lt le gt ge", M, N),
        "ne_number": (lambda m: m != 0, M),
        "of_integers": (lambda m, u: m + u, M, U),
        "by_a_number": (lambda m: m * 2.5, M),
        "quotient": (lambda m: m / 4, M),
        "cumsum": (lambda m: m.cumsum(1), M),
        "cumsum_first": (lambda m: m.cumsum(0), M),
        "prod": (lambda m: m.prod(1), M),
        "amax": (lambda m: m.amax(1), M),
        "amin": (lambda m: m.amin(0), M),
        "max_axis": (lambda m: torch.max(m, 1), M),
        "sort": (lambda m: torch.sort(m, 1)[0], M),
        "sign": (torch.sign, M),
        "diff": (lambda m: m.diff(dim=1), M),
        "count_nonzero": (lambda m: torch.count_nonzero(m, 1), M),
        "equal": (lambda m, n: (m == n).all(), M, N),
    }


def cases() -> Iterator[Case]:
    for kind in (unary, activations, binary, reductions, truths):
        yield from of_functions(kind.__name__, kind())
