"""C programs that call models: states, threads, errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnefc.kernels.embedded.model_layout import FEATURE_WORDS, STATUS
from nnefc.runtime.machine.resources import usable_cpus
from tests.helpers.artifacts.c_programs import (
    LIBRARIES,
    Emitted,
    compile_c,
    needs_compiler,
    of,
    run,
)
from tests.helpers.artifacts.saved import TINY, compiled

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
def test_instances_have_independent_states(emitted: Emitted) -> None:
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


# -- indices out of range

_INDEXED = r"""
#include "indexed.h"
#include <stdio.h>
int main(void) {
    int threads, i;
    for (threads = 1; threads < 3; threads++) {
        indexed_model *net = indexed_create(NULL, threads, NULL);
        int32_t ids[2][INDEXED_IDS_ITEMS] = {{0, 9, -10}, {1, 10, 2}};
        float rows[INDEXED_ROWS_ITEMS], *sum = indexed_state(net, 0);
        indexed_inputs inputs;
        indexed_outputs outputs;
        outputs.rows = rows;
        for (i = 0; i < 4; i++) {
            int status;
            inputs.ids = ids[i % 2];
            status = (int)indexed_run(net, &inputs, &outputs);
            printf("%d %.9g\n", status, sum[1]);
        }
        indexed_destroy(net);
    }
    return 0;
}
"""


@needs_compiler
@of("indexed")
def test_a_wrong_index_is_a_status_and_changes_no_variable(emitted: Emitted) -> None:
    (emitted.folder / "indexed.c").write_text(_INDEXED)
    lines = run(emitted.build("indexed.c", "indexed")).splitlines()
    emitted.model.reset()  # other tests call it
    first, step = emitted.model.variables["sum"][0, 1], emitted.model.variables["table"][0, 1]
    sums = np.array([first + step, first + step, first + step + step, first + step + step])
    for part in (lines[:4], lines[4:]):
        rows = np.array([line.split() for line in part], np.float32)
        np.testing.assert_array_equal(rows[:, 0], [0, NUMBER["INDEX"], 0, NUMBER["INDEX"]])
        np.testing.assert_allclose(rows[:, 1], sums, rtol=1e-6)


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
def test_threads_with_own_and_shared_instances(emitted: Emitted) -> None:
    (emitted.folder / "crowd.c").write_text(_CROWD)
    assert run(emitted.build("crowd.c", "crowd")) == "2\n0 wrong of 120\n"


_NARROWED = r"""
#define _GNU_SOURCE
#include "mixed.h"
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static float x[MIXED_X_ITEMS], y[MIXED_Y_ITEMS], z[MIXED_Z_ITEMS];
static int32_t n[MIXED_N_ITEMS];
static int bound(cpu_set_t *narrow) { /* the threads; those on one processor if not to narrow */
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    int count = 0;
    while ((entry = readdir(tasks))) {
        int thread = atoi(entry->d_name);
        cpu_set_t found;
        if (thread == 0) continue;
        if (narrow) count += sched_setaffinity(thread, sizeof *narrow, narrow) == 0;
        else if (sched_getaffinity(thread, sizeof found, &found) == 0)
            count += CPU_COUNT(&found) == 1;
    }
    closedir(tasks);
    return count;
}
int main(void) {
    mixed_model *net = mixed_create("mixed.weights", 2, NULL);
    mixed_inputs inputs;
    mixed_outputs outputs;
    cpu_set_t one;
    int i, k, narrowed = 0;
    inputs.x = x;
    outputs.y = y;
    outputs.z = z;
    outputs.n = n;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    for (i = 0; i < 4; i++) {
        if (i == 1) {
            for (k = 0; k < 1000 && bound(NULL); k++) usleep(10000); /* a worker may be late */
            printf("%d before, ", bound(NULL));
            narrowed = bound(&one);
        }
        mixed_run(net, &inputs, &outputs);
        usleep(50000);
    }
    printf("%d of %d after\n", bound(NULL), narrowed);
    mixed_destroy(net);
    return 0;
}
"""


@needs_compiler
@pytest.mark.skipif(usable_cpus() < 2, reason="needs two processors")
@of("mixed")
def test_affinity_masks_of_threads_are_kept(emitted: Emitted) -> None:
    (emitted.folder / "narrowed.c").write_text(_NARROWED)
    assert run(emitted.build("narrowed.c", "narrowed")) == "0 before, 2 of 2 after\n"


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
def test_every_status_is_returned(emitted: Emitted, tmp_path: Path) -> None:
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
def test_a_processor_without_required_features_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each word of features is checked; a model that requires an unknown feature is refused."""
    import nnefc.emit.embed_static

    model = compiled(tmp_path, TINY)
    needed: list[int] = []

    def features(_: object) -> list[int]:
        return needed

    monkeypatch.setattr(nnefc.emit.embed_static, "required_features", features)
    for word in range(FEATURE_WORDS):
        needed = [0] * FEATURE_WORDS
        needed[word] = 1 << 62
        folder = tmp_path / str(word)
        model.emit_c(folder)
        compile_c("main.c", "tiny.o", "-o", folder / "example", *LIBRARIES)
        text = run(folder / "example", "-t", "1", status=1)
        assert text == f"tiny_create: {STATUS['PROCESSOR']}\n"
