"""`main.c`, an example of a program that calls an embedded model, and its CMake file."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template
from typing import Final

from nnefc.emit.header import Interface, Tensor

_MAIN: Final = Template(
    r"""/* Runs $name once, and then a few times to see how long it takes. */

#define _POSIX_C_SOURCE 199309L

#include "$name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char USAGE[] =
    "usage: %s [-t THREADS] $symbols_option$weights_option[FILE ...]\n"
    "\n"
    "Runs $name once, and then a few times to see how long it takes.\n"
    "\n"
    "  -t THREADS  number of threads, the calling one included (1); 0: one per processor\n"
$symbols_usage$weights_usage    "  FILE ...    files of the inputs, then of the outputs, in the"
    " order of $name.h:\n"
    "              items as in memory.  Inputs without a file are 0, 1, 0, 1 ...; of\n"
    "              outputs without one the size is printed\n";

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

static const char NO_THREADS[] = "this is no number of threads";

static int number(const char *text, const char *wrong) {
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 0 || value > 1 << 20)
        fail(text, wrong);
    return (int)value;
}

$find_weights$arrays
int main(int argc, char **argv) {
    double start = now(), ready, first, best = 1e30;
    int threads = 1, run;
    size_t i;
    ${name}_status status;
    ${name}_model *net;
    ${name}_inputs inputs;
    ${name}_outputs outputs;
$symbols_variable    char **files = argv + 1, **end = argv + argc;
$weights_variable
    if (argc < 2 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0) {
        fprintf(argc < 2 ? stderr : stdout, USAGE, argc > 0 ? argv[0] : "$name-example");
        return argc < 2;
    }
    for (; files < end && files[0][0] == '-'; files += 2) {
        if (strcmp(files[0], "--") == 0) {
            files++;
            break;
        }
        if (end - files < 2) fail(files[0], "its value is missing; see --help");
        if (strcmp(files[0], "-t") == 0) threads = number(files[1], NO_THREADS);
$take_symbols$take_weights        else fail(files[0], "there is no such option; see --help");
    }
    if (end - files > $files) fail(files[$files], "there are only $files inputs and outputs");
    net = ${name}_create($weights, threads, &status);
    if (net == NULL) fail($failed, ${name}_status_text(status));
$set_shape    ready = now();

$take
    run = ${name}_run(net, &inputs, &outputs);
    if (run != ${macro}_OK) fail("${name}_run", ${name}_status_text((${name}_status)run));
    first = now();
$give
    for (run = 0; run < 10; run++) {
        double before;
$reset        before = now();
        ${name}_run(net, &inputs, &outputs);
        if (now() - before < best) best = now() - before;
    }
    threads = ${name}_threads(net);
    printf("%d thread%s: created in %.3f ms, first result after %.3f ms, then every %.3f ms\n",
        threads, threads == 1 ? "" : "s", ready - start, first - start, best);
    ${name}_destroy(net);
    return 0;
}
"""
)

_WEIGHTS_USAGE: Final = Template(
    r"""    "  -w WEIGHTS  the file of weights ($name.weights, here or beside this program)\n"
"""
)

_FIND_WEIGHTS: Final = Template(
    r"""/* Here, or beside the program. */
