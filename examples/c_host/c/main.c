/* A host in C: links the compiled program, defines the functions that it calls, and calls it with tuples in XLA's form. */

#include <stdio.h>
#include "program.h"

/* The specification's example: f32[2] and f32[2,3] to f32[3,3]. */
void myfunc(void *out, const void **in) {
    const float *x = in[0];
    const float (*y)[3] = in[1];
    float (*z)[3] = out;
    int i, j;
    for (i = 0; i < 3; i++) {
        for (j = 0; j < 3; j++) {
            z[i][j] = i == j ? x[0] : 0;
        }
    }
    z[0][0] = x[1] + y[1][0];
}

/* A tuple (f32[2], (f32[2,3])) to the tuple (f32[2], (f32[2])): both are tables of pointers. */
void ends(void *out, const void **in) {
    void *operand[2], *result[2];
    const float *x, (*y)[3];
    float *first, *second;
    if (brolga_tuple_leaves("(a(a))", (void *)in[0], operand) != 2 || brolga_tuple_leaves("(a(a))", out, result) != 2) {
        return;
    }
    x = operand[0];
    y = (const float(*)[3])operand[1];
    first = result[0];
    second = result[1];
    first[0] = x[1];
    first[1] = x[0];
    second[0] = y[0][0];
    second[1] = y[1][2];
}

int main(void) {
    float x[2] = {1, 2}, y[2][3] = {{10, 20, 30}, {40, 50, 60}};
    float z[3][3], s[2], first[2], second[2];
    _Alignas(64) char workspace[PROGRAM_WORKSPACE_BYTES(1) + 1];
    /* The parameter and the result as tuples, made of arrays that stay where they are. */
    void *inputs[] = {x, y}, *outputs[] = {z, s, first, second};
    void *input_tables[3], *output_tables[7];
    void *parameter = brolga_tuple_build("(a(a))", inputs, input_tables);
    void *result = brolga_tuple_build("(a(a(a(a))))", outputs, output_tables);
    /* The program takes the arrays of its tuples, depth first. */
    void *leaves[PROGRAM_PARAMETERS], *results[PROGRAM_RESULTS];
    int status;
    if (brolga_tuple_leaves("(a(a))", parameter, leaves) != PROGRAM_PARAMETERS) return 1;
    if (brolga_tuple_leaves("(a(a(a(a))))", result, results) != PROGRAM_RESULTS) return 2;
    status = program((const void *const *)leaves, results, workspace, NULL);
    if (status != BROLGA_OK) return 3;
    printf("myfunc: %g %g %g\n", z[0][0], z[1][1], z[2][2]);
    printf("sum: %g %g\n", s[0], s[1]);
    printf("ends: %g %g, %g %g\n", first[0], first[1], second[0], second[1]);
    return 0;
}
