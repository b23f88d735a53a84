/* The C interface of Brolga's runtime. Made from the declarations in bindings/capi/src: do not edit. */

#ifndef BROLGA_H
#define BROLGA_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef BROLGA_ABI_H
#define BROLGA_ABI_H

/* Version of the interface. */
#define BROLGA_ABI_VERSION 1u

/* What a program or a service returns. Other values come from custom calls. */
enum brolga_status {
    BROLGA_OK = 0, /* success */
    BROLGA_INVALID_ARGUMENT = 1, /* an argument of a service is out of range */
    BROLGA_MISSING_SERVICE = 2, /* the context lacks a service that the program needs */
    BROLGA_SERVICE_FAILED = 3, /* a service failed */
    BROLGA_CUSTOM_CALL_FAILED = 4, /* a custom call failed */
    BROLGA_CANCELLED = 5, /* the run was cancelled */
    BROLGA_TIMED_OUT = 6, /* waiting for an infeed, a channel or another replica took too long */
    BROLGA_PANICKED = 7, /* the body of a parallel loop panicked */
    BROLGA_OUT_OF_MEMORY = 8, /* memory is exhausted */
    BROLGA_WRONG_ABI_VERSION = 9, /* the context was made for another version of the interface */
    BROLGA_WRONG_PROCESSOR = 10, /* the processor lacks instructions that the program was compiled for */
};

/* The codes of element types in a leaf. */
enum brolga_element_type {
    BROLGA_PRED = 1,
    BROLGA_S1 = 30,
    BROLGA_S2 = 26,
    BROLGA_S4 = 21,
    BROLGA_S8 = 2,
    BROLGA_S16 = 3,
    BROLGA_S32 = 4,
    BROLGA_S64 = 5,
    BROLGA_U1 = 31,
    BROLGA_U2 = 27,
    BROLGA_U4 = 22,
    BROLGA_U8 = 6,
    BROLGA_U16 = 7,
    BROLGA_U32 = 8,
    BROLGA_U64 = 9,
    BROLGA_F4E2M1FN = 32,
    BROLGA_F8E3M4 = 29,
    BROLGA_F8E4M3 = 28,
    BROLGA_F8E4M3B11FNUZ = 23,
    BROLGA_F8E4M3FN = 20,
    BROLGA_F8E4M3FNUZ = 25,
    BROLGA_F8E5M2 = 19,
    BROLGA_F8E5M2FNUZ = 24,
    BROLGA_F8E8M0FNU = 33,
    BROLGA_F16 = 10,
    BROLGA_BF16 = 16,
    BROLGA_F32 = 11,
    BROLGA_F64 = 12,
    BROLGA_C64 = 15,
    BROLGA_C128 = 18,
};

/* The body of a parallel loop: one task, on behalf of one worker. */
typedef int32_t (*brolga_parallel_body)(void *arg, int64_t task, int64_t worker);

/* Runs body(arg, task, worker) once for each task below tasks; a worker runs one task at a time and is below the
   context's number of workers. Returns 0, or the first failing body's status. */
typedef int32_t (*brolga_parallel_for)(void *host, int64_t tasks, brolga_parallel_body body, void *arg);

struct brolga_context;

/* A library service: brolga-runtime's, or yours. It returns 0 or a status. buffers holds a pointer for each array, operands
   first, all row-major; parameters is a list of words: their number, then
     a, and a attributes
     the number of operands, the number of results
     for each array its element type (enum brolga_element_type), its rank and its dimensions.
   infeed fills its results with the next value, outfeed takes the value that its operands are. The attributes of both: the
   line in the HLO text, 1 where the value is a tuple, then for each array its dimensions from the fastest-varying to the
   slowest, as the program names its layout. */
typedef int32_t (*brolga_service)(const struct brolga_context *cx, const int64_t *parameters, void *const *buffers,
                                  const void *function);

