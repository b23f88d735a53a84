/* Runs the programs of a table, one after another: host INPUTS OUTPUTS FIRST. They are linked, or with LIBRARIES defined each comes
   from a shared library NAME.so.

   INPUTS has the buffers of all parameters of all programs. Each program from FIRST on runs twice, without a context where it needs
   none and with one that has parallel loops; OUTPUTS gets the status of each run, a byte, and its result buffers. Buffers have the
   alignment of their elements and no better one, and what lies behind them must stay as it is. */

#include <stdio.h>
#include <stdlib.h>
#include "programs.h"

#ifdef _WIN32
/* What C11 asks for is not there. */
#include <malloc.h>
#define aligned_alloc(alignment, size) _aligned_malloc(size, alignment)
#endif

struct program {
    const char *name;
    brolga_entry entry;
    const brolga_descriptor *descriptor;
};

#ifdef LIBRARIES
#include <dlfcn.h>
#define PROGRAM(name) {#name, NULL, NULL},
#else
#define PROGRAM(name) {#name, name, &name##_descriptor},
#endif

static struct program programs[] = {PROGRAMS};
static const size_t program_count = sizeof programs / sizeof programs[0];

enum { GUARD = 64, WORKERS = 3, MOST = 256 };

/* Statuses that no program returns. */
enum { LEFT_OUT = 200, BEYOND = 201 };

/* What custom calls find here: f32[101] to f32[101]. */
void twice(void *out, const void **in);
void twice(void *out, const void **in) {
    const float *x = in[0];
    float *y = out;
    int i;
    for (i = 0; i < 101; i++) y[i] = 2 * x[i];
}

static int32_t parallel_for(void *host, int64_t tasks, brolga_parallel_body body, void *arg) {
    int64_t task;
    (void)host;
    /* The last first: no task may rely on those before it. */
    for (task = tasks; task-- > 0;) {
        int32_t status = body(arg, task, task % WORKERS);
        if (status) return status;
    }
    return 0;
}

/* Memory with room for a guard behind it, `offset` bytes behind a cache line. */
static unsigned char *room(uint64_t bytes, uint64_t offset) {
    unsigned char *memory = aligned_alloc(64, (bytes + offset + GUARD + 63) / 64 * 64);
    if (!memory) exit(3);
    memset(memory, 0xee, bytes + offset);
    memset(memory + offset + bytes, 0xa5, GUARD);
    return memory + offset;
}

static int intact(const unsigned char *buffer, uint64_t bytes) {
    int i;
    for (i = 0; i < GUARD; i++) {
        if (buffer[bytes + i] != 0xa5) return 0;
    }
    return 1;
}

#ifdef LIBRARIES
/* ISO C has no conversion of what dlsym returns into a pointer to a function. */
static void symbol(void *library, const char *name, const char *suffix, void *function) {
    char full[256];
    void *found;
    snprintf(full, sizeof full, "%s%s", name, suffix);
    found = dlsym(library, full);
    if (!found) exit(4);
    memcpy(function, &found, sizeof found);
}

static void open_program(struct program *p) {
    char path[256];
    void *library;
    snprintf(path, sizeof path, "./%s.so", p->name);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(4);
    }
    symbol(library, p->name, "", &p->entry);
    symbol(library, p->name, "_descriptor", &p->descriptor);
}
#else
static void open_program(struct program *p) {
    (void)p;
}
#endif

static uint64_t element(const brolga_leaf *leaf) {
    return leaf->element_bits < 8 ? 1 : leaf->element_bits / 8;
}

static void run(const struct program *p, const unsigned char *inputs, const brolga_context *cx, FILE *outputs) {
    const brolga_descriptor *d = p->descriptor;
    unsigned char *params[MOST], *results[MOST], *workspace;
    const uint64_t size = brolga_workspace_size(d, cx ? cx->workers : 1);
    const int left_out = d->needed_services != 0 || d->parameter_count > MOST || d->result_count > MOST;
    int status;
    uint32_t i;
    if (left_out) {
        fputc(LEFT_OUT, outputs);
        return;
    }
    for (i = 0; i < d->parameter_count; i++) {
        const brolga_leaf *leaf = brolga_parameter(d, i);
        params[i] = room(leaf->bytes, element(leaf));
        memcpy(params[i], inputs, leaf->bytes);
        inputs += leaf->bytes;
    }
    for (i = 0; i < d->result_count; i++) {
        const brolga_leaf *leaf = brolga_result(d, i);
        results[i] = room(leaf->bytes, element(leaf));
    }
    for (i = 0; i < d->alias_count; i++) {
        const brolga_alias *alias = brolga_alias_at(d, i);
        if (alias->must) results[alias->result] = params[alias->parameter];
    }
    workspace = room(size, 0);
    status = p->entry((const void *const *)params, (void *const *)results, workspace, cx);
    for (i = 0; i < d->parameter_count; i++) {
        if (!intact(params[i], brolga_parameter(d, i)->bytes)) status = BEYOND;
    }
    for (i = 0; i < d->result_count; i++) {
        if (!intact(results[i], brolga_result(d, i)->bytes)) status = BEYOND;
    }
    if (!intact(workspace, size)) status = BEYOND;
    fputc(status, outputs);
    for (i = 0; i < d->result_count && !status; i++) fwrite(results[i], 1, brolga_result(d, i)->bytes, outputs);
}

int main(int argc, char **argv) {
    FILE *inputs, *outputs;
    size_t i, first;
    if (argc != 4 || !(inputs = fopen(argv[1], "rb")) || !(outputs = fopen(argv[2], "wb"))) return 2;
    first = strtoull(argv[3], NULL, 10);
    for (i = 0; i < program_count; i++) {
        const brolga_descriptor *d;
        brolga_context cx = brolga_plain_context();
        unsigned char *buffers;
        uint64_t bytes = 0;
        uint32_t k;
        open_program(&programs[i]);
        d = programs[i].descriptor;
        for (k = 0; k < d->parameter_count; k++) bytes += brolga_parameter(d, k)->bytes;
        buffers = malloc(bytes + 1);
        if (!buffers || fread(buffers, 1, bytes, inputs) != bytes) return 2;
        if (i >= first) {
            run(&programs[i], buffers, NULL, outputs);
            cx.workers = WORKERS;
            cx.parallel_for = parallel_for;
            run(&programs[i], buffers, &cx, outputs);
            /* Whatever comes next, this one is done. */
            if (fflush(outputs)) return 2;
        }
        free(buffers);
    }
    return 0;
}
