"""Models in programs of C: compiled by the C compiler of the machine, and compared with Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.emit.header import Interface, header
from nnefc.emit.names import identifiers
from nnefc.kernels.embedded_state import FEATURE_WORDS, STATUS
from nnefc.kernels.isa import TABLE, host
from nnefc.runtime.tensors import TensorSpec
from tests import elf
from tests.command_line import Cli
from tests.saved import COUNTER, MIXED, TINY, compiled, inputs, results, write

Array = np.ndarray[Any, Any]

COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
CXX = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
WARNINGS = ("-Wall", "-Wextra", "-pedantic", "-Werror")
LIBRARIES = ("-lm", "-lpthread", "-Wl,--fatal-warnings")

KINDS = """\
version 1.0;
graph kinds( double, Int, flag ) -> ( y, int, flags )
{
    double = external(shape = [3, 1]);
    Int = external<integer>(shape = [4]);
    flag = external<logical>(shape = [3, 4]);
    a = exp(double) + sin(double);
    y = a * 2.0;
    int = select(flag, 1, 2);
    flags = y > 1.0;
    unused = copy(Int);
}
"""
"""Items of every type, names that C has other uses for, functions of the C library."""

SLICED = """\
version 1.0;
graph sliced( x ) -> ( y )
{
    x = external(shape = [16, 32, 56, 56]);
    first = variable(shape = [64, 32, 3, 3], label = 'first');
    second = variable(shape = [64, 64, 3, 3], label = 'second');
    a = relu(conv(x, first, 0.0));
    b = relu(conv(a, second, 0.0));
    y = mean_reduce(b, axes = [2, 3]);
}
"""
"""A batch that runs part by part."""

DOCUMENTS = {"tiny": TINY, "mixed": MIXED, "counter": COUNTER, "kinds": KINDS, "sliced": SLICED}
OPTIONS: dict[str, dict[str, Any]] = {"kinds": {"scalar": "float64"}}


class Emitted:
    """A model and its folder."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir()
        self.model = compiled(folder, DOCUMENTS[name], **OPTIONS.get(name, {}))
        self.folder = folder / "c"
        self.name = name
        self.files = self.model.emit_c(self.folder)

    def build(self, source: str, program: str, *more: str) -> Path:
        """Compile a source file of the folder with the object."""
        made = self.folder / program
        compile_c("-std=c99", *WARNINGS, source, f"{self.name}.o", "-o", made, *LIBRARIES, *more)
        return made


