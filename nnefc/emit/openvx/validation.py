"""The part of `NAME_openvx.c` that compares the tensors of a node with those of the model."""

from __future__ import annotations

from typing import Final

VALIDATION: Final = r"""/* Dims as text, such as 4x3. */
static void dims_text(vx_size rank, const vx_size *dims, char text[DIMS_TEXT]) {
    size_t used = 0;
    vx_size k;
    text[0] = 0;
    for (k = 0; k < rank && used < DIMS_TEXT - 24; k++)
        used += (size_t)sprintf(
            text + used, "%s%lu", k > 0 ? "x" : "", (unsigned long)dims[k]);
}

static const char *type_text(vx_enum type) {
    switch (type) {
    case VX_TYPE_INT8: return "INT8";
    case VX_TYPE_UINT8: return "UINT8";
    case VX_TYPE_INT16: return "INT16";
    case VX_TYPE_UINT16: return "UINT16";
    case VX_TYPE_INT32: return "INT32";
    case VX_TYPE_UINT32: return "UINT32";
    case VX_TYPE_INT64: return "INT64";
    case VX_TYPE_UINT64: return "UINT64";
    case VX_TYPE_FLOAT16: return "FLOAT16";
    case VX_TYPE_FLOAT32: return "FLOAT32";
    case VX_TYPE_FLOAT64: return "FLOAT64";
    case VX_TYPE_BOOL: return "BOOL";
    default: return "of another kind";
    }
}

static vx_status refuse(
    vx_node node, vx_status status, vx_uint32 index, const char *what, const char *found,
    const char *wanted) {
    vxAddLogEntry(
        (vx_reference)node, status, "%s: parameter %u, %s: wrong %s %s, expected %s\n", name, index,
        expected[index].name, what, found, wanted);
    return status;
}

static vx_status refuse_position(vx_node node, vx_uint32 index, int position) {
    char found[8], wanted[8];
    sprintf(found, "%d", position);
    sprintf(wanted, "%d", expected[index].position);
    return refuse(node, VX_ERROR_INVALID_FORMAT, index, "fixed point position", found, wanted);
}

static vx_status refuse_dims(vx_node node, vx_uint32 index, vx_size rank, const vx_size *dims) {
    const description *d = &expected[index];
    char found[DIMS_TEXT] = "of higher rank", wanted[DIMS_TEXT];
    if (rank <= MAX_RANK) dims_text(rank, dims, found);
    dims_text(d->rank, d->dims, wanted);
    return refuse(node, VX_ERROR_INVALID_DIMENSION, index, "dims", found, wanted);
}

/* Checks one tensor.  An output without dims or type is virtual, and gets those expected. */
static vx_status check(vx_node node, vx_tensor tensor, vx_uint32 index) {
    const description *d = &expected[index];
    vx_size rank = 0, dims[MAX_RANK], k;
    vx_enum type = VX_TYPE_INVALID;
    vx_int8 position = 0;
    int output = d->direction == VX_OUTPUT;
    vx_status status = vxQueryTensor(tensor, VX_TENSOR_NUMBER_OF_DIMS, &rank, sizeof rank);
    if (status == VX_SUCCESS)
        status = vxQueryTensor(tensor, VX_TENSOR_DATA_TYPE, &type, sizeof type);
    if (status == VX_SUCCESS)
        status = vxQueryTensor(
            tensor, VX_TENSOR_FIXED_POINT_POSITION, &position, sizeof position);
    if (status == VX_SUCCESS && rank > 0 && rank <= MAX_RANK)
        status = vxQueryTensor(tensor, VX_TENSOR_DIMS, dims, rank * sizeof *dims);
    if (status != VX_SUCCESS) {
        vxAddLogEntry(
            (vx_reference)node, status, "%s: parameter %u, %s: no tensor\n", name, index, d->name);
        return status;
    }
    if (!(output && type == VX_TYPE_INVALID)) {
        if (type != d->type)
            return refuse(
                node, VX_ERROR_INVALID_TYPE, index, "data type", type_text(type),
                type_text(d->type));
        if (position != d->position) return refuse_position(node, index, position);
    }
    if (output && rank == 0) return VX_SUCCESS;
    if (rank != d->rank) return refuse_dims(node, index, rank, dims);
    for (k = 0; k < rank; k++)
        if (dims[k] != d->dims[k] && !(output && dims[k] == 0))
            return refuse_dims(node, index, rank, dims);
    return VX_SUCCESS;
}

static vx_status describe(vx_meta_format meta, const description *d) {
    vx_status status = vxSetMetaFormatAttribute(
        meta, VX_TENSOR_NUMBER_OF_DIMS, &d->rank, sizeof d->rank);
    if (status == VX_SUCCESS)
        status = vxSetMetaFormatAttribute(
            meta, VX_TENSOR_DIMS, d->dims, d->rank * sizeof *d->dims);
    if (status == VX_SUCCESS)
        status = vxSetMetaFormatAttribute(meta, VX_TENSOR_DATA_TYPE, &d->type, sizeof d->type);
    if (status == VX_SUCCESS)
        status = vxSetMetaFormatAttribute(
            meta, VX_TENSOR_FIXED_POINT_POSITION, &d->position, sizeof d->position);
    return status;
}

static vx_status VX_CALLBACK validate(
    vx_node node, const vx_reference *parameters, vx_uint32 count, vx_meta_format *metas) {
    vx_status status = VX_SUCCESS;
    vx_uint32 i;
    if (count != TENSORS) return VX_ERROR_INVALID_PARAMETERS;
    for (i = 0; i < TENSORS; i++) {
        vx_status found = check(node, (vx_tensor)parameters[i], i);
        if (found == VX_SUCCESS && expected[i].direction == VX_OUTPUT)
            found = describe(metas[i], &expected[i]);
        if (status == VX_SUCCESS) status = found;
    }
    return status;
}

"""