/* What a caller lends to a program for one call. Zero what you do not offer. */
typedef struct brolga_context {
    uint32_t size;          /* sizeof(brolga_context) */
    uint32_t abi_version;   /* BROLGA_ABI_VERSION */
    uint64_t random_seed;   /* of the stateful random number generators */
    void *host;             /* handed to each service */
    uint32_t workers;       /* how many the workspace has room for, 1 at least */
    uint32_t reserved;      /* 0 */
    brolga_parallel_for parallel_for;
    const void *unused[2];  /* 0 */
    void (*report)(void *host, const uint8_t *message, size_t length); /* takes the message of a failing service */
    const void *resources;  /* of brolga-runtime's own services; 0 where all services are yours */
    brolga_service fft; /* fast Fourier transforms */
    brolga_service cholesky; /* Cholesky factors of symmetric and Hermitian matrices */
    brolga_service triangular_solve; /* solutions of triangular systems */
    brolga_service lu; /* LU factors with partial pivoting */
    brolga_service qr; /* QR factors as Householder reflectors */
    brolga_service householder_product; /* the orthogonal matrix of Householder reflectors */
    brolga_service svd; /* singular values and vectors */
    brolga_service eigh; /* eigenvalues and eigenvectors of symmetric and Hermitian matrices */
    brolga_service eig; /* eigenvalues and eigenvectors of general matrices */
    brolga_service custom_call; /* custom calls with a status or a call frame */
    brolga_service infeed; /* the next value of the infeed queue */
    brolga_service outfeed; /* a value for the outfeed queue */
    brolga_service collective; /* exchanges with the other devices, and their numbers */
    brolga_service transfer; /* values sent to another device and received from one */
} brolga_context;

/* The fixed part of a descriptor. Offsets count from its first byte. */
typedef struct brolga_descriptor {
    uint32_t size;          /* of the whole descriptor */
    uint32_t abi_version;
    uint32_t magic;         /* 0x474c5242 */
    uint32_t header_size;   /* 152 in this version */
    uint8_t hash[16];       /* of the object's content */
    uint64_t features;      /* instruction-set features, see brolga-runtime's IsaFeatures */
    uint64_t needed_services;
    uint64_t optional_services;
    uint64_t workspace_fixed;
    uint64_t workspace_per_worker;
    uint32_t architecture;  /* 1 x86-64, 2 aarch64, 3 riscv64, 4 s390x */
    uint32_t variant;       /* 1 where fused multiply-add is used */
    uint32_t parameter_count, parameter_offset;
    uint32_t result_count, result_offset;
    uint32_t alias_count, alias_offset;
    uint32_t custom_call_count, custom_call_offset;
    uint32_t module_name_offset, module_name_length;
    uint32_t entry_offset, entry_length;
    uint32_t open_count, open_offset; /* brolga_open each: of an object for several sizes */
    uint32_t replicas, partitions;    /* the devices that the program runs on */
    uint32_t level_count, level_offset; /* of the processor, none where it is not asked; each a uint64_t of features */
} brolga_descriptor;

/* A program. */
typedef int32_t (*brolga_entry)(const void *const *params, void *const *results, void *workspace,
                                const brolga_context *cx);

/* A dimension of a parameter whose size tells the sizes of a program apart. */
typedef struct brolga_open {
    uint32_t parameter, dimension;
} brolga_open;

/* One parameter or result buffer. */
typedef struct brolga_leaf {
    uint32_t element_type;  /* enum brolga_element_type */
    uint32_t rank;
    uint64_t bytes;
    uint32_t dimensions_offset;     /* int64_t each: sizes, or bounds of dynamic dimensions */
    uint32_t dynamic_offset;        /* uint8_t each: 1 where the dimension is bounded dynamic */
    uint32_t minor_to_major_offset; /* uint32_t each */
    uint32_t flags;                 /* 1 some dimension is dynamic, 2 row-major and not padded; 256 constant, 512 persistent, 1024 trainable, 2048 input */
    uint32_t element_bits;
    uint32_t padding_offset;        /* int64_t each: what the dimensions are padded to; 0 where they are not */
    uint32_t name_offset, name_length;
} brolga_leaf;

/* A parameter and a result in one buffer; the caller must pass the same pointer where must is 1, and may otherwise. */
typedef struct brolga_alias {
    uint32_t parameter, result, must;
} brolga_alias;