def compile_c(*arguments: str | Path, at: Path | None = None) -> None:
    assert COMPILER
    places = [a for a in arguments if isinstance(a, Path)]
    folder = at or places[0].parent
    done = subprocess.run(
        [COMPILER, *map(str, arguments)], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def run(program: Path, *arguments: str | Path, status: int = 0) -> str:
    done = subprocess.run(
        [program, *arguments], cwd=program.parent, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


_made: dict[str, Emitted] = {}


@pytest.fixture
def emitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Emitted:
    """The folder of a document, made once; tests add files to it."""
    name: str = request.param
    if name not in _made:
        _made[name] = Emitted(tmp_path_factory.mktemp("emitted") / name, name)
    return _made[name]


def of(*names: str) -> Any:
    return pytest.mark.parametrize("emitted", names, indirect=True)


# -- results


def run_main(program: Path, threads: int, given: Sequence[Array], like: Sequence[Array]) -> Any:
    """What the example writes."""
    folder = program.parent
    names = [folder / f"in{i}.raw" for i in range(len(given))]
    for path, x in zip(names, given, strict=True):
        x.tofile(path)
    made = [folder / f"out{i}.raw" for i in range(len(like))]
    text = run(program, "-t", str(threads), *names, *made)
    assert "threads: created in" in text
    return [np.fromfile(p, y.dtype).reshape(y.shape) for p, y in zip(made, like, strict=True)]


@needs_compiler
@of(*DOCUMENTS)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_example_gives_the_results_of_python(emitted: Emitted, threads: int) -> None:
    program = emitted.build("main.c", "example")
    emitted.model.reset()
    expected = results(emitted.model)
    for y, got in zip(expected, run_main(program, threads, inputs(emitted.model), expected)):
        assert got.tobytes() == y.tobytes()


@of("sliced")
def test_a_batch_is_run_part_by_part(emitted: Emitted) -> None:
    table = emitted.model.plan.table
    assert table.size > table.slices, "another document is needed"


@needs_compiler
@of("mixed")
def test_older_instruction_sets(emitted: Emitted, tmp_path: Path) -> None:
    emitted.model.emit_c(tmp_path / "c", target="x86-64-v2")
    program = tmp_path / "c" / "example"
    compile_c("main.c", "mixed.o", "-o", program, *LIBRARIES)
    expected = results(emitted.model)
    for y, got in zip(expected, run_main(program, 2, inputs(emitted.model), expected)):
        np.testing.assert_allclose(got, y, rtol=1e-4, atol=1e-4 * abs(y).max())


CROSS = shutil.which("aarch64-linux-gnu-gcc")
EMULATOR = next(filter(None, map(shutil.which, ("qemu-aarch64", "qemu-aarch64-static"))), None)


@pytest.mark.skipif(not CROSS or not EMULATOR, reason="no compiler and emulator for aarch64")
@of("mixed", "counter", "kinds")
def test_another_architecture(emitted: Emitted, tmp_path: Path) -> None:
    """Needs Debian's gcc-aarch64-linux-gnu and qemu-user."""
    assert CROSS and EMULATOR
    folder = tmp_path / "c"
    emitted.model.reset()
    emitted.model.emit_c(folder, target="aarch64")
    command = [CROSS, "-static", "main.c", f"{emitted.name}.o", "-o", "example.arm", *LIBRARIES]
    subprocess.run(command, cwd=folder, check=True)
    program = folder / "example"
    program.write_text(f'#!/bin/sh\nexec {EMULATOR} ./example.arm "$@"\n')
    program.chmod(0o755)
    expected = results(emitted.model)
    for y, got in zip(expected, run_main(program, 2, inputs(emitted.model), expected)):
        np.testing.assert_allclose(got, y, rtol=1e-4, atol=1e-4 * abs(y).max())


@needs_compiler
def test_a_loaded_model(tmp_path: Path) -> None:
    model = compiled(tmp_path, MIXED)
    model.save(tmp_path / "net.nnefc")
    nnefc.load(tmp_path / "net.nnefc").emit_c(tmp_path / "c", name="Other_1")
    program = tmp_path / "c" / "example"
    compile_c("main.c", "Other_1.o", "-o", program, *LIBRARIES)
    expected = results(model)
    for y, got in zip(expected, run_main(program, 1, inputs(model), expected)):
        assert got.tobytes() == y.tobytes()


# -- states

_COUNTER = r"""
#include "counter.h"
#include <stdio.h>
#include <string.h>
int main(void) {
    counter_model *a = counter_create(NULL, 1, NULL), *b = counter_create(NULL, 2, NULL);
    float x[COUNTER_X_ITEMS] = {1.0f, 2.0f}, y[COUNTER_Y_ITEMS], *sum = counter_state(a, 0);
    counter_inputs inputs;
    counter_outputs outputs;
    int i;
    inputs.x = x;
    outputs.y = y;
    for (i = 0; i < 3; i++) counter_run(a, &inputs, &outputs);
    printf("%.9g %.9g\n", y[0], y[1]);
    printf("%.9g %.9g\n", sum[0], sum[1]);
    counter_run(b, &inputs, &outputs);
    printf("%.9g %.9g\n", y[0], y[1]);
    counter_reset(a);
    counter_run(a, &inputs, &outputs);
    printf("%.9g %.9g\n", y[0], y[1]);
    memset(sum, 0, sizeof y);
    counter_run(a, &inputs, &outputs);
    printf("%.9g %.9g\n", y[0], y[1]);
    printf("%d %d\n", counter_state(a, 1) == NULL, counter_state(a, -1) == NULL);
    printf("%s %d %d\n", counter_state_info[0].name, (int)counter_state_info[0].rank,
        (int)counter_state_info[0].dims[1]);
    counter_destroy(a);
    counter_destroy(b);
    counter_destroy(NULL);
    return 0;
}
"""


@needs_compiler
@of("counter")
def test_instances_have_states_of_their_own(emitted: Emitted) -> None:
    (emitted.folder / "counter.c").write_text(_COUNTER)
    lines = run(emitted.build("counter.c", "counter")).splitlines()
    rows = [np.array(line.split(), np.float32) for line in lines[:5]]
    model = emitted.model
    model.reset()
    x = np.array([[1, 2]], np.float32)
    one, _, three = (model(x)[0] for _ in range(3))
    np.testing.assert_array_equal(rows[0], three)
    np.testing.assert_array_equal(rows[1], model.variables["sum"][0])
    np.testing.assert_array_equal(rows[2], one)
    np.testing.assert_array_equal(rows[3], one)
    model.variables["sum"] = np.zeros((1, 2), np.float32)
    np.testing.assert_array_equal(rows[4], model(x)[0])
    assert lines[5:] == ["1 1", "Sum 2 2"]


# -- threads

_CROWD = r"""
#include "mixed.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { CALLERS = 6, CALLS = 20 };
static mixed_model *shared;
static float x[CALLERS][MIXED_X_ITEMS], expected[CALLERS][MIXED_Y_ITEMS];
static int call(mixed_model *net, int i, float *y) {
    static float unused[CALLERS][MIXED_Z_ITEMS];
    int32_t n[MIXED_N_ITEMS];
    mixed_inputs inputs;
    mixed_outputs outputs;
    inputs.x = x[i];
    outputs.y = y;
    outputs.z = unused[i];
    outputs.n = n;
    return mixed_run(net, &inputs, &outputs);
}
static void *caller(void *number) {
    int i = (int)(size_t)number, k;
    long wrong = 0;
    float *y = malloc(MIXED_Y_BYTES);
    for (k = 0; k < CALLS; k++) {
        mixed_model *own = mixed_create("mixed.weights", 1 + k % 3, NULL);
        mixed_model *both[2];
        int j;
        both[0] = shared;
        both[1] = own;
        for (j = 0; j < 2; j++) {
            memset(y, 0, MIXED_Y_BYTES);
            wrong += own == NULL || call(both[j], i, y) != MIXED_OK;
            wrong += memcmp(y, expected[i], MIXED_Y_BYTES) != 0;
        }
        mixed_destroy(own);
    }
    free(y);
    return (void *)wrong;
}
int main(void) {
    pthread_t threads[CALLERS];
    mixed_model *first = mixed_create("mixed.weights", 1, NULL);
    long i, k, wrong = 0;
    for (i = 0; i < CALLERS; i++) {
        for (k = 0; k < MIXED_X_ITEMS; k++) x[i][k] = (float)((k * (i + 3)) % 17) - 8;
        call(first, (int)i, expected[i]);
    }
    mixed_destroy(first);
    shared = mixed_create("mixed.weights", 2, NULL);
    printf("%d\n", mixed_threads(shared));
    for (i = 0; i < CALLERS; i++) pthread_create(&threads[i], NULL, caller, (void *)i);
    for (i = 0; i < CALLERS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (long)result;
    }
    mixed_destroy(shared);
    printf("%ld wrong of %d\n", wrong, CALLERS * CALLS);
    return memcmp(expected[0], expected[1], MIXED_Y_BYTES) == 0;
}
"""


@needs_compiler
@of("mixed")
def test_many_threads_with_instances_of_their_own_and_one_in_common(emitted: Emitted) -> None:
    (emitted.folder / "crowd.c").write_text(_CROWD)
    assert run(emitted.build("crowd.c", "crowd")) == "2\n0 wrong of 120\n"


# -- what can be wrong

_STATUS = r"""
#include "mixed.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
int main(int argc, char **argv) {
    const char *path = strcmp(argv[1], "NULL") != 0 ? argv[1] : NULL;
    mixed_status status = MIXED_OK;
    mixed_model *net;
    static float x[MIXED_X_ITEMS], y[MIXED_Y_ITEMS], z[MIXED_Z_ITEMS];
    mixed_inputs inputs = {x};
    mixed_outputs outputs = {y, z, NULL};
    if (argc > 3) { /* bytes that the program may take beside what it has */
        struct rlimit limit;
        unsigned long pages;
        FILE *file = fopen("/proc/self/statm", "r");
        if (file == NULL || fscanf(file, "%lu", &pages) != 1) return 2;
        fclose(file);
        limit.rlim_cur = limit.rlim_max = pages * 4096 + strtoul(argv[3], NULL, 10);
        setrlimit(RLIMIT_AS, &limit);
    }
    net = mixed_create(path, atoi(argv[2]), &status);
    printf("%d %s\n", (int)status, mixed_status_text(status));
    if (net == NULL) return 1;
    printf("%d %d %d %d\n", (int)mixed_run(net, &inputs, &outputs),
        (int)mixed_run(net, &inputs, NULL), (int)mixed_run(net, NULL, &outputs),
        (int)mixed_run(NULL, &inputs, &outputs));
    printf("%s\n", mixed_status_text((mixed_status)99));
    mixed_destroy(net);
    return 0;
}
"""
NUMBER = {name: number for number, name in enumerate(STATUS)}


@needs_compiler
@of("mixed")
def test_status(emitted: Emitted, tmp_path: Path) -> None:
    (emitted.folder / "status.c").write_text(_STATUS)
    program = emitted.build("status.c", "status")
    good = (emitted.folder / "mixed.weights").read_bytes()

    def fails(expected: str, *arguments: str | Path) -> None:
        text = f"{NUMBER[expected]} {STATUS[expected]}\n"
        assert run(program, *arguments, status=1) == text

    wrong = NUMBER["ARGUMENT"]
    expected = f"0 no error\n{wrong} {wrong} {wrong} {wrong}\nno such status\n"
    assert run(program, "mixed.weights", "0") == expected
    fails("ARGUMENT", "NULL", "1")
    fails("ARGUMENT", "mixed.weights", "-1")
    fails("NO_FILE", tmp_path / "none", "1")
    fails("NO_FILE", tmp_path / "none" / "none", "1")
    damaged = tmp_path / "damaged"
    changed = bytearray(good)
    for data in (b"", good[:100], good[:-1], good + b"\0", bytes(len(good))):
        damaged.write_bytes(data)
        fails("WRONG_WEIGHTS", damaged, "1")
    for at in (0, 15, 17, 24, 55):  # magic, size, digest
        changed[:] = good
        changed[at] ^= 1
        damaged.write_bytes(changed)
        fails("WRONG_WEIGHTS", damaged, "1")
    fails("WRONG_WEIGHTS", tmp_path, "1")  # a folder
    fails("NO_MEMORY", "mixed.weights", "1", "4096")
    fails("NO_MEMORY", "mixed.weights", "1", str(emitted.model.arena_bytes + (1 << 16)))
    fails("NO_THREADS", "mixed.weights", "2", str(emitted.model.arena_bytes + (1 << 20)))


@needs_compiler
def test_another_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every word of features is looked at, and bits that no processor has are missed."""
    import nnefc.emit.embedding

    model = compiled(tmp_path, TINY)
    needed: list[int] = []

    def features(_: object) -> list[int]:
        return needed

    monkeypatch.setattr(nnefc.emit.embedding, "needed", features)
    for word in range(FEATURE_WORDS):
        needed = [0] * FEATURE_WORDS
        needed[word] = 1 << 62
        folder = tmp_path / str(word)
        model.emit_c(folder)
        compile_c("main.c", "tiny.o", "-o", folder / "example", *LIBRARIES)
        text = run(folder / "example", status=1)
        assert text == f"tiny_create: {STATUS['PROCESSOR']}\n"


# -- files


@of("mixed")
def test_weights_begin_as_documented(emitted: Emitted) -> None:
    import hashlib

    data = (emitted.folder / "mixed.weights").read_bytes()
    assert data[:16] == b"nnefc weights 1\n"
    assert int.from_bytes(data[16:24], "little") == len(data)
    assert data[24:56] == hashlib.blake2b(data[4096:], digest_size=32).digest()


EXPORTED = {"create", "run", "threads", "destroy", "status_text", "input_info", "output_info"}
_LIBRARY = """
open lseek close mmap munmap madvise memcpy getauxval sched_getaffinity sched_yield sched_getcpu
syscall pthread_mutex_lock pthread_mutex_unlock pthread_create pthread_join pthread_sigmask
acos acosh asin asinh atan atanh cos cosh exp log log1p log2 pow sin sinh tan tanh
"""
ALLOWED = set(_LIBRARY.split())
"""Of the C library."""


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "aarch64"])
@pytest.mark.parametrize("document", ["mixed", "counter"])
def test_symbols(tmp_path: Path, target: str, document: str) -> None:
    made = compiled(tmp_path, DOCUMENTS[document]).emit_c(tmp_path / "c", target=target)
    data = (tmp_path / "c" / f"{document}.o").read_bytes()
    symbols = elf.symbols(data)
    more = {"reset", "state", "state_info"} if document == "counter" else set[str]()
    defined = {s.name for s in symbols if s.is_global and s.section}
    assert defined == {f"{document}_{name}" for name in EXPORTED | more}
    assert {s.name for s in symbols if not s.section} <= ALLOWED
    assert all(s.is_global for s in symbols if not s.section)
    assert not any(s.name.lower().startswith(("py", "_py", "numba")) for s in symbols)
    writable, executable = 1, 4
    flags = [section.flags for section in elf.sections(data) if section.size]
    assert not any(f & writable for f in flags)
    assert sum(bool(f & executable) for f in flags) == 1
    assert elf.machine(data) == (183 if target == "aarch64" else elf.machine(data))
    if TABLE.get(target, host()).triple != host().triple:
        assert f"lib{document}.so" not in made or shutil.which("aarch64-linux-gnu-gcc")


@needs_compiler
@of("tiny", "mixed", "counter", "kinds")
def test_headers_are_c_and_cpp(emitted: Emitted) -> None:
    text = f'#include "{emitted.name}.h"\n#include "{emitted.name}.h"\n'
    call = f"{emitted.name}_status_text({emitted.name.upper()}_OK)"
    text += f"int main(void) {{ return {call}[0] != 'n'; }}\n"
    (emitted.folder / "face.c").write_text(text)
    (emitted.folder / "face.cpp").write_text(text)
    emitted.build("face.c", "face")
    if CXX is None:
        pytest.skip("there is no C++ compiler")
    options = (*WARNINGS, "-std=c++98", "-Wno-long-long")
    subprocess.run(
        [CXX, *options, "face.cpp", f"{emitted.name}.o", "-o", "face++", *LIBRARIES],
        cwd=emitted.folder,
        check=True,
    )
    subprocess.run([emitted.folder / "face++"], check=True)


@needs_compiler
@of("mixed")
def test_shared_library(emitted: Emitted) -> None:
    assert "libmixed.so" in emitted.files
    program = emitted.folder / "dynamic"
    compile_c("main.c", "-o", program, "-L.", "-lmixed", "-Wl,-rpath,$ORIGIN")
    expected = results(emitted.model)
    for y, got in zip(expected, run_main(program, 2, inputs(emitted.model), expected)):
        assert got.tobytes() == y.tobytes()


@needs_compiler
@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake")
@of("counter")
def test_cmake(emitted: Emitted, tmp_path: Path) -> None:
    for arguments in (["-S", emitted.folder, "-B", tmp_path], ["--build", tmp_path]):
        subprocess.run(["cmake", *arguments], check=True, capture_output=True)
    assert "first result" in run(tmp_path / "counter-example")


@needs_compiler
def test_two_models_in_one_program(tmp_path: Path) -> None:
    model = compiled(tmp_path, TINY)
    source = '#include "one.h"\n#include "two.h"\nint main(void) { return 0; }\n'
    for name in ("one", "two"):
        model.emit_c(tmp_path / name, name=name)
    (tmp_path / "both.c").write_text(source)
    objects = ["one/one.o", "two/two.o"]
    compile_c(*WARNINGS, "-Ione", "-Itwo", "both.c", *objects, *LIBRARIES, at=tmp_path)


def test_a_linker_that_fails_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = compiled(tmp_path, TINY)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "libtiny.so" not in model.emit_c(tmp_path / "none")
    (tmp_path / "cc").write_text("#!/bin/sh\necho out of ink >&2\nexit 3\n")
    (tmp_path / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), "/bin"]))
    with pytest.warns(nnefc.NnefWarning, match=r"out of ink.*\[artifact/linker\]"):
        made = model.emit_c(tmp_path / "failed")
    assert made == ["CMakeLists.txt", "main.c", "tiny.h", "tiny.o"]


def test_a_folder_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = compiled(tmp_path, TINY)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    with pytest.raises(nnefc.NnefError) as caught:
        model.emit_c(tmp_path / "full")
    assert caught.value.errors[0].rule == "data/write"
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["mine"]
    with pytest.raises(nnefc.NnefError, match="no instruction set"):
        model.emit_c(tmp_path / "c", target="pdp-11")
    with pytest.raises(nnefc.NnefError, match="cannot begin the names") as caught:
        model.emit_c(tmp_path / "c", name="my-net")
    assert caught.value.errors[0].rule == "input/option"

    def fail(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr("nnefc.emit.folder.header", fail)
    with pytest.raises(ZeroDivisionError):
        model.emit_c(tmp_path / "c")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["full", "graph.nnef"]


def test_the_same_model_gives_the_same_files(tmp_path: Path) -> None:
    model = compiled(tmp_path, MIXED)
    names = model.emit_c(tmp_path / "a")
    assert model.emit_c(tmp_path / "b") == names
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


# -- the command


def test_compile_emits_c(cli: Cli, tmp_path: Path) -> None:
    document = write(tmp_path, MIXED)
    options = ("--random-weights", 3, "--emit", "c")
    result = cli("compile", document, *options, "-o", tmp_path / "c", "--name", "net")
    assert result.status == 0, result.err
    model = compiled(tmp_path, MIXED)
    names = model.emit_c(tmp_path / "other", name="net")
    assert f"{tmp_path / 'c'}: CMakeLists.txt (" in result.out
    for name in names:
        assert (tmp_path / "c" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    more = ("-o", tmp_path / "arm", "--target", "aarch64", "--json")
    result = cli("compile", document, *options, *more)
    emitted = json.loads(result.out)["emitted"]
    assert emitted["target"] == "aarch64"
    assert emitted["path"] == str(tmp_path / "arm")
    for name, nbytes in emitted["files"].items():
        assert (tmp_path / "arm" / name).stat().st_size == nbytes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--emit", "rust", "-o", "c"], "--emit rust: this is not known [input/option]"),
        (["--emit", "c"], "there is no folder to write into [input/option]"),
        (["--name", "net"], "--name net: nothing gets a name [input/option]"),
        (["--emit", "c", "-o", "c", "--name", "1"], "cannot begin the names of C functions"),
        (["--emit", "c", "-o", "no/c"], "its folder is not there [data/write]"),
        (["--emit", "c", "-o", "full"], "this is there, and no empty folder [data/write]"),
        (["--emit", "c", "-o", "c", "--target", "native,aarch64"], "an object has code for one"),
        (["--emit", "c", "-o", "c", "--target", "vax"], "no instruction set 'vax'"),
    ],
)
def test_wrong_options(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    result = cli("compile", "there-is-no-such-model", *options)
    assert result.status != 0
    assert message in result.err
    assert [p.name for p in tmp_path.iterdir()] == ["full"]


# -- names


def test_identifiers() -> None:
    names = ["x", "X", "int", "a/b.c", "a_b_c", "7", "äh", "", "class"]
    found = ["x", "X_2", "int_", "a_b_c", "a_b_c_2", "x7", "h", "x_3", "class_"]
    assert identifiers(names) == found


def test_what_c_has_no_words_for_is_an_error() -> None:
    def face(shape: tuple[int, ...], dtype: Any) -> Interface:
        return Interface.of("net", [TensorSpec("x", shape, np.dtype(dtype))], [], [])

    with pytest.raises(nnefc.NnefError, match="no type of C"):
        face((1,), np.complex64)
    with pytest.raises(nnefc.NnefError, match="more than 8 dimensions"):
        face((1,) * 9, np.float32)
    text = header(face((), np.float32), "*/ evil", True)
    assert "#define NET_X_ITEMS 1\n" in text and "X_DIMS" not in text