static const char *find_weights(const char *program) {
    static const char name[] = "$name.weights";
    static char beside[4096];
    const char *slash = strrchr(program, '/');
    size_t folder = slash == NULL ? 0 : (size_t)(slash + 1 - program);
    FILE *file = fopen(name, "rb");
    if (file != NULL) fclose(file);
    if (file != NULL || folder == 0 || folder + sizeof name > sizeof beside) return name;
    memcpy(beside, program, folder);
    memcpy(beside + folder, name, sizeof name);
    return beside;
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


def main_program(interface: Interface, has_weights: bool) -> str:
    """The text of `main.c`, in C99 with POSIX."""
    take: list[str] = []
    give: list[str] = []
    varies = interface.has_symbols
    arrays = [
        f"static {t.type.c} *{_array(t)};\nstatic size_t {_count(t)};"
        if varies
        else f"static {t.type.c} {_array(t)}[{_macro(interface, t, 'ITEMS') if t.items else 1}];"
        for t in (*interface.inputs, *interface.outputs)
    ]
    following = "files < end ? *files++ : NULL"
    for t in interface.inputs:
        nbytes, items = _sizes(interface, t)
        taken = f"take({following}, {_array(t)}, {nbytes})"
        if not varies and not t.items:
            take.append(f"    (void){taken};")
        else:
            take += [
                f"    if (!{taken})",
                f"        for (i = 0; i < {items}; i++) {_array(t)}[i] = ({t.type.c})(i % 2);",
            ]
        take.append(f"    inputs.{t.identifier} = {_array(t)};")
    if not varies and not any(t.items for t in interface.inputs):
        take.append("    (void)i;")
    if not interface.inputs:
        take.append("    inputs.none = NULL;")
    for t in interface.outputs:
        take.append(f"    outputs.{t.identifier} = {_array(t)};")
        nbytes, _ = _sizes(interface, t)
        give.append(f'    give({following}, "{t.identifier}", {_array(t)}, {nbytes});')
    if varies:
        arrays.append(_COUNT_ITEMS)
    return _MAIN.substitute(
        _with_weights(interface) if has_weights else _without_weights(interface),
        **_of_symbols(interface),
        name=interface.name,
        macro=interface.macro,
        files=len(interface.inputs) + len(interface.outputs),
        arrays="\n".join([*arrays, ""]),
        take="\n".join(take),
        give="\n".join(give),
    )


def _with_weights(interface: Interface) -> Mapping[str, str]:
    """Substitutions in `main.c` for a model with a file of weights."""
    wrong = " || ".join(
        f"status == {interface.macro}_{why}" for why in ("NO_FILE", "WRONG_WEIGHTS")
    )
    return {
        "weights": "weights",
        "failed": f'{wrong} ? weights : "{interface.name}_create"',
        "weights_option": "[-w WEIGHTS] ",
        "weights_usage": _WEIGHTS_USAGE.substitute(name=interface.name),
        "weights_variable": '    const char *weights = find_weights(argc > 0 ? argv[0] : "");\n',
        "find_weights": _FIND_WEIGHTS.substitute(name=interface.name),
        "take_weights": '        else if (strcmp(files[0], "-w") == 0) weights = files[1];\n',
    }


def _without_weights(interface: Interface) -> Mapping[str, str]:
    """Substitutions in `main.c` for a model without a file of weights."""
    empty = dict.fromkeys(_with_weights(interface), "")
    return {**empty, "weights": "NULL", "failed": f'"{interface.name}_create"'}


_SYMBOLS_USAGE: Final = (
    '    "  -s VALUE    value of the next symbol, in the order of the header: $names (16)\\n"\n'
)

_COUNT_ITEMS: Final = """
static const char NO_VALUE[] = "this is no value of a symbol";

static size_t count_items(const int64_t *dims, int rank) {
    size_t items = 1;
    while (rank-- > 0) items *= (size_t)dims[rank];
    return items;
}
"""


def _of_symbols(interface: Interface) -> Mapping[str, str]:
    """Substitutions in `main.c` for symbols."""
    keys = (
        *("symbols_option", "symbols_usage", "symbols_variable", "take_symbols", "set_shape"),
        "reset",
    )
    if interface.symbols is None:
        return dict.fromkeys(keys, "")
    name, fields = interface.name, [field for _, field in interface.symbols]
    lines = [
        f"    status = {name}_set_shape(net, &shape);",
        f"    if (status != {interface.macro}_OK)",
        f'        fail("{name}_set_shape", {name}_status_text(status));',
    ]
    for what, tensors in (("input", interface.inputs), ("output", interface.outputs)):
        for i, t in enumerate(tensors):
            rank = _macro(interface, t, "RANK")
            lines += [
                f"    {_count(t)} = count_items({name}_{what}_dims(net, {i}), {rank});",
                f"    {_array(t)} = malloc({_count(t)} * sizeof *{_array(t)} + 1);",
                f'    if ({_array(t)} == NULL) fail("{t.identifier}", "no memory");',
            ]
    taken = " else ".join(
        f"if (taken == {i}) shape.{field} = number(files[1], NO_VALUE);"
        for i, field in enumerate(fields)
    )
    option = (
        '        else if (strcmp(files[0], "-s") == 0) {\n'
        f"            {taken or ';'}\n"
        "            taken++;\n"
        "        }\n"
    )
    values = ", ".join(f".{field} = 16" for field in fields) or ".none = 0"
    return {
        "symbols_option": "[-s VALUE ...] ",
        "symbols_usage": Template(_SYMBOLS_USAGE).substitute(names=", ".join(fields) or "none"),
        "symbols_variable": f"    {name}_shape shape = {{{values}}};\n    int taken = 0;\n",
        "take_symbols": option,
        "set_shape": "\n".join(lines) + "\n",
        "reset": f"        {name}_reset(net);\n" if interface.growing else "",
    }


def _sizes(interface: Interface, tensor: Tensor) -> tuple[str, str]:
    """Expressions for the bytes and the items of a tensor."""
    if interface.has_symbols:
        return f"{_count(tensor)} * sizeof *{_array(tensor)}", _count(tensor)
    return _macro(interface, tensor, "BYTES"), _macro(interface, tensor, "ITEMS")


def _count(tensor: Tensor) -> str:
    """The variable of the number of items."""
    return f"{tensor.identifier}_count_"


def cmake_file(interface: Interface) -> str:
    """The text of `CMakeLists.txt`."""
    return _CMAKE.substitute(name=interface.name)


def _array(tensor: Tensor) -> str:
    """The variable of a tensor in the example; no other identifier ends in `_items`."""
    return f"{tensor.identifier}_items"


def _macro(interface: Interface, tensor: Tensor, what: str) -> str:
    return f"{interface.macro}_{tensor.identifier.upper()}_{what}"
