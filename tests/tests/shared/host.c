/* Opens shared libraries that Brolga wrote and runs their programs: host LIBRARY NAME[:SIZE,SIZE...] ...
   Standard input has the elements of all parameters in the order of their indices, one program's behind the other's; those of
   the results go to standard output. In memory they lie as the layouts say. */

#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include "program.h"

/* What custom calls find here. */
void twice(void *out, const void **in);
void twice(void *out, const void **in) {
    const float *x = in[0];
    float *y = out;
    int i;
    for (i = 0; i < 4; i++) y[i] = 2 * x[i];
}

struct program {
    const brolga_descriptor *descriptor;
    brolga_entry entry;
    uint64_t (*workspace_size)(uint32_t);
};

/* ISO C has no conversion of what dlsym returns into a pointer to a function. */
static void symbol(void *library, const char *name, const char *suffix, void *function) {
    char full[256];
    void *found;
    snprintf(full, sizeof full, "%s%s", name, suffix);
    found = dlsym(library, full);
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    memcpy(function, &found, sizeof found);
}

static struct program open_program(const char *path, char *name) {
    struct program p;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    char *sizes = strchr(name, ':');
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    if (!sizes) {
        symbol(library, name, "", &p.entry);
        symbol(library, name, "_descriptor", &p.descriptor);
    } else {
        brolga_entry (*select)(const int64_t *, const brolga_descriptor **);
        int64_t wanted[8];
        int count = 0;
        *sizes++ = 0;
        symbol(library, name, "_select", &select);
        while (*sizes && count < 8) {
            wanted[count++] = strtoll(sizes, &sizes, 10);
            if (*sizes == ',') sizes++;
        }
        p.descriptor = NULL;
        p.entry = select(wanted, &p.descriptor);
        if (!p.entry || !p.descriptor) {
            fprintf(stderr, "%s was not compiled for that size\n", name);
            exit(2);
        }
        name = (char *)brolga_at(p.descriptor, p.descriptor->entry_offset);
    }
    symbol(library, name, "_workspace_size", &p.workspace_size);
    return p;
}

static void *room(uint64_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes + 64)) exit(3);
    return memory;
}

/* Reads or writes the elements of an array, each at its place in the buffer. */
static int elements(const brolga_descriptor *d, const brolga_leaf *leaf, char *memory, FILE *from, FILE *to) {
    const int64_t *dims = brolga_dimensions(d, leaf);
    const size_t size = leaf->element_bits / 8;
    int64_t strides[8], count = 1, k;
    uint32_t i;
    brolga_strides(d, leaf, strides);
    for (i = 0; i < leaf->rank; i++) count *= dims[i];
    for (k = 0; k < count; k++) {
        int64_t rest = k, at = 0;
        for (i = leaf->rank; i-- > 0; rest /= dims[i]) at += rest % dims[i] * strides[i];
        if (from && fread(memory + at * (int64_t)size, size, 1, from) != 1) return 0;
        if (to && fwrite(memory + at * (int64_t)size, size, 1, to) != 1) return 0;
    }
    return 1;
}

static int run(const struct program *p) {
    const brolga_descriptor *d = p->descriptor;
    const void *params[16];
    void *results[16];
    brolga_context cx = brolga_plain_context();
    uint32_t i;
    int status;
    if (p->workspace_size(1) != brolga_workspace_size(d, 1) || p->workspace_size(7) != brolga_workspace_size(d, 7)) return 4;
    for (i = 0; i < d->parameter_count; i++) {
        const brolga_leaf *leaf = brolga_parameter(d, i);
        void *memory = memset(room(leaf->bytes), 0xff, leaf->bytes);
        if (!elements(d, leaf, memory, stdin, NULL)) return 5;
        params[i] = memory;
    }
    for (i = 0; i < d->result_count; i++) results[i] = room(brolga_result(d, i)->bytes);
    status = p->entry(params, results, room(p->workspace_size(1)), &cx);
    if (status) return 6;
    for (i = 0; i < d->result_count; i++) {
        if (!elements(d, brolga_result(d, i), results[i], NULL, stdout)) return 7;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct program programs[8];
    int i, count = 0;
    for (i = 1; i + 1 < argc && count < 8; i += 2) programs[count++] = open_program(argv[i], argv[i + 1]);
    for (i = 0; i < count; i++) {
        int failed = run(&programs[i]);
        if (failed) return failed;
    }
    return 0;
}
