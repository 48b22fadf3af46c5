"""Kernels of OpenVX: builds their modules and runs them in Khronos' sample implementation."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.artifacts.c_programs import COMPILER

Array = np.ndarray[Any, Any]

SAMPLE = Path(__file__).resolve().parents[4] / "shared" / "openvx"
ARCHIVE = "sample-impl.tar.gz"
_TOOLS = all(map(shutil.which, ("tar", "cmake", "make")))
needs_sample = pytest.mark.skipif(
    not ((SAMPLE / ARCHIVE).exists() and _TOOLS and COMPILER),
    reason="../shared/openvx, cmake, make or a C compiler is missing",
)
_LIBRARIES = ("framework", "vxu", "targets/c_model")
"""Folders of the libraries that it loads."""
TYPES = {"uint8": 3, "int8": 2, "int16": 4, "int32": 6, "float32": 10}
"""Values of vx_type_e."""

_PROGRAM = r"""
#define _GNU_SOURCE
#include <VX/vx.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
/* MODULE KERNEL RUNS, then for each parameter KIND TYPE POSITION DIMS FILE.  KIND: plain; view, a
   view of a tensor with two more items along the first dim; virtual, the output of two, which is
   the input of a second node of the kernel. */
enum { MAX = 8 };
static int maps, copies;
/* Count the calls of the module, which come here. */
vx_status vxMapTensorPatch(
    vx_tensor tensor, vx_size rank, const vx_size *start, const vx_size *end, vx_map_id *id,
    vx_size *strides, void **items, vx_enum usage, vx_enum memory) {
    vx_status (*map)() = (vx_status(*)())dlsym(RTLD_NEXT, "vxMapTensorPatch");
    maps++;
    return map(tensor, rank, start, end, id, strides, items, usage, memory);
}
vx_status vxCopyTensorPatch(
    vx_tensor tensor, vx_size rank, const vx_size *start, const vx_size *end,
    const vx_size *strides, void *items, vx_enum usage, vx_enum memory) {
    vx_status (*copy)() = (vx_status(*)())dlsym(RTLD_NEXT, "vxCopyTensorPatch");
    copies++;
    return copy(tensor, rank, start, end, strides, items, usage, memory);
}
static void VX_CALLBACK log_entry(
    vx_context c, vx_reference r, vx_status s, const vx_char *text) {
    (void)c; (void)r; (void)s;
    printf("%s", text);
}
static void need(int good, const char *what) {
    if (!good) { printf("failed: %s\n", what); exit(1); }
}
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}
static vx_size parse(char *text, vx_size *dims) {
    vx_size rank = 0;
    for (text = strtok(text, ","); text; text = strtok(NULL, ",")) dims[rank++] = atol(text);
    return rank;
}
int main(int argc, char **argv) {
    vx_context context = vxCreateContext();
    vx_graph graph = vxCreateGraph(context);
    vx_tensor tensors[MAX], roots[MAX] = {NULL};
    vx_size ranks[MAX], dims[MAX][MAX], zeros[MAX] = {0}, strides[MAX][MAX], bytes[MAX], k;
    int runs = atoi(argv[3]), count = (argc - 4) / 5, i;
    vx_uint32 parameters = 0;
    vx_status status;
    void *items[MAX];
    vx_kernel kernel;
    vx_node node;
    need(vxLoadKernels(context, argv[1]) == VX_SUCCESS, "vxLoadKernels");
    kernel = vxGetKernelByName(context, argv[2]);
    need(vxGetStatus((vx_reference)kernel) == VX_SUCCESS, "vxGetKernelByName");
    vxQueryKernel(kernel, VX_KERNEL_PARAMETERS, &parameters, sizeof parameters);
    need((int)parameters == count, "VX_KERNEL_PARAMETERS");
    node = vxCreateGenericNode(graph, kernel);
    for (i = 0; i < count; i++) {
        char **a = argv + 4 + 5 * i;
        int type = atoi(a[1]), position = atoi(a[2]), item = type <= 3 ? 1 : type == 4 ? 2 : 4;
        vx_size more[MAX], start[MAX] = {1}, end[MAX];
        FILE *file = fopen(a[4], "rb");
        vx_parameter parameter = vxGetKernelParameterByIndex(kernel, i);
        vx_enum direction = 0, state = 0, kind = 0;
        vxQueryParameter(parameter, VX_PARAMETER_DIRECTION, &direction, sizeof direction);
        vxQueryParameter(parameter, VX_PARAMETER_STATE, &state, sizeof state);
        vxQueryParameter(parameter, VX_PARAMETER_TYPE, &kind, sizeof kind);
        need(direction == (file ? VX_INPUT : VX_OUTPUT), "direction");
        need(state == VX_PARAMETER_STATE_REQUIRED && kind == VX_TYPE_TENSOR, "parameter");
        vxReleaseParameter(&parameter);
        ranks[i] = parse(a[3], dims[i]);
        memcpy(more, dims[i], sizeof more);
        memcpy(end, dims[i], sizeof end);
        more[0] += 2;
        end[0] += 1;
        for (bytes[i] = item, k = 0; k < ranks[i]; bytes[i] *= dims[i][k++])
            strides[i][k] = bytes[i];
        if (strcmp(a[0], "view") == 0) {
            roots[i] = vxCreateTensor(context, ranks[i], more, type, position);
            tensors[i] = vxCreateTensorFromView(roots[i], ranks[i], start, end);
        } else if (strcmp(a[0], "virtual") == 0)
            tensors[i] = vxCreateVirtualTensor(graph, ranks[i], zeros, VX_TYPE_INVALID, 0);
        else tensors[i] = vxCreateTensor(context, ranks[i], dims[i], type, position);
        need(vxGetStatus((vx_reference)tensors[i]) == VX_SUCCESS, "a tensor");
        items[i] = calloc(1, bytes[i]);
        if (file) {
            need(fread(items[i], 1, bytes[i], file) == bytes[i], "fread");
            fclose(file);
            status = vxCopyTensorPatch(tensors[i], ranks[i], zeros, dims[i], strides[i], items[i],
                VX_WRITE_ONLY, VX_MEMORY_TYPE_HOST);
            need(status == VX_SUCCESS, "vxCopyTensorPatch");
        }
        need(vxSetParameterByIndex(node, i, (vx_reference)tensors[i]) == VX_SUCCESS, "set");
    }
    if (strcmp(argv[4 + 5], "virtual") == 0) {
        vx_node second = vxCreateGenericNode(graph, kernel);
        vxSetParameterByIndex(second, 0, (vx_reference)tensors[1]);
        vxReleaseTensor(&tensors[1]);
        tensors[1] = vxCreateTensor(context, ranks[1], dims[1], atoi(argv[10]), atoi(argv[11]));
        vxSetParameterByIndex(second, 1, (vx_reference)tensors[1]);
        vxReleaseNode(&second);
    }
    vxRegisterLogCallback(context, log_entry, vx_false_e);
    vxDirective((vx_reference)context, VX_DIRECTIVE_ENABLE_LOGGING);
    vxDirective((vx_reference)graph, VX_DIRECTIVE_ENABLE_LOGGING);
    vxDirective((vx_reference)node, VX_DIRECTIVE_ENABLE_LOGGING);
    status = vxVerifyGraph(graph);
    printf("verify %d\n", (int)status);
    if (status == VX_SUCCESS) {
        double best = 1e30;
        maps = copies = 0;
        for (i = 0; i < runs; i++) {
            double start = now();
            status = vxProcessGraph(graph);
            if (now() - start < best) best = now() - start;
        }
        printf("process %d\nbest %.6f\n", (int)status, best);
        printf("mapped %d copied %d\n", maps / runs, copies / runs);
        for (i = 0; i < count; i++) {
            FILE *file;
            char **a = argv + 4 + 5 * i;
            file = fopen(a[4], "rb");
            if (file != NULL) { fclose(file); continue; }
            status = vxCopyTensorPatch(tensors[i], ranks[i], zeros, dims[i], strides[i], items[i],
                VX_READ_ONLY, VX_MEMORY_TYPE_HOST);
            need(status == VX_SUCCESS, "read");
            file = fopen(a[4], "wb");
            fwrite(items[i], 1, bytes[i], file);
            fclose(file);
        }
    }
    for (i = 0; i < count; i++) {
        vxReleaseTensor(&tensors[i]);
        if (roots[i]) vxReleaseTensor(&roots[i]);
    }
    vxReleaseNode(&node);
    vxReleaseKernel(&kernel);
    vxReleaseGraph(&graph);
    need(vxUnloadKernels(context, argv[1]) == VX_SUCCESS, "vxUnloadKernels");
    need(vxReleaseContext(&context) == VX_SUCCESS, "vxReleaseContext");
    return 0;
}
"""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _run(*command: str | Path) -> None:
    """Run a command; its output is the message if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True, slots=True)
