"""What stands beside an embedded model to begin with: a program, and how it is built."""

from __future__ import annotations

from string import Template
from typing import Final

from nnefc.emit.header import Interface, Tensor

_MAIN: Final = Template(
    r"""/* Runs $name once, and then a few times to see how long it takes.

   $name-example [-t THREADS] [FILE ...]

   FILES are those of the inputs and then of the outputs, in the order of $name.h: items as they
   are in memory.  Inputs without a file are 0, 1, 0, 1 ... */

#define _POSIX_C_SOURCE 199309L

#include "$name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static int take(const char *path, void *data, size_t bytes) {
    FILE *file;
    if (path == NULL) return 0;
    file = fopen(path, "rb");
    if (file == NULL) fail(path, "cannot be opened");
    if (fread(data, 1, bytes, file) != bytes || fgetc(file) != EOF) {
        fprintf(stderr, "%s: not %lu bytes\n", path, (unsigned long)bytes);
        exit(1);
    }
    fclose(file);
    return 1;
}

static void give(const char *path, const char *name, const void *data, size_t bytes) {
    FILE *file;
    if (path == NULL) {
        printf("%s: %lu bytes\n", name, (unsigned long)bytes);
        return;
    }
    file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0)
        fail(path, "cannot be written");
}

$arrays
int main(int argc, char **argv) {
    double start = now(), ready, first, best = 1e30;
    int threads = 1, run;
    size_t i;
    ${name}_status status;
    ${name}_model *net;
    ${name}_inputs inputs;
    ${name}_outputs outputs;
    char **files = argv + 1, **end = argv + argc;

    if (end - files >= 2 && strcmp(files[0], "-t") == 0) {
        threads = atoi(files[1]);
        files += 2;
    }
    net = ${name}_create($weights, threads, &status);
    if (net == NULL) fail("${name}_create", ${name}_status_text(status));
    ready = now();

$take
    run = ${name}_run(net, &inputs, &outputs);
    if (run != ${macro}_OK) fail("${name}_run", ${name}_status_text((${name}_status)run));
    first = now();
$give
    for (run = 0; run < 10; run++) {
        double before = now();
        ${name}_run(net, &inputs, &outputs);
        if (now() - before < best) best = now() - before;
    }
    printf("%d threads: created in %.3f ms, first result after %.3f ms, then every %.3f ms\n",
        ${name}_threads(net), ready - start, first - start, best);
    ${name}_destroy(net);
    return 0;
}
"""
)

_CMAKE: Final = Template(
    """# The model for a program of yours: add_subdirectory of this folder, then
# target_link_libraries(program PRIVATE $name).
cmake_minimum_required(VERSION 3.10)
project($name C)

find_package(Threads REQUIRED)
add_library($name INTERFACE)
target_include_directories($name INTERFACE $${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries($name INTERFACE $${CMAKE_CURRENT_SOURCE_DIR}/$name.o Threads::Threads m)

add_executable($name-example main.c)
target_link_libraries($name-example PRIVATE $name)
"""
)


def main_program(face: Interface, has_weights: bool) -> str:
    """`main.c`: C of 1999 and POSIX."""
    take: list[str] = []
    give: list[str] = []
    arrays = [
        f"static {t.type.c} {_array(t)}[{_macro(face, t, 'ITEMS')}];"
        for t in (*face.inputs, *face.outputs)
    ]
    following = "files < end ? *files++ : NULL"
    for t in face.inputs:
        nbytes, items = _macro(face, t, "BYTES"), _macro(face, t, "ITEMS")
        take += [
            f"    if (!take({following}, {_array(t)}, {nbytes}))",
            f"        for (i = 0; i < {items}; i++) {_array(t)}[i] = ({t.type.c})(i % 2);",
            f"    inputs.{t.identifier} = {_array(t)};",
        ]
    if not face.inputs:
        take += ["    (void)i;", "    inputs.none = NULL;"]
    for t in face.outputs:
        take.append(f"    outputs.{t.identifier} = {_array(t)};")
        nbytes = _macro(face, t, "BYTES")
        give.append(f'    give({following}, "{t.identifier}", {_array(t)}, {nbytes});')
    return _MAIN.substitute(
        name=face.name,
        macro=face.macro,
        weights=f'"{face.name}.weights"' if has_weights else "NULL",
        arrays="\n".join([*arrays, ""]),
        take="\n".join(take),
        give="\n".join(give),
    )


def cmake_file(face: Interface) -> str:
    """`CMakeLists.txt`."""
    return _CMAKE.substitute(name=face.name)


def _array(tensor: Tensor) -> str:
    """Its name in the example: one that nothing else there has."""
    return f"{tensor.identifier}_items"


def _macro(face: Interface, tensor: Tensor, what: str) -> str:
    return f"{face.macro}_{tensor.identifier.upper()}_{what}"