static inline const void *brolga_at(const brolga_descriptor *d, uint32_t offset) {
    return (const char *)d + offset;
}
static inline const brolga_leaf *brolga_parameter(const brolga_descriptor *d, uint32_t i) {
    return i < d->parameter_count ? (const brolga_leaf *)brolga_at(d, d->parameter_offset) + i : NULL;
}
static inline const brolga_leaf *brolga_result(const brolga_descriptor *d, uint32_t i) {
    return i < d->result_count ? (const brolga_leaf *)brolga_at(d, d->result_offset) + i : NULL;
}
static inline const brolga_alias *brolga_alias_at(const brolga_descriptor *d, uint32_t i) {
    return i < d->alias_count ? (const brolga_alias *)brolga_at(d, d->alias_offset) + i : NULL;
}
static inline const int64_t *brolga_dimensions(const brolga_descriptor *d, const brolga_leaf *leaf) {
    return (const int64_t *)brolga_at(d, leaf->dimensions_offset);
}
/* What each dimension is padded to, at least its size; NULL where there is no padding. Programs never read the padding of
   parameters, and fill that of results. */
static inline const int64_t *brolga_widths(const brolga_descriptor *d, const brolga_leaf *leaf) {
    return leaf->padding_offset ? (const int64_t *)brolga_at(d, leaf->padding_offset) : NULL;
}
/* The distance in memory between neighbours in each dimension, in elements: strides has room for as many as the rank. */
static inline void brolga_strides(const brolga_descriptor *d, const brolga_leaf *leaf, int64_t *strides) {
    const int64_t *widths = leaf->padding_offset ? brolga_widths(d, leaf) : brolga_dimensions(d, leaf);
    const uint32_t *order = (const uint32_t *)brolga_at(d, leaf->minor_to_major_offset);
    int64_t stride = 1;
    uint32_t i;
    for (i = 0; i < leaf->rank; i++) {
        strides[order[i]] = stride;
        if (widths[order[i]] > 1) stride *= widths[order[i]];
    }
}
static inline const char *brolga_leaf_name(const brolga_descriptor *d, const brolga_leaf *leaf) {
    return (const char *)brolga_at(d, leaf->name_offset);
}
static inline const char *brolga_module_name(const brolga_descriptor *d) {
    return (const char *)brolga_at(d, d->module_name_offset);
}
/* Bytes of workspace, to be aligned to 64. */
static inline uint64_t brolga_workspace_size(const brolga_descriptor *d, uint32_t workers) {
    if (d->workspace_per_worker == 0) return d->workspace_fixed;
    return (d->workspace_fixed + 63) / 64 * 64 + d->workspace_per_worker * workers;
}
/* XLA's form of a tuple, which custom calls get and return: a table of pointers to its elements, where an element that is a
   tuple is a table again. `form` draws a value: 'a' an array, 't' a token, whose pointer is null, '(' and ')' around the
   elements of a tuple, at most 64 deep. Arrays stay where they are.

   Lists the arrays of a value, depth first, as params and results want them, and returns their number: */
static inline size_t brolga_tuple_leaves(const char *form, void *value, void **leaves) {
    void **at = &value, **rest[64];
    size_t count = 0, depth = 0;
    for (; *form; form++) {
        if (*form == 'a') leaves[count++] = *at++;
        else if (*form == 't') at++;
        else if (*form == '(' && depth < 64) { rest[depth++] = at + 1; at = (void **)*at; }
        else if (*form == ')' && depth > 0) at = rest[--depth];
        else return 0;
    }
    return count;
}
/* Makes a value of its arrays. `tables` has room for a pointer for each element of each tuple: */
static inline void *brolga_tuple_build(const char *form, void *const *leaves, void **tables) {
    void *value = NULL;
    void **at = &value, **rest[64];
    size_t depth = 0;
    for (; *form; form++) {
        if (*form == 'a') *at++ = *leaves++;
        else if (*form == 't') *at++ = NULL;
        else if (*form == '(' && depth < 64) {
            size_t elements = 0, level = 0;
            const char *p;
            for (p = form + 1; *p && (level > 0 || *p != ')'); p++) {
                if (*p == ')') level--;
                else { elements += level == 0; level += *p == '('; }
            }
            *at = tables;
            rest[depth++] = at + 1;
            at = tables;
            tables += elements;
        }
        else if (*form == ')' && depth > 0) at = rest[--depth];
        else return NULL;
    }
    return value;
}
/* A context without services, for one worker. */
static inline brolga_context brolga_plain_context(void) {
    brolga_context cx;
    memset(&cx, 0, sizeof cx);
    cx.size = 184;
    cx.abi_version = BROLGA_ABI_VERSION;
    cx.workers = 1;
    return cx;
}

#endif /* BROLGA_ABI_H */

