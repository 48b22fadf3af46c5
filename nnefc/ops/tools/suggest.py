"""Suggest operations for an unknown name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_FOREIGN = {
    "conv": "conv1d conv2d conv3d convolution convolution2d depthwiseconv depthwiseconv2d",
    "deconv": "convtranspose convtranspose2d conv2dtranspose deconvolution transposedconv",
    "linear": "dense fullyconnected fc gemm innerproduct",
    "matmul": "mm bmm dot einsum batchmatmul",
    "max_pool": "maxpool1d maxpool2d maxpool3d maxpooling maxpooling2d",
    "avg_pool": "avgpool1d avgpool2d avgpool3d averagepool averagepool2d averagepooling2d",
    "mean_reduce": "mean reducemean globalavgpool globalaveragepool globalaveragepool2d",
    "sum_reduce": "sum reducesum",
    "max_reduce": "amax reducemax globalmaxpool",
    "min_reduce": "amin reducemin",
    "any_reduce": "any reduceany",
    "all_reduce": "all reduceall",
    "argmax_reduce": "argmax",
    "argmin_reduce": "argmin",
    "batch_normalization": "batchnorm batchnorm1d batchnorm2d batchnorm3d",
    "local_response_normalization": "lrn",
    "reshape": "flatten view",
    "transpose": "permute",
    "unsqueeze": "expanddims",
    "concat": "cat concatenate",
    "select": "where",
    "clamp": "clip relu6 hardtanh",
    "silu": "swish",
    "add": "plus",
    "sub": "subtract minus",
    "mul": "multiply times",
    "div": "divide truediv",
    "neg": "negative",
    "pow": "power",
    "sqr": "square",
    "rcp": "reciprocal",
    "gt": "greater",
    "ge": "greaterequal greaterorequal",
    "lt": "less",
    "le": "lessequal lessorequal",
    "eq": "equal",
    "ne": "notequal",
    "and": "logicaland",
    "or": "logicalor",
    "not": "logicalnot",
    "max": "maximum",
    "min": "minimum",
    "copy": "identity",
    "external": "placeholder input",
    "variable": "parameter weight",
    "constant": "const",
    "nearest_upsample": "upsample upsampling2d resize interpolate resizenearestneighbor",
    "multilinear_upsample": "resizebilinear bilinearupsample",
}
_NAMES = {plain: name for name, others in _FOREIGN.items() for plain in others.split()}
"""Names of operations in other frameworks, in lower case without `_`, and NNEF's names."""


def suggestion(name: str, names: Iterable[str]) -> str:
    """A hint with up to three of `names` that resemble `name`; empty if none does.

    In order of preference: names that differ in case and `_` alone, the operation that other
    frameworks call `name`, names with a similar spelling.
    """
    known = list(names)
    plain = _plain(name)
    matches = [n for n in known if _plain(n) == plain]
    if not matches and _NAMES.get(plain) in known:
        matches = [_NAMES[plain]]
    if not matches:
        lower = {n.lower(): n for n in known}
        matches = [lower[n] for n in get_close_matches(name.lower(), lower, n=3, cutoff=0.7)]
    return f"did you mean {' or '.join(repr(n) for n in matches[:3])}?" if matches else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
