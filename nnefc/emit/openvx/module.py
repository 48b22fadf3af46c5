"""`NAME_openvx.c`, the module that `vxLoadKernels` loads, and its part of `CMakeLists.txt`."""

from __future__ import annotations

from string import Template
from typing import Final

from nnefc.emit.header import Interface
from nnefc.emit.openvx.tensors import descriptions, kernel_name
from nnefc.kernels.embedded.model_layout import DIMS

_MODULE: Final = Template(
    r"""/* The kernel "$kernel" for OpenVX 1.3: vxLoadKernels(context, "${name}_openvx") loads
   lib${name}_openvx.so.  Its parameters are tensors: the inputs, then the outputs of $name.h. */

#define _GNU_SOURCE

#include "$name.h"

#include <VX/vx.h>
$include
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef ${macro}_OPENVX_THREADS
#define ${macro}_OPENVX_THREADS 0 /* threads of a node; 0: one for each processor */
#endif

enum { INPUTS = $inputs, TENSORS = $tensors, MAX_RANK = $max_rank };

typedef struct {
    vx_size rank;
    vx_size dims[MAX_RANK]; /* the fastest first */
    vx_enum type;
    vx_int8 position;
    vx_size item; /* bytes */
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
    vx_tensor tensor, vx_size rank, const vx_size *end, vx_enum usage, vx_map_id *id,
    void **items) {
    vx_size strides[MAX_RANK];
    return vxMapTensorPatch(
        tensor, rank, origin, end, id, strides, items, usage, VX_MEMORY_TYPE_HOST);
}

static vx_status copy_items(vx_tensor tensor, const description *d, void *items, vx_enum usage) {
    vx_size strides[MAX_RANK], k;
    strides[0] = d->item;
    for (k = 1; k < d->rank; k++) strides[k] = strides[k - 1] * d->dims[k - 1];
    return vxCopyTensorPatch(
        tensor, d->rank, origin, d->dims, strides, items, usage, VX_MEMORY_TYPE_HOST);
}

/* Whether the tensor is one block of memory.  Only then a view of its last item is as far from its
   first item as without gaps.  Strides are not asked for: the sample implementation gives wrong
   ones. */
static int is_packed(vx_tensor tensor, const description *d) {
    vx_size last[MAX_RANK], one[MAX_RANK], k;
    vx_map_id first_map, last_map;
    void *first_item, *last_item;
    int packed = 0;
    vx_tensor view;
    for (k = 0; k < d->rank; k++) {
        last[k] = d->dims[k] - 1;
        one[k] = 1;
    }
    view = vxCreateTensorFromView(tensor, d->rank, last, d->dims);
    if (vxGetStatus((vx_reference)view) != VX_SUCCESS) return 0;
    if (map_items(tensor, d->rank, d->dims, VX_READ_ONLY, &first_map, &first_item) == VX_SUCCESS) {
        if (map_items(view, d->rank, one, VX_READ_ONLY, &last_map, &last_item) == VX_SUCCESS) {
            packed = (uintptr_t)last_item - (uintptr_t)first_item ==
                     d->item * (count_items(d) - 1);
            vxUnmapTensorPatch(view, last_map);
        }
        vxUnmapTensorPatch(tensor, first_map);
    }
    vxReleaseTensor(&view);
    return packed;
}

/* -- the functions of the kernel */

static vx_status refuse(vx_node node, vx_status status, vx_uint32 index, const char *what) {
    vxAddLogEntry((vx_reference)node, status, "%s: parameter %u: wrong %s\n", name, index, what);
    return status;
}

/* Checks one tensor.  An output without dims or type is virtual, and gets those expected. */
static vx_status check(vx_node node, vx_tensor tensor, vx_uint32 index) {
    const description *d = &expected[index];
    vx_size rank = 0, dims[MAX_RANK], k;
    vx_enum type = VX_TYPE_INVALID;
    vx_int8 position = 0;
    int output = index >= INPUTS;
    vx_status status = vxQueryTensor(tensor, VX_TENSOR_NUMBER_OF_DIMS, &rank, sizeof rank);
    if (status == VX_SUCCESS)
        status = vxQueryTensor(tensor, VX_TENSOR_DATA_TYPE, &type, sizeof type);
    if (status == VX_SUCCESS)
        status = vxQueryTensor(
            tensor, VX_TENSOR_FIXED_POINT_POSITION, &position, sizeof position);
    if (status != VX_SUCCESS) return refuse(node, status, index, "object, not a tensor");
    if (!(output && type == VX_TYPE_INVALID)) {
        if (type != d->type) return refuse(node, VX_ERROR_INVALID_TYPE, index, "data type");
        if (position != d->position)
            return refuse(node, VX_ERROR_INVALID_FORMAT, index, "fixed point position");
    }
    if (output && rank == 0) return VX_SUCCESS;
    if (rank != d->rank)
        return refuse(node, VX_ERROR_INVALID_DIMENSION, index, "number of dims");
    status = vxQueryTensor(tensor, VX_TENSOR_DIMS, dims, rank * sizeof *dims);
    if (status != VX_SUCCESS) return refuse(node, status, index, "dims");
    for (k = 0; k < rank; k++)
        if (dims[k] != d->dims[k] && !(output && dims[k] == 0))
            return refuse(node, VX_ERROR_INVALID_DIMENSION, index, "dims");
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
    for (i = 0; i < TENSORS && status == VX_SUCCESS; i++) {
        status = check(node, (vx_tensor)parameters[i], i);
        if (status == VX_SUCCESS && i >= INPUTS) status = describe(metas[i], &expected[i]);
    }
    return status;
}

static vx_status failed(vx_node node, ${name}_status status) {
    vx_status result = status == ${macro}_NO_MEMORY    ? VX_ERROR_NO_MEMORY
                       : status == ${macro}_NO_THREADS ? VX_ERROR_NO_RESOURCES
                                                      : VX_FAILURE;
    vxAddLogEntry((vx_reference)node, result, "%s: %s\n", name, ${name}_status_text(status));
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
    ${name}_status why = ${macro}_OK;
    vx_size bytes = sizeof(instance);
    vx_status status;
    vx_uint32 i;
    instance *self = NULL;
    if (count != TENSORS) return VX_ERROR_INVALID_PARAMETERS;
    self = calloc(1, sizeof *self);
    if (self == NULL) return VX_ERROR_NO_MEMORY;
    self->net = create(&why);
    if (self->net == NULL) {
        free(self);
        return failed(node, why);
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
            vx_enum usage = ready < INPUTS ? VX_READ_ONLY : VX_WRITE_ONLY;
            status = map_items(tensor, d->rank, d->dims, usage, &maps[ready], &items[ready]);
            continue;
        }
        if (self->copies[ready] == NULL) self->copies[ready] = malloc(d->item * count_items(d));
        items[ready] = self->copies[ready];
        if (items[ready] == NULL)
            status = VX_ERROR_NO_MEMORY;
        else if (ready < INPUTS)
            status = copy_items(tensor, d, items[ready], VX_READ_ONLY);
    }
    if (status == VX_SUCCESS) {
        ${name}_status run;
$pointers
        run = ${name}_run(self->net, &inputs, &outputs);
        if (run != ${macro}_OK) status = failed(node, run);
    }
    for (i = 0; i < ready; i++) {
        vx_tensor tensor = (vx_tensor)parameters[i];
        vx_status done = VX_SUCCESS;
        if (self->packed[i] == tensor)
            done = vxUnmapTensorPatch(tensor, maps[i]);
        else if (i >= INPUTS && status == VX_SUCCESS)
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
    if (status != VX_SUCCESS) return status;
    for (i = 0; i < TENSORS && status == VX_SUCCESS; i++)
        status = vxAddParameterToKernel(
            kernel, i, i < INPUTS ? VX_INPUT : VX_OUTPUT, VX_TYPE_TENSOR,
            VX_PARAMETER_STATE_REQUIRED);
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
    r"""static ${name}_model *create(${name}_status *status) {
    return ${name}_create(NULL, ${macro}_OPENVX_THREADS, status);
}
"""
)

_CREATE_WITH_WEIGHTS: Final = Template(
    r"""/* An instance with the weights beside this module. */
static ${name}_model *create(${name}_status *status) {
    static const char weights[] = "$name.weights";
    char path[4096];
    Dl_info module;
    const char *slash = NULL;
    size_t folder = 0;
    if (dladdr((void *)(uintptr_t)expected, &module) != 0) slash = strrchr(module.dli_fname, '/');
    if (slash != NULL) folder = (size_t)(slash + 1 - module.dli_fname);
    if (folder + sizeof weights > sizeof path) folder = 0;
    if (folder > 0) memcpy(path, module.dli_fname, folder);
    memcpy(path + folder, weights, sizeof weights);
    return ${name}_create(path, ${macro}_OPENVX_THREADS, status);
}
"""
)

_CMAKE: Final = Template(
    """
# The module for vxLoadKernels.  It takes the functions of OpenVX from the program that loads it,
# or from OPENVX_LIBRARY if that is set.
find_path(OPENVX_INCLUDE_DIR VX/vx.h)
if(NOT OPENVX_INCLUDE_DIR)
  message(FATAL_ERROR "VX/vx.h is missing: -D OPENVX_INCLUDE_DIR=FOLDER")
endif()
set(${macro}_OPENVX_THREADS 0 CACHE STRING "Threads of a node; 0: one for each processor")
add_library(${name}_openvx MODULE ${name}_openvx.c)
target_include_directories(${name}_openvx PRIVATE $${OPENVX_INCLUDE_DIR})
target_compile_definitions(
  ${name}_openvx PRIVATE ${macro}_OPENVX_THREADS=$${${macro}_OPENVX_THREADS})
target_link_libraries(
  ${name}_openvx PRIVATE $name $${OPENVX_LIBRARY} $${CMAKE_DL_LIBS} -Wl,-Bsymbolic)
"""
)

_CMAKE_WEIGHTS: Final = Template(
    """add_custom_command(TARGET ${name}_openvx POST_BUILD
  COMMAND $${CMAKE_COMMAND} -E copy_if_different
  $${CMAKE_CURRENT_SOURCE_DIR}/$name.weights $$<TARGET_FILE_DIR:${name}_openvx>)
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
        inputs=len(interface.inputs),
        tensors=len(tensors),
        max_rank=DIMS,
        descriptions=",\n".join(f"    {text}" for text in descriptions(interface, position)),
        pointers="\n".join(f"        {line}" for line in pointers),
        create=create.substitute(names),
    )


def openvx_cmake(interface: Interface, has_weights: bool) -> str:
    """The part of `CMakeLists.txt` that builds the module."""
    names = {"name": interface.name, "macro": interface.macro}
    weights = _CMAKE_WEIGHTS.substitute(names) if has_weights else ""
    return _CMAKE.substitute(names) + weights
