/* Calls both programs from C: the linked functions themselves, and through brolga-capi. Prints what the crate's main.rs does. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "block.h"
#include "brolga.h"
#include "small.h"

static uint32_t number;
static float *filled(size_t bytes) {
    float *array = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!array) exit(1);
    for (size_t k = 0; k < bytes / sizeof *array; k++)
        array[k] = (float)(uint32_t)(number++ * UINT32_C(2654435761) >> 8) / 67108864.0f - 0.125f;
    return array;
}

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static uint64_t hash(const void *array, size_t bytes) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t k = 0; k < bytes; k++) h = (h ^ ((const unsigned char *)array)[k]) * UINT64_C(0x100000001b3);
    return h;
}

static void check(int32_t status) {
    if (status == BROLGA_OK) return;
    fprintf(stderr, "status %d: %s\n", (int)status, status < 0 ? brolga_error_message() : "");
    exit(1);
}

/* Nanoseconds of a call: the least of many batches, each shorter than the time that a system gives a process at once. */
#define LEAST(least, calls, call)                     \
    do {                                              \
        for (int batch = 0; batch < 150; batch++) {   \
            double start = now();                     \
            for (int k = 0; k < (calls); k++) check(call); \
            double each = (now() - start) / (calls);  \
            if (batch == 0 || each < least) least = each; \
        }                                             \
    } while (0)

static brolga_session *session(const brolga_descriptor *descriptor, brolga_entry entry) {
    brolga_program *program;
    brolga_session *made;
    check(brolga_program_from_linked(descriptor, entry, &program));
    check(brolga_session_create(program, NULL, &made));
    brolga_program_destroy(program);
    return made;
}

int main(void) {
    const size_t bytes[] = {BLOCK_PARAMETER_0_BYTES, BLOCK_PARAMETER_1_BYTES, BLOCK_PARAMETER_2_BYTES, BLOCK_PARAMETER_3_BYTES,
                            BLOCK_PARAMETER_4_BYTES, BLOCK_PARAMETER_5_BYTES, BLOCK_PARAMETER_6_BYTES, BLOCK_PARAMETER_7_BYTES};
    const void *in[BLOCK_PARAMETERS];
    brolga_input inputs[BLOCK_PARAMETERS];
    for (int i = 0; i < BLOCK_PARAMETERS; i++) {
        in[i] = filled(bytes[i]);
        inputs[i] = (brolga_input){in[i], bytes[i]};
    }
    float *y = aligned_alloc(64, BLOCK_RESULT_0_BYTES);
    void *workspace = aligned_alloc(64, (BLOCK_WORKSPACE_BYTES(1) + 63) / 64 * 64);
    if (!y || !workspace) return 1;
    void *out[] = {y};
    float four[4] = {1, 1, 1, 1}, eight[4];
    const void *small_in[] = {four};
    void *small_out[] = {eight};
    double overhead = 0, time = 0;

    LEAST(overhead, 20000, small(small_in, small_out, workspace, 0));
    LEAST(time, 2, block(in, out, workspace, 0));
    printf("c-linked %.1f %.1f %016llx\n", overhead, time / 1e3, (unsigned long long)hash(y, BLOCK_RESULT_0_BYTES));

    brolga_session *small_session = session(&small_descriptor, small), *block_session = session(&block_descriptor, block);
    brolga_input small_inputs[] = {{four, sizeof four}};
    brolga_output small_outputs[] = {{eight, sizeof eight}}, outputs[] = {{y, BLOCK_RESULT_0_BYTES}};
    memset(y, 0, BLOCK_RESULT_0_BYTES);
    LEAST(overhead, 20000, brolga_session_run(small_session, small_inputs, 1, small_outputs, 1));
    LEAST(time, 2, brolga_session_run(block_session, inputs, BLOCK_PARAMETERS, outputs, 1));
    printf("c-capi %.1f %.1f %016llx\n", overhead, time / 1e3, (unsigned long long)hash(y, BLOCK_RESULT_0_BYTES));
    brolga_session_destroy(small_session);
    brolga_session_destroy(block_session);
    return 0;
}
