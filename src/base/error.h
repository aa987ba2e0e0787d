/* Fills in the error record.  The function that detects an error fills in the record; its
 * callers pass the record on unchanged. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "weft/status.h"

/* Fills in the error record and evaluates to the status:
 *     return WEFT_FAIL(err, WEFT_USAGE, "ranks is 0; give at least 1"); */
#ifdef __clang_analyzer__ /* the analyzer does not see the code of other files */
#define WEFT_FAIL(err, status, ...)                                                            \
    (wf_error_set((err), (status), __FILE__, __LINE__, __VA_ARGS__), (status))
#else
#define WEFT_FAIL(err, status, ...)                                                            \
    wf_error_set((err), (status), __FILE__, __LINE__, __VA_ARGS__)
#endif

/* Evaluates `call` and returns its status from the enclosing function if the call fails.  Use
 * it only where the enclosing function has nothing to free. */
#define WEFT_TRY(call)                                                                         \
    do {                                                                                       \
        enum weft_status wf_try_status = (call);                                               \
        if (wf_try_status != WEFT_OK)                                                          \
            return wf_try_status;                                                              \
    } while (0)

/* Fills in *err, if `err` is not NULL, and returns `status`.  A message that is too long is
 * truncated and ends in "...". */
enum weft_status wf_error_set(struct weft_error *err, enum weft_status status, const char *file,
                              int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Returns the status of a system call on a file that failed with the errno `code`: `kind` if
 * the path or the file is the cause (it is missing, is a directory, may not be read),
 * WEFT_NOMEM if memory ran out, and otherwise WEFT_IO.  A cause outside of a file must not
 * condemn the file. */
enum weft_status wf_errno_status(int code, enum weft_status kind);

#define WEFT_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* Adds text before and after the message of an error. */
void wf_error_wrap(struct weft_error *err, const char *before, const char *after);

#endif
