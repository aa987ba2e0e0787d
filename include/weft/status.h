/* Status codes, and the error record that every function that can fail fills in.
 *
 *     struct weft_error err;
 *     struct weft_schedule *s = NULL;
 *     if (weft_schedule_generate("1f1b", &params, &s, &err) != WEFT_OK)
 *         fprintf(stderr, "%s\n", err.msg);
 *
 * A function that fails returns a status other than WEFT_OK, leaves its outputs unchanged, and
 * writes a message of one line to `err->msg`.  `err` may be NULL.
 */
#ifndef WEFT_STATUS_H
#define WEFT_STATUS_H

/* Marks the functions that the shared libraries export. */
#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* name, exit code of a command that fails with this status, description */
#define WEFT_STATUS_MAP(X)                                                                     \
    X(OK, 0, "done")                                                                           \
    X(USAGE, 2, "usage or config")                                                             \
    X(DATA, 3, "data")                                                                         \
    X(CKPT, 4, "checkpoint")                                                                   \
    X(SCHEDULE, 5, "schedule")                                                                 \
    X(PEER, 6, "peer lost or hang")                                                            \
    X(NUMERIC, 7, "numeric")                                                                   \
    X(NOMEM, 8, "out of memory")                                                               \
    X(IO, 8, "disk")                                                                           \
    X(INTERNAL, 9, "internal")

enum weft_status {
#define WEFT_STATUS_ENUM(name, code, text) WEFT_##name,
    WEFT_STATUS_MAP(WEFT_STATUS_ENUM)
#undef WEFT_STATUS_ENUM
};

struct weft_error {
    enum weft_status status;
    const char *file; /* borrowed: a string literal, the source file that reported the error */
    int line;
    char msg[480];
};

/* Returns the description of a status, such as "usage or config". */
WEFT_API const char *weft_status_text(enum weft_status status);

/* Returns the exit code of a command that fails with `status`. */
WEFT_API int weft_status_exit_code(enum weft_status status);

#ifdef __cplusplus
}
#endif

#endif