#ifdef __cplusplus
}
#endif


/*
 A pointer that must not be null is null.
 */
#define BROLGA_ERROR_NULL -1

/*
 An argument is out of range, or does not fit the program.
 */
#define BROLGA_ERROR_ARGUMENT -2

/*
 A file could not be read.
 */
#define BROLGA_ERROR_FILE -3

/*
 A program cannot be used: it is damaged, or not for this machine or runtime.
 */
#define BROLGA_ERROR_LOAD -4

/*
 The program failed; `brolga_error_program_status` has what it returned.
 */
#define BROLGA_ERROR_RUN -5

/*
 A feed was closed.
 */
#define BROLGA_ERROR_CLOSED -6

/*
 Waiting took longer than the caller allowed.
 */
#define BROLGA_ERROR_TIMED_OUT -7

/*
 Memory is exhausted.
 */
#define BROLGA_ERROR_MEMORY -8

/*
 Another thread is in the session.
 */
#define BROLGA_ERROR_BUSY -9

/*
 Something valid that this version does not do.
 */
#define BROLGA_ERROR_UNSUPPORTED -10

/*
 A bug in Brolga.
 */
#define BROLGA_ERROR_BUG -11

/*
 A symbol that nobody defines is an error when the object is loaded, not only where a run comes to the call.
 */
#define BROLGA_LOAD_STRICT_SYMBOLS 1

/*
 Custom calls are looked for in the registry alone, not among the symbols of the process.
 */
#define BROLGA_LOAD_NO_PROCESS_SYMBOLS 2

/*
 A call that is under way: what the function of brolga_custom_calls_register is given.
 */
typedef struct brolga_call brolga_call;

/*
 Functions by name, to be given to brolga_object_load. Objects that were loaded with it keep those that they call.
 */
typedef struct brolga_custom_calls brolga_custom_calls;

/*
 One of several devices. Each is lent to one session, on a thread of its own.
 */
typedef struct brolga_device brolga_device;

/*
 A queue of values that programs read.
 */
typedef struct brolga_infeed brolga_infeed;

/*
 What an object file holds: a program, or one for each of several sizes.
 */
typedef struct brolga_object brolga_object;

/*
 A queue of values that programs write.
 */
typedef struct brolga_outfeed brolga_outfeed;

/*
 Threads that any number of sessions share.
 */
typedef struct brolga_pool brolga_pool;

/*
 A program, ready to run: any number of sessions on any threads. Sessions keep it.
 */
typedef struct brolga_program brolga_program;

/*
 A program with its workspace, threads and services, for calls one after another.
 */
typedef struct brolga_session brolga_session;

/*
 A value that came out of a program: an array, or a tuple of arrays.
 */
typedef struct brolga_value brolga_value;

/*
 An array: what it is called, its shape and layout, and where it lies. What a function of this library fills in lives as
 long as what was asked; of an array that the caller describes, the name, the flags of dynamic dimensions, the layout and
 the widths may be null.
 */
typedef struct brolga_array {
  /*
   Its name; empty where it has none.
   */
  const char *name;
  /*
   The type of its elements, an enum brolga_element_type.
   */
  uint32_t element_type;
  /*
   Number of its dimensions.
   */
  uint32_t rank;
  /*
   Their sizes, or bounds, outermost first.
   */
  const int64_t *dimensions;
  /*
   1 for each dimension whose size a value says, up to the bound.
   */
  const uint8_t *dynamic;
  /*
   The dimensions from the fastest-varying to the slowest; null for row-major.
   */
  const uint32_t *minor_to_major;
  /*
   Bytes of its buffer, padding included.
   */
  uint64_t bytes;
  /*
   Its buffer; null where it only describes one.
   */
  void *data;
  /*
   To how many elements each dimension is padded in the buffer, outermost first; null where there is no padding. An array
   that the caller describes has none.
   */
  const int64_t *widths;
} brolga_array;

/*
 A function outside the program that it calls.
 */
typedef struct brolga_needed_call {
  /*
   Its name.
   */
  const char *symbol;
  /*
   How it is called: 1 `void f(void *out, const void **in)`, 2 the same with a status, 3 with a text too, 4 XLA's typed
   handlers.
   */
  uint32_t convention;
  /*
   The line of the call in the HLO text, 0 where unknown.
   */
  uint32_t line;
  /*
   1 where nobody defines it: a run that comes to the call fails.
   */
  uint32_t undefined;
} brolga_needed_call;

