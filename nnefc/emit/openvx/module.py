"""`NAME_openvx.c`, the module that `vxLoadKernels` loads."""

from __future__ import annotations

from string import Template
from typing import Final

from nnefc.emit.header import Interface
from nnefc.emit.openvx.tensors import descriptions, kernel_name
from nnefc.emit.openvx.validation import VALIDATION
from nnefc.kernels.embedded.model_layout import DIMS

_MODULE: Final = Template(
    r"""/* The kernel "$kernel" for OpenVX 1.3: vxLoadKernels(context, "${name}_openvx") loads
   lib${name}_openvx.so.  Its parameters are tensors: the inputs, then the outputs of $name.h. */

#define _GNU_SOURCE

#include "$name.h"

#include <VX/vx.h>
$include
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ${macro}_OPENVX_THREADS
#define ${macro}_OPENVX_THREADS 0 /* threads of a node; 0: one for each processor */
#endif

enum { TENSORS = $tensors, MAX_RANK = $max_rank, DIMS_TEXT = 24 * MAX_RANK };

typedef struct {
    const char *name;
    vx_enum direction;
    vx_enum type;
    vx_int8 position;
    vx_size item; /* bytes */
    vx_size rank;
    vx_size dims[MAX_RANK]; /* the fastest first */
} description;

static const description expected[TENSORS] = {
$descriptions
};

static const vx_char name[VX_MAX_KERNEL_NAME] = "$kernel";

static const vx_size origin[MAX_RANK];

/* What a node has. */
typedef struct {
    ${name}_model *net;
    vx_tensor packed[TENSORS]; /* tensors that are one block of memory; NULL: they are copied */
    void *copies[TENSORS];
} instance;

static vx_size count_items(const description *d) {
    vx_size items = 1, k;
    for (k = 0; k < d->rank; k++) items *= d->dims[k];
    return items;
}

static vx_status map_items(
    vx_tensor tensor, const description *d, const vx_size *extents, vx_enum usage, vx_map_id *id,
    void **items) {
    vx_size strides[MAX_RANK];
    return vxMapTensorPatch(
        tensor, d->rank, origin, extents, id, strides, items, usage, VX_MEMORY_TYPE_HOST);
}

static vx_status copy_items(vx_tensor tensor, const description *d, void *items, vx_enum usage) {
    vx_size strides[MAX_RANK], k;
    strides[0] = d->item;
    for (k = 1; k < d->rank; k++) strides[k] = strides[k - 1] * d->dims[k - 1];
    return vxCopyTensorPatch(
        tensor, d->rank, origin, d->dims, strides, items, usage, VX_MEMORY_TYPE_HOST);
}

/* Whether two neighbours along a dim are so many bytes apart.  The strides of vxMapTensorPatch are
   not used: those of the sample implementation are wrong.  The view comes first, as it gives its
   tensor memory there. */
static int has_stride(vx_tensor tensor, const description *d, vx_size dim, vx_size stride) {
    vx_size start[MAX_RANK] = {0}, extents[MAX_RANK], k;
    vx_map_id tensor_map, view_map;
    void *first, *second;
    int found = 0;
    vx_tensor view;
    for (k = 0; k < d->rank; k++) extents[k] = d->dims[k];
    start[dim] = 1;
    extents[dim] -= 1;
    view = vxCreateTensorFromView(tensor, d->rank, start, d->dims);
    if (vxGetStatus((vx_reference)view) != VX_SUCCESS) return 0;
    if (map_items(tensor, d, d->dims, VX_READ_ONLY, &tensor_map, &first) == VX_SUCCESS) {
        if (map_items(view, d, extents, VX_READ_ONLY, &view_map, &second) == VX_SUCCESS) {
            found = (uintptr_t)second - (uintptr_t)first == stride;
            vxUnmapTensorPatch(view, view_map);
        }
        vxUnmapTensorPatch(tensor, tensor_map);
    }
    vxReleaseTensor(&view);
    return found;
}

/* Whether the tensor is one block of memory, which is mapped and not copied. */
static int is_packed(vx_tensor tensor, const description *d) {
    vx_size stride = d->item, k;
    vx_map_id map;
    void *items;
    for (k = 0; k < d->rank; k++) {
        if (d->dims[k] > 1 && !has_stride(tensor, d, k, stride)) return 0;
        stride *= d->dims[k];
    }
    if (map_items(tensor, d, d->dims, VX_READ_ONLY, &map, &items) != VX_SUCCESS) return 0;
    return vxUnmapTensorPatch(tensor, map) == VX_SUCCESS;
}

/* -- the functions of the kernel */

$validation/* Logs an error of the model; `where`: a file, or "". */
static vx_status failed(vx_node node, ${name}_status status, const char *where) {
    vx_status result = status == ${macro}_NO_MEMORY    ? VX_ERROR_NO_MEMORY
                       : status == ${macro}_NO_THREADS ? VX_ERROR_NO_RESOURCES
                       : status == ${macro}_INDEX      ? VX_ERROR_INVALID_VALUE
                                                       : VX_FAILURE;
    vxAddLogEntry(
        (vx_reference)node, result, "%s: %s%s%s\n", name, ${name}_status_text(status),
        where[0] != 0 ? ": " : "", where);
    return result;
}

static void destroy(instance *self) {
    vx_uint32 i;
    for (i = 0; i < TENSORS; i++) {
        if (self->packed[i] != NULL) vxReleaseTensor(&self->packed[i]);
        free(self->copies[i]);
    }
    ${name}_destroy(self->net);
    free(self);
}

$create
static vx_status VX_CALLBACK initialize(
    vx_node node, const vx_reference *parameters, vx_uint32 count) {
    vx_size bytes = sizeof(instance);
    vx_status status = VX_SUCCESS;
    vx_uint32 i;
    instance *self = NULL;
    if (count != TENSORS) return VX_ERROR_INVALID_PARAMETERS;
    self = calloc(1, sizeof *self);
    if (self == NULL) return VX_ERROR_NO_MEMORY;
    self->net = create(node, &status);
    if (self->net == NULL) {
        free(self);
        return status;
    }
    for (i = 0; i < TENSORS; i++) {
        vx_reference tensor = parameters[i];
        if (is_packed((vx_tensor)tensor, &expected[i]) && vxRetainReference(tensor) == VX_SUCCESS)
            self->packed[i] = (vx_tensor)tensor;
    }
    status = vxSetNodeAttribute(node, VX_NODE_LOCAL_DATA_SIZE, &bytes, sizeof bytes);
    if (status == VX_SUCCESS)
        status = vxSetNodeAttribute(node, VX_NODE_LOCAL_DATA_PTR, &self, sizeof self);
    if (status != VX_SUCCESS) destroy(self);
    return status;
}

static vx_status VX_CALLBACK deinitialize(
    vx_node node, const vx_reference *parameters, vx_uint32 count) {
    instance *self = NULL, *none = NULL;
    vx_size bytes = 0;
    vx_status status = vxQueryNode(node, VX_NODE_LOCAL_DATA_PTR, &self, sizeof self);
    (void)parameters;
    (void)count;
    if (status != VX_SUCCESS || self == NULL) return status;
    destroy(self);
    status = vxSetNodeAttribute(node, VX_NODE_LOCAL_DATA_PTR, &none, sizeof none);
    if (status == VX_SUCCESS)
        status = vxSetNodeAttribute(node, VX_NODE_LOCAL_DATA_SIZE, &bytes, sizeof bytes);
    return status;
}

static vx_status VX_CALLBACK process(
    vx_node node, const vx_reference *parameters, vx_uint32 count) {
    instance *self = NULL;
    void *items[TENSORS];
    vx_map_id maps[TENSORS];
    vx_uint32 i, ready;
    ${name}_inputs inputs;
    ${name}_outputs outputs;
    vx_status status = vxQueryNode(node, VX_NODE_LOCAL_DATA_PTR, &self, sizeof self);
    if (status != VX_SUCCESS) return status;
    if (self == NULL || count != TENSORS) return VX_ERROR_INVALID_PARAMETERS;
    for (ready = 0; ready < TENSORS && status == VX_SUCCESS; ready += status == VX_SUCCESS) {
        const description *d = &expected[ready];
        vx_tensor tensor = (vx_tensor)parameters[ready];
        if (self->packed[ready] == tensor) {
            vx_enum usage = d->direction == VX_INPUT ? VX_READ_ONLY : VX_WRITE_ONLY;
            status = map_items(tensor, d, d->dims, usage, &maps[ready], &items[ready]);
            continue;
        }
        if (self->copies[ready] == NULL) self->copies[ready] = malloc(d->item * count_items(d));
        items[ready] = self->copies[ready];
        if (items[ready] == NULL)
            status = VX_ERROR_NO_MEMORY;
        else if (d->direction == VX_INPUT)
            status = copy_items(tensor, d, items[ready], VX_READ_ONLY);
    }
    if (status == VX_SUCCESS) {
        ${name}_status run;
$pointers
        run = ${name}_run(self->net, &inputs, &outputs);
        if (run != ${macro}_OK) status = failed(node, run, "");
    }
    for (i = 0; i < ready; i++) {
        vx_tensor tensor = (vx_tensor)parameters[i];
        vx_status done = VX_SUCCESS;
        if (self->packed[i] == tensor)
            done = vxUnmapTensorPatch(tensor, maps[i]);
        else if (expected[i].direction == VX_OUTPUT && status == VX_SUCCESS)
            done = copy_items(tensor, &expected[i], items[i], VX_WRITE_ONLY);
        if (status == VX_SUCCESS) status = done;
    }
    return status;
}

/* -- the functions of the module */

vx_status VX_API_CALL vxPublishKernels(vx_context context);
vx_status VX_API_CALL vxUnpublishKernels(vx_context context);

vx_status VX_API_CALL vxPublishKernels(vx_context context) {
    vx_enum number;
    vx_uint32 i;
    vx_kernel kernel;
    vx_status status = vxAllocateUserKernelId(context, &number);
    if (status != VX_SUCCESS) return status;
    kernel = vxAddUserKernel(
        context, name, number, process, TENSORS, validate, initialize, deinitialize);
    status = vxGetStatus((vx_reference)kernel);
    if (status != VX_SUCCESS) {
        vxAddLogEntry(
            (vx_reference)context, status, "%s: a kernel with %d parameters is refused\n", name,
            (int)TENSORS);
        return status;
    }
    for (i = 0; i < TENSORS && status == VX_SUCCESS; i++)
        status = vxAddParameterToKernel(
            kernel, i, expected[i].direction, VX_TYPE_TENSOR, VX_PARAMETER_STATE_REQUIRED);
    if (status == VX_SUCCESS) status = vxFinalizeKernel(kernel);
    if (status != VX_SUCCESS) vxRemoveKernel(kernel);
    return status;
}

vx_status VX_API_CALL vxUnpublishKernels(vx_context context) {
    vx_kernel kernel = vxGetKernelByName(context, name), same = kernel;
    vx_status status = vxGetStatus((vx_reference)kernel);
    if (status == VX_SUCCESS) status = vxReleaseKernel(&same);
    return status == VX_SUCCESS ? vxRemoveKernel(kernel) : status;
}
"""
)

