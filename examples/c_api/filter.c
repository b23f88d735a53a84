/* A program that reads and reports while it runs, and calls a function of ours: filter OBJECT. */

#include <stdio.h>
#include <stdlib.h>
#include "brolga.h"

static void check(int32_t status) {
    if (status == BROLGA_OK) return;
    fprintf(stderr, "error %d: %s\n", status, brolga_error_message());
    exit(1);
}

/* Multiplies by the attribute `factor`, and counts its calls. */
static int32_t scale(void *user, brolga_call *call) {
    brolga_array x, y;
    double factor;
    uint64_t k;
    if (brolga_call_operand_count(call) != 1 || brolga_call_operand(call, 0, &x) || brolga_call_result(call, 0, &y) ||
        brolga_call_number(call, "factor", &factor)) {
        brolga_call_fail(call, brolga_error_message());
        return 1;
    }
    for (k = 0; k < x.bytes / sizeof(float); k++) ((float *)y.data)[k] = (float)factor * ((const float *)x.data)[k];
    ++*(int *)user;
    return 0;
}

int main(int argc, char **argv) {
    brolga_custom_calls *calls;
    brolga_object *object;
    brolga_program *program;
    brolga_infeed *infeed;
    brolga_outfeed *outfeed;
    brolga_options options;
    brolga_needed_call needed;
    float start[4] = {1, 2, 3, 4}, mean[4];
    brolga_input input = {start, sizeof start};
    brolga_output output = {mean, sizeof mean};
    const int64_t dimensions[] = {4};
    brolga_value *value;
    int called = 0, i;
    int32_t status;

    if (argc < 2) return 2;
    check(brolga_custom_calls_create(&calls));
    check(brolga_custom_calls_register(calls, "scale", scale, &called));
    check(brolga_object_load_file(argv[1], calls, BROLGA_LOAD_STRICT_SYMBOLS, &object));
    check(brolga_object_program(object, 0, &program));
    brolga_custom_calls_destroy(calls);
    brolga_object_destroy(object);
    check(brolga_program_needed_call(program, 0, &needed));
    printf("calls '%s' at line %u, services: %s\n", needed.symbol, needed.line, brolga_program_services(program));

    check(brolga_infeed_create(4, &infeed));
    check(brolga_outfeed_create(4, &outfeed));
    for (i = 0; i < 3; i++) {
        float values[4] = {1, 2, 4, 8};
        brolga_array array;
        memset(&array, 0, sizeof array);
        array.element_type = BROLGA_F32;
        array.rank = 1;
        array.dimensions = dimensions;
        values[0] = (float)i;
        array.data = values;
        array.bytes = sizeof values;
        check(brolga_infeed_push(infeed, &array, 1, 0, 0));
    }
    check(brolga_infeed_close(infeed));

    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.infeed = infeed;
    options.outfeed = outfeed;
    options.feed_timeout = 10;
    check(brolga_program_run(program, &options, &input, 1, &output, 1));
    for (i = 0; i < 3; i++) {
        brolga_array array;
        const float *v;
        check(brolga_outfeed_pop(outfeed, 1, &value));
        check(brolga_value_array(value, 0, &array));
        v = array.data;
        printf("step: %g %g %g %g\n", v[0], v[1], v[2], v[3]);
        brolga_value_destroy(value);
    }
    printf("mean: %g %g %g %g, %d calls\n", mean[0], mean[1], mean[2], mean[3], called);

    /* The queue is closed and empty: the run fails, and says why. */
    status = brolga_program_run(program, &options, &input, 1, &output, 1);
    printf("error %d, status %d: %s\n", status, brolga_error_program_status(), brolga_error_message());
    status = brolga_outfeed_pop(outfeed, 0.01, &value);
    printf("error %d: %s\n", status, brolga_error_message());
    brolga_infeed_destroy(infeed);
    brolga_outfeed_destroy(outfeed);
    brolga_program_destroy(program);
    return 0;
}