/*
 How a program is run. All zero but for `size`, or a null pointer to it, is one thread, seed 0 and no feeds.
 */
typedef struct brolga_options {
  /*
   sizeof(brolga_options).
   */
  uint32_t size;
  /*
   Threads of the session's own; 0 and 1 for the calling thread alone. Results do not depend on it.
   */
  uint32_t threads;
  /*
   Seed of the stateful random number generators.
   */
  uint64_t seed;
  /*
   Threads to use instead, or null.
   */
  const struct brolga_pool *pool;
  /*
   What infeeds read, or null.
   */
  const struct brolga_infeed *infeed;
  /*
   What outfeeds write, or null.
   */
  const struct brolga_outfeed *outfeed;
  /*
   Seconds that the program waits at a feed; 0 for as long as it takes.
   */
  double feed_timeout;
  /*
   Which of several devices this is, or null.
   */
  const struct brolga_device *device;
} brolga_options;

/*
 A parameter's buffer.
 */
typedef struct brolga_input {
  /*
   Its first byte, aligned for the elements.
   */
  const void *data;
  /*
   How many bytes it has: as many as the parameter.
   */
  uint64_t bytes;
} brolga_input;

/*
 A result's buffer. It overlaps nothing but the parameter that it shares a buffer with.
 */
typedef struct brolga_output {
  /*
   Its first byte, aligned for the elements.
   */
  void *data;
  /*
   How many bytes it has: as many as the result.
   */
  uint64_t bytes;
} brolga_output;

/*
 A function that is called for a custom call: fills the results and returns 0, or fails with another number and says why by
 brolga_call_fail. It may be called by several threads at once where several runs are under way.
 */
typedef int32_t (*brolga_function)(void *user, struct brolga_call *call);

/*
 A function with XLA's convention for the call, without its type.
 */
typedef void (*brolga_symbol)(void);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Why the last call failed that failed on this thread, empty where none did. The text lives until the next call fails.
 */
const char *brolga_error_message(void);

/*
 What the program returned in the last call that failed on this thread, a brolga_status or a custom call's own; 0 where
 no program ran.
 */
int32_t brolga_error_program_status(void);

/*
 The version of the interface between programs and this library, BROLGA_ABI_VERSION of the header that fits.
 */
uint32_t brolga_abi_version(void);

/*
 The version of this library, such as "0.1.0".
 */
const char *brolga_version(void);

/*
 Loads the bytes of an object file as `brolga compile` writes it, for one size or several; they are not needed afterwards.
 `calls` may be null. The object is code that will run with the rights of this process: load only what you trust.

 # Safety
 `bytes` leads to `length` bytes, `calls` is null or a live handle, `object` can be written to.
 */
int32_t brolga_object_load(const void *bytes,
                           uintptr_t length,
                           const struct brolga_custom_calls *calls,
                           uint32_t flags,
                           struct brolga_object **object);

/*
 As brolga_object_load, from a file.

 # Safety
 `path` is a text that ends with a zero byte, `calls` is null or a live handle, `object` can be written to.
 */
int32_t brolga_object_load_file(const char *path,
                                const struct brolga_custom_calls *calls,
                                uint32_t flags,
                                struct brolga_object **object);

/*
 Frees an object; its programs live on.

 # Safety
 `object` is null or a handle that was not destroyed.
 */
void brolga_object_destroy(struct brolga_object *object);

/*
 How many programs there are, one for each size.

 # Safety
 `object` is null or a live handle.
 */
uintptr_t brolga_object_program_count(const struct brolga_object *object);

/*
 One of the programs, a handle of its own.

 # Safety
 `object` is null or a live handle, `program` can be written to.
 */
int32_t brolga_object_program(const struct brolga_object *object, uintptr_t index, struct brolga_program **program);

/*
 How many dimensions tell the sizes apart; 0 where there is one program.

 # Safety
 `object` is null or a live handle.
 */
uintptr_t brolga_object_open_count(const struct brolga_object *object);

/*
 Which dimension of which parameter is number `index` of those that tell the sizes apart.

 # Safety
 `object` is null or a live handle, `parameter` and `dimension` can be written to.
 */
int32_t brolga_object_open(const struct brolga_object *object,
                           uintptr_t index,
                           uint32_t *parameter,
                           uint32_t *dimension);