_CREATE: Final = Template(
    r"""static ${name}_model *create(vx_node node, vx_status *status) {
    ${name}_status why = ${macro}_OK;
    ${name}_model *net = ${name}_create(NULL, ${macro}_OPENVX_THREADS, &why);
    if (net == NULL) *status = failed(node, why, "");
    return net;
}
"""
)

_CREATE_WITH_WEIGHTS: Final = Template(
    r"""/* An instance with the weights beside this module. */
static ${name}_model *create(vx_node node, vx_status *status) {
    static const char weights[] = "$name.weights";
    char path[4096];
    Dl_info module;
    const char *slash = NULL;
    size_t folder = 0;
    ${name}_status why = ${macro}_OK;
    ${name}_model *net;
    if (dladdr((void *)(uintptr_t)expected, &module) != 0) slash = strrchr(module.dli_fname, '/');
    if (slash != NULL) folder = (size_t)(slash + 1 - module.dli_fname);
    if (folder + sizeof weights > sizeof path) folder = 0;
    if (folder > 0) memcpy(path, module.dli_fname, folder);
    memcpy(path + folder, weights, sizeof weights);
    net = ${name}_create(path, ${macro}_OPENVX_THREADS, &why);
    if (net == NULL)
        *status = failed(
            node, why, why == ${macro}_NO_FILE || why == ${macro}_WRONG_WEIGHTS ? path : "");
    return net;
}
"""
)


def openvx_module(interface: Interface, has_weights: bool, position: int) -> str:
    """The text of `NAME_openvx.c`; `position`: the fixed point position of 16-bit integers.

    Raises NnefError for tensors and names that OpenVX does not have.
    """
    names = {"name": interface.name, "macro": interface.macro}
    tensors = [(t, "inputs") for t in interface.inputs]
    tensors += [(t, "outputs") for t in interface.outputs]
    pointers = [f"{what}.{t.identifier} = items[{i}];" for i, (t, what) in enumerate(tensors)]
    if not interface.inputs:
        pointers.insert(0, "inputs.none = NULL;")
    create = _CREATE_WITH_WEIGHTS if has_weights else _CREATE
    return _MODULE.substitute(
        names,
        kernel=kernel_name(interface),
        include="\n#include <dlfcn.h>" if has_weights else "",
        tensors=len(tensors),
        max_rank=DIMS,
        descriptions=",\n".join(f"    {text}" for text in descriptions(interface, position)),
        pointers="\n".join(f"        {line}" for line in pointers),
        validation=VALIDATION,
        create=create.substitute(names),
    )
