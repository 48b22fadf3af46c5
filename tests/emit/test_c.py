"""Models for C programs: the example gives Python's results, and files are as documented."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc.kernels.target.isa import TABLE, host
from tests.helpers.artifacts import elf
from tests.helpers.artifacts.c_programs import (
    CXX,
    DOCUMENTS,
    LIBRARIES,
    WARNINGS,
    Emitted,
    compile_c,
    needs_compiler,
    of,
    run,
    run_main,
)
from tests.helpers.artifacts.emulated import emulated_program, needs_emulator
from tests.helpers.artifacts.saved import MIXED, TINY, compiled, inputs, results


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
def test_the_sliced_document_has_slices(emitted: Emitted) -> None:
    table = emitted.model.plan.table
    assert table.size > table.slices, "another document is needed"


@needs_compiler
@of("mixed")
def test_code_for_older_instruction_sets_runs(emitted: Emitted, tmp_path: Path) -> None:
    emitted.model.emit_c(tmp_path / "c", target="x86-64-v2")
    program = tmp_path / "c" / "example"
    compile_c("main.c", "mixed.o", "-o", program, *LIBRARIES)
    expected = results(emitted.model)
    for y, got in zip(expected, run_main(program, 2, inputs(emitted.model), expected)):
        np.testing.assert_allclose(got, y, rtol=1e-4, atol=1e-4 * abs(y).max())


@needs_emulator
@of("mixed", "counter", "kinds")
def test_code_for_another_architecture_runs(emitted: Emitted, tmp_path: Path) -> None:
    """The test needs Debian's gcc-aarch64-linux-gnu and qemu-user."""
    folder = tmp_path / "c"
    emitted.model.reset()
    emitted.model.emit_c(folder, target="aarch64")
    program = emulated_program(folder, emitted.name)
    expected = results(emitted.model)
    for y, got in zip(expected, run_main(program, 2, inputs(emitted.model), expected)):
        np.testing.assert_allclose(got, y, rtol=1e-4, atol=1e-4 * abs(y).max())


@needs_compiler
def test_a_loaded_model_gives_the_results_of_python(tmp_path: Path) -> None:
    model = compiled(tmp_path, MIXED)
    model.save(tmp_path / "net.nnefc")
    nnefc.load(tmp_path / "net.nnefc").emit_c(tmp_path / "c", name="Other_1")
    program = tmp_path / "c" / "example"
    compile_c("main.c", "Other_1.o", "-o", program, *LIBRARIES)
    expected = results(model)
    for y, got in zip(expected, run_main(program, 1, inputs(model), expected)):
        assert got.tobytes() == y.tobytes()


EMPTY = """\
version 1.0;
extension tract_registry tract_core;
graph empty( x, z ) -> ( a, b )
{
    x = tract_core_external(shape = [0, 4], datum_type = 'f32');
    z = tract_core_external(shape = [3, 4], datum_type = 'f32');
    a = concat([x, z], axis = 0);
    b = matmul(x, z, transposeB = true);
}
"""
STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")


@needs_compiler
@pytest.mark.parametrize("document", [EMPTY, EMPTY.replace("[3, 4]", "[0, 4]")])
def test_tensors_without_items(tmp_path: Path, document: str) -> None:
    model = compiled(tmp_path, document)
    model.emit_c(tmp_path / "c", name="empty")
    program = tmp_path / "c" / "example"
    compile_c(*STRICT, "main.c", "empty.o", "-o", program, *LIBRARIES)
    expected = results(model)
    for y, got in zip(expected, run_main(program, 1, inputs(model), expected)):
        assert got.tobytes() == y.tobytes()


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
acos acosh asin asinh atan atanh cos cosh erf exp fmod log log1p log2 pow sin sinh tan tanh
"""
ALLOWED = set(_LIBRARY.split())
"""Functions of the C library that objects may refer to."""


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "aarch64"])
@pytest.mark.parametrize("document", ["mixed", "counter"])
def test_only_documented_symbols_are_visible(tmp_path: Path, target: str, document: str) -> None:
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
def test_the_shared_library_can_be_loaded(emitted: Emitted) -> None:
    assert "libmixed.so" in emitted.files
    program = emitted.folder / "dynamic"
    compile_c("main.c", "-o", program, "-L.", "-lmixed", "-Wl,-rpath,$ORIGIN")
    expected = results(emitted.model)
    for y, got in zip(expected, run_main(program, 2, inputs(emitted.model), expected)):
        assert got.tobytes() == y.tobytes()


@needs_compiler
@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake")
@of("counter")
def test_the_cmake_file_builds_the_example(emitted: Emitted, tmp_path: Path) -> None:
    for arguments in (["-S", emitted.folder, "-B", tmp_path], ["--build", tmp_path]):
        subprocess.run(["cmake", *arguments], check=True, capture_output=True)
    assert "first result" in run(tmp_path / "counter-example", "-t", "1")


@needs_compiler
def test_two_models_link_into_one_program(tmp_path: Path) -> None:
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
    with pytest.raises(nnefc.NnefError, match="unknown instruction set"):
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