/*
 The program for these sizes of the open dimensions, a handle of its own; with no sizes the only program.

 # Safety
 `object` is null or a live handle, `sizes` leads to `count` numbers, `program` can be written to.
 */
int32_t brolga_object_select(const struct brolga_object *object,
                             const int64_t *sizes,
                             uintptr_t count,
                             struct brolga_program **program);

/*
 A program that is linked into this process, or in a shared library that it has opened, with all services of the runtime:
 its symbols NAME_descriptor and NAME. They must stay where they are as long as the program or a session of it lives.

 # Safety
 `descriptor` is null or the descriptor of the program whose function is `entry`, `program` can be written to.
 */
int32_t brolga_program_from_linked(const brolga_descriptor *descriptor,
                                   brolga_entry entry,
                                   struct brolga_program **program);

/*
 Frees a program; its sessions live on.

 # Safety
 `program` is null or a handle that was not destroyed.
 */
void brolga_program_destroy(struct brolga_program *program);

/*
 The descriptor, to be read with the functions that the headers of compiled programs declare too.

 # Safety
 `program` is null or a live handle.
 */
const brolga_descriptor *brolga_program_descriptor(const struct brolga_program *program);

/*
 The name of the program's function.

 # Safety
 `program` is null or a live handle.
 */
const char *brolga_program_name(const struct brolga_program *program);

/*
 The name of the module that it was compiled from.

 # Safety
 `program` is null or a live handle.
 */
const char *brolga_program_module(const struct brolga_program *program);

/*
 The services that it cannot run without, with commas between them; this library has them all.

 # Safety
 `program` is null or a live handle.
 */
const char *brolga_program_services(const struct brolga_program *program);

/*
 Number of its parameters: arrays, tuples flattened from left to right.

 # Safety
 `program` is null or a live handle.
 */
uintptr_t brolga_program_parameter_count(const struct brolga_program *program);

/*
 Number of its results.

 # Safety
 `program` is null or a live handle.
 */
uintptr_t brolga_program_result_count(const struct brolga_program *program);

/*
 A parameter.

 # Safety
 `program` is null or a live handle, `array` can be written to.
 */
int32_t brolga_program_parameter(const struct brolga_program *program, uintptr_t index, struct brolga_array *array);

/*
 A result.

 # Safety
 As brolga_program_parameter.
 */
int32_t brolga_program_result(const struct brolga_program *program, uintptr_t index, struct brolga_array *array);

/*
 Number of pairs of a parameter and a result that share a buffer.

 # Safety
 `program` is null or a live handle.
 */
uintptr_t brolga_program_alias_count(const struct brolga_program *program);

/*
 A pair of a parameter and a result. Where `*must` is 1 the program overwrites the parameter: given two buffers, a run
 copies the parameter first. Otherwise they may be given as one.

 # Safety
 `program` is null or a live handle, the other pointers can be written to.
 */
int32_t brolga_program_alias(const struct brolga_program *program,
                             uintptr_t index,
                             uint32_t *parameter,
                             uint32_t *result,
                             uint32_t *must);

/*
 Bytes of workspace that a session with so many threads keeps; UINT64_MAX where that is more than there can be.

 # Safety
 `program` is null or a live handle.
 */
uint64_t brolga_program_workspace_bytes(const struct brolga_program *program, uint32_t threads);

/*
 Number of functions that the program calls.

 # Safety
 `program` is null or a live handle.
 */
uintptr_t brolga_program_needed_call_count(const struct brolga_program *program);

/*
 A function that the program calls.

 # Safety
 `program` is null or a live handle, `call` can be written to.
 */
int32_t brolga_program_needed_call(const struct brolga_program *program,
                                   uintptr_t index,
                                   struct brolga_needed_call *call);

/*
 The devices that the program was compiled for: replicas, and partitions of each.

 # Safety
 `program` is null or a live handle, the other pointers can be written to.
 */
int32_t brolga_program_devices(const struct brolga_program *program, uint32_t *replicas, uint32_t *partitions);

/*
 Makes a pool with so many workers, the thread that runs a program counted; 0 for one for each processor.

 # Safety
 `pool` can be written to.
 */
int32_t brolga_pool_create(uint32_t workers, struct brolga_pool **pool);

