/* Loads an object that `brolga compile` wrote, says what it takes and gives, and runs it: run OBJECT [THREADS]. */

#include <stdio.h>
#include <stdlib.h>
#include "brolga.h"

static void check(int32_t status) {
    if (status == BROLGA_OK) return;
    fprintf(stderr, "error %d: %s\n", status, brolga_error_message());
    exit(1);
}

static void describe(const char *what, const brolga_array *array) {
    uint32_t i;
    printf("%s '%s' of type %u [", what, array->name, array->element_type);
    for (i = 0; i < array->rank; i++) printf(i ? ",%lld" : "%lld", (long long)array->dimensions[i]);
    printf("], %llu bytes\n", (unsigned long long)array->bytes);
}

int main(int argc, char **argv) {
    brolga_object *object;
    brolga_program *program;
    brolga_session *session;
    brolga_pool *pool;
    brolga_options options;
    brolga_input inputs[8];
    brolga_output outputs[8];
    size_t i, k, parameters, results;
    int32_t status;

    if (argc < 2) return 2;
    check(brolga_object_load_file(argv[1], NULL, 0, &object));
    check(brolga_object_program(object, 0, &program));
    brolga_object_destroy(object);
    parameters = brolga_program_parameter_count(program);
    results = brolga_program_result_count(program);
    printf("program '%s' of module '%s'\n", brolga_program_name(program), brolga_program_module(program));
    if (parameters > 8 || results > 8) return 2;
    for (i = 0; i < parameters; i++) {
        brolga_array array;
        float *values;
        check(brolga_program_parameter(program, i, &array));
        describe("parameter", &array);
        values = malloc(array.bytes);
        if (!values || array.element_type != BROLGA_F32) return 2;
        for (k = 0; k < array.bytes / sizeof *values; k++) values[k] = (float)(k % 17) / 8 - 1;
        inputs[i].data = values;
        inputs[i].bytes = array.bytes;
    }
    for (i = 0; i < results; i++) {
        brolga_array array;
        check(brolga_program_result(program, i, &array));
        describe("result", &array);
        outputs[i].data = malloc(array.bytes);
        outputs[i].bytes = array.bytes;
        if (!outputs[i].data) return 2;
    }

    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    check(brolga_pool_create(argc > 2 ? (uint32_t)atoi(argv[2]) : 1, &pool));
    options.pool = pool;
    check(brolga_session_create(program, &options, &session));
    /* The session keeps what it needs. */
    brolga_pool_destroy(pool);
    brolga_program_destroy(program);

    /* What does not fit is said, and nothing runs. */
    inputs[0].bytes -= 4;
    status = brolga_session_run(session, inputs, parameters, outputs, results);
    printf("error %d: %s\n", status, brolga_error_message());
    inputs[0].bytes += 4;
    status = brolga_session_run(session, inputs, parameters - 1, outputs, results);
    printf("error %d: %s\n", status, brolga_error_message());

    for (i = 0; i < 3; i++) check(brolga_session_run(session, inputs, parameters, outputs, results));
    brolga_session_destroy(session);
    for (i = 0; i < results; i++) {
        const float *values = outputs[i].data;
        printf("values:");
        for (k = 0; k < outputs[i].bytes / sizeof *values; k++) printf(" %.9g", values[k]);
        printf("\n");
        free(outputs[i].data);
    }
    for (i = 0; i < parameters; i++) free((void *)inputs[i].data);
    return 0;
}
