/* Filling in the error record.  The function that detects an error fills it in; callers return it
 * unchanged. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "weft/status.h"

/* Fills in the record and evaluates to the status:
 *     return WEFT_FAIL(err, WEFT_USAGE, "ranks is 0; give at least 1"); */
#ifdef __clang_analyzer__ /* it does not see the result of functions in other files */
#define WEFT_FAIL(err, status, ...)                                                            \
    (wf_error_set((err), (status), __FILE__, __LINE__, __VA_ARGS__), (status))
#else
#define WEFT_FAIL(err, status, ...)                                                            \
    wf_error_set((err), (status), __FILE__, __LINE__, __VA_ARGS__)
#endif

/* Returns from the calling function if the call fails.  Only for functions that have nothing to
 * free at that point. */
#define WEFT_TRY(call)                                                                         \
    do {                                                                                       \
        enum weft_status wf_try_status = (call);                                               \
        if (wf_try_status != WEFT_OK)                                                          \
            return wf_try_status;                                                              \
    } while (0)

/* Fills in the record, if `err` is not NULL, and returns `status`.  A message that is too long is
 * truncated and ends in "...". */
enum weft_status wf_error_set(struct weft_error *err, enum weft_status status, const char *file,
                              int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#define WEFT_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* Adds text before and after the message of an error. */
void wf_error_wrap(struct weft_error *err, const char *before, const char *after);

#endif