/*
 How many workers the pool has: fewer than were asked for where the system refuses threads.

 # Safety
 `pool` is null or a live handle.
 */
uint32_t brolga_pool_workers(const struct brolga_pool *pool);

/*
 Frees a pool; its threads live as long as a session has them.

 # Safety
 `pool` is null or a handle that was not destroyed.
 */
void brolga_pool_destroy(struct brolga_pool *pool);

/*
 Prepares runs of a program; `options` may be null. What the options name is kept: it may be destroyed before the session.

 # Safety
 `program` is null or a live handle, the handles of `options` too; `session` can be written to.
 */
int32_t brolga_session_create(const struct brolga_program *program,
                              const struct brolga_options *options,
                              struct brolga_session **session);

/*
 The seed of the runs that follow.

 # Safety
 `session` is null or a live handle.
 */
int32_t brolga_session_set_seed(struct brolga_session *session, uint64_t seed);

/*
 Runs the program once: reads the buffers of the parameters and fills those of the results. Sizes, alignments and overlaps
 are checked first; a failed run leaves the results in any state, and the session can run again.

 # Safety
 `session` is null or a live handle; `inputs` leads to `input_count` buffers, `outputs` to `output_count`, each with as many
 bytes as it says, which nobody else uses while the program runs.
 */
int32_t brolga_session_run(struct brolga_session *session,
                           const struct brolga_input *inputs,
                           uintptr_t input_count,
                           const struct brolga_output *outputs,
                           uintptr_t output_count);

/*
 Frees a session.

 # Safety
 `session` is null or a handle that was not destroyed, and no thread is in it.
 */
void brolga_session_destroy(struct brolga_session *session);

/*
 Runs a program once, with a session that lives for this call.

 # Safety
 As brolga_session_create and brolga_session_run.
 */
int32_t brolga_program_run(const struct brolga_program *program,
                           const struct brolga_options *options,
                           const struct brolga_input *inputs,
                           uintptr_t input_count,
                           const struct brolga_output *outputs,
                           uintptr_t output_count);

/*
 Makes `replicas` times `partitions` devices that know each other: `devices` gets a handle of each, partitions of the first
 replica first. None waits longer than `timeout` seconds for the others, or, where that is 0, as long as they compute.

 # Safety
 `devices` has room for so many handles.
 */
int32_t brolga_devices_create(uint32_t replicas,
                              uint32_t partitions,
                              double timeout,
                              struct brolga_device **devices);

/*
 Frees a device; a session that has it keeps it.

 # Safety
 `device` is null or a handle that was not destroyed.
 */
void brolga_device_destroy(struct brolga_device *device);

/*
 Makes a queue that holds at most so many values, and one at least.

 # Safety
 `infeed` can be written to.
 */
int32_t brolga_infeed_create(uintptr_t capacity, struct brolga_infeed **infeed);

/*
 Adds a value: one array, or a tuple of `count` arrays where `is_tuple` is not 0. The data are copied. Waits while the queue
 is full, no longer than `timeout` seconds where that is not 0.

 # Safety
 `infeed` is null or a live handle; `arrays` leads to `count` arrays whose lists have as many elements as their ranks say and
 whose data have as many bytes as they say.
 */
int32_t brolga_infeed_push(const struct brolga_infeed *infeed,
                           const struct brolga_array *arrays,
                           uintptr_t count,
                           int32_t is_tuple,
                           double timeout);

/*
 Ends the traffic: values inside can still be read, and then reading fails.

 # Safety
 `infeed` is null or a live handle.
 */
int32_t brolga_infeed_close(const struct brolga_infeed *infeed);

/*
 Frees a queue; sessions that read it keep it.

 # Safety
 `infeed` is null or a handle that was not destroyed.
 */
void brolga_infeed_destroy(struct brolga_infeed *infeed);

/*
 Makes a queue that holds at most so many values, and one at least.

 # Safety
 `outfeed` can be written to.
 */
int32_t brolga_outfeed_create(uintptr_t capacity, struct brolga_outfeed **outfeed);

/*
 Takes the next value. Waits while the queue is empty, no longer than `timeout` seconds where that is not 0.

 # Safety
 `outfeed` is null or a live handle, `value` can be written to.
 */
int32_t brolga_outfeed_pop(const struct brolga_outfeed *outfeed, double timeout, struct brolga_value **value);