class Parameter:
    """A tensor of a call: an input with data, or an output."""

    data: Array
    """Of an output: an array of its shape and type."""
    is_input: bool = True
    kind: str = "plain"
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """The sample implementation, and a program that runs a kernel."""

    folder: Path

    @classmethod
    def build(cls) -> Sample:
        """Build it in a folder of the system's temporary files, where it stays.

        One of the processes that need it does so.
        """
        name = f"nnefc-openvx-sample-{_digest((SAMPLE / ARCHIVE).read_bytes())}"
        sample = cls(Path(tempfile.gettempdir()) / name)
        with sample.folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not sample.folder.exists():
                with tempfile.TemporaryDirectory(dir=sample.folder.parent) as parent:
                    built = cls(Path(parent, "built"))
                    built._compile()
                    built.folder.rename(sample.folder)
            if not sample.program.exists():
                sample._compile_program()
        return sample

    def _compile(self) -> None:
        """Build it with tensors of every type, which it otherwise has for NNEF documents only."""
        source, built = self.folder / "src", self.folder / "build"
        source.mkdir(parents=True)
        subprocess.run(["tar", "xzf", SAMPLE / ARCHIVE, "-C", source], check=True, timeout=100)
        tensors = source / "sample/framework/vx_tensor.c"
        text, guard = tensors.read_text(), "#ifdef OPENVX_CONFORMANCE_NNEF_IMPORT"
        assert text.count(guard) == 1
        tensors.write_text(text.replace(guard, "#if 1"))
        options = ["-DBUILD_X64=1", "-DOPENVX_USE_NN=ON", "-DOPENVX_CONFORMANCE_NNEF_IMPORT=OFF"]
        options += [f"-DCMAKE_{x}_FLAGS=-O0 -fcommon -w" for x in ("C", "CXX")]
        for command in (
            ["cmake", "-S", source, "-B", built, *options],
            ["make", "-C", built, "-j2", "openvx", "vxu", "openvx-c_model"],
        ):
            _run(*command)

    def _compile_program(self) -> None:
        assert COMPILER
        text = self.program.with_suffix(".c")
        text.write_text(_PROGRAM)
        libraries = [f"-L{self.folder / 'build/sample/framework'}", "-lopenvx", "-ldl"]
        options = [f"-I{self.headers}", "-rdynamic"]
        _run(COMPILER, text, "-o", self.program, *options, *libraries)

    @property
    def program(self) -> Path:
        return self.folder / f"run-{_digest(_PROGRAM.encode())}"

    @property
    def headers(self) -> Path:
        return self.folder / "src/api-docs/include"

    def module(self, folder: Path, *more: str) -> Path:
        """Build the module of an emitted folder with CMake; returns the folder with it."""
        options = [f"-DOPENVX_INCLUDE_DIR={self.headers}", "-DCMAKE_BUILD_TYPE=Release"]
        options.append("-DCMAKE_C_FLAGS=-std=c99 -Wall -Wextra -pedantic -Werror")
        built = folder / "build"
        for command in (["-S", folder, "-B", built, *options, *more], ["--build", built]):
            _run("cmake", *command)
        return built

    def run(
        self, built: Path, name: str, parameters: Sequence[Parameter], runs: int = 2
    ) -> tuple[str, list[Array]]:
        """Run a kernel; returns what the program prints, and the outputs."""
        words: list[str] = []
        outputs: list[tuple[Path, Array]] = []
        for i, each in enumerate(parameters):
            file, data = built / f"{i}.raw", each.data
            file.unlink(missing_ok=True)
            if each.is_input:
                data.tofile(file)
            else:
                outputs.append((file, data))
            position = each.position
            if position is None:
                position = 8 if data.dtype == np.int16 else 0
            dims = ",".join(map(str, data.shape[::-1]))
            words += [each.kind, str(TYPES[data.dtype.name]), str(position), dims, str(file)]
        paths = [built, *(self.folder / "build/sample" / each for each in _LIBRARIES)]
        environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, paths))}
        done = subprocess.run(
            [self.program, f"{name}_openvx", f"nnefc.{name}", str(runs), *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        if "process 0" not in done.stdout:
            return done.stdout, []
        found = [np.fromfile(file, x.dtype).reshape(x.shape) for file, x in outputs]
        return done.stdout, found
