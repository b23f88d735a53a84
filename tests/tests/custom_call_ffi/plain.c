/* The specification's example of a custom call, in C. */

void brolga_test_myfunc(void *out, const void **in) {
    const float *x = in[0];
    const float (*y)[3] = in[1];
    float (*z)[3] = out;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            z[i][j] = 0;
        }
    }
    z[0][0] = x[1] + y[1][0];
}