/*
 Ends the traffic: values inside can still be taken, and programs that write fail.

 # Safety
 `outfeed` is null or a live handle.
 */
int32_t brolga_outfeed_close(const struct brolga_outfeed *outfeed);

/*
 Frees a queue; sessions that write it keep it.

 # Safety
 `outfeed` is null or a handle that was not destroyed.
 */
void brolga_outfeed_destroy(struct brolga_outfeed *outfeed);

/*
 Number of arrays of a value.

 # Safety
 `value` is null or a live handle.
 */
uintptr_t brolga_value_count(const struct brolga_value *value);

/*
 1 where the value is a tuple, 0 where it is an array.

 # Safety
 `value` is null or a live handle.
 */
int32_t brolga_value_is_tuple(const struct brolga_value *value);

/*
 An array of a value; its data live as long as the value, and are only to be read.

 # Safety
 `value` is null or a live handle, `array` can be written to.
 */
int32_t brolga_value_array(const struct brolga_value *value, uintptr_t index, struct brolga_array *array);

/*
 Frees a value.

 # Safety
 `value` is null or a handle that was not destroyed.
 */
void brolga_value_destroy(struct brolga_value *value);

/*
 Makes an empty registry.

 # Safety
 `calls` can be written to.
 */
int32_t brolga_custom_calls_create(struct brolga_custom_calls **calls);

/*
 Frees a registry; objects that were loaded with it keep their functions.

 # Safety
 `calls` is null or a handle that was not destroyed.
 */
void brolga_custom_calls_destroy(struct brolga_custom_calls *calls);

/*
 Registers a function with a pointer of yours, which it is given in each call. It serves every convention of custom calls, in
 place of what had the name.

 # Safety
 `calls` is null or a live handle, `name` a text that ends with a zero byte; function and pointer can be used on any thread, as
 long as a program lives that was loaded with the registry.
 */
int32_t brolga_custom_calls_register(struct brolga_custom_calls *calls,
                                     const char *name,
                                     brolga_function function,
                                     void *user);

/*
 Registers a function with the convention that the programs name for calls of it, such as
 `void f(void *out, const void **in)`; cast it to the type of the parameter.

 # Safety
 As brolga_custom_calls_register; the function has that convention and keeps to the shapes of the calls.
 */
int32_t brolga_custom_calls_register_symbol(struct brolga_custom_calls *calls,
                                            const char *name,
                                            brolga_symbol function);

/*
 Number of operand arrays; tuples count as their elements, tokens do not count.

 # Safety
 `call` is null or the call that the function was given.
 */
uintptr_t brolga_call_operand_count(const struct brolga_call *call);

/*
 Number of result arrays.

 # Safety
 `call` is null or the call that the function was given.
 */
uintptr_t brolga_call_result_count(const struct brolga_call *call);

/*
 An operand, only to be read.

 # Safety
 `call` is null or the call that the function was given, `array` can be written to.
 */
int32_t brolga_call_operand(const struct brolga_call *call, uintptr_t index, struct brolga_array *array);

/*
 A result, to be filled.

 # Safety
 As brolga_call_operand.
 */
int32_t brolga_call_result(const struct brolga_call *call, uintptr_t index, struct brolga_array *array);

/*
 An attribute that is a whole number or a truth value.

 # Safety
 `call` is null or the call that the function was given, `name` a text that ends with a zero byte, `value` can be written to.
 */
int32_t brolga_call_integer(const struct brolga_call *call,
                            const char *name,
                            int64_t *value);

/*
 An attribute that is a real number.

 # Safety
 As brolga_call_integer.
 */
int32_t brolga_call_number(const struct brolga_call *call, const char *name, double *value);

/*
 An attribute that is a text, which lives as long as the call.

 # Safety
 As brolga_call_integer.
 */
int32_t brolga_call_text(struct brolga_call *call, const char *name, const char **text);

/*
 The text for the function, `backend_config`, of calls that are not typed: where it begins and how long it is.

 # Safety
 `call` is null or the call that the function was given, the other pointers can be written to.
 */
int32_t brolga_call_opaque(const struct brolga_call *call, const char **text, uintptr_t *length);

/*
 Fails the call: the run ends with this message.

 # Safety
 `call` is null or the call that the function was given, `message` a text that ends with a zero byte.
 */
int32_t brolga_call_fail(struct brolga_call *call, const char *message);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BROLGA_H */
