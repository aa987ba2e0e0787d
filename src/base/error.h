/* Filling the error record.  Whoever first knows the cause does it; callers pass it up. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "weft/status.h"

/* return WEFT_FAIL(err, WEFT_USAGE, "ranks is 0: give at least 1"); */
#define WEFT_FAIL(err, status, ...)                                                            \
    wf_error_set((err), (status), __FILE__, __LINE__, __VA_ARGS__)

/* For places where nothing is held that would have to be freed. */
#define WEFT_TRY(call)                                                                         \
    do {                                                                                       \
        enum weft_status wf_try_status = (call);                                               \
        if (wf_try_status != WEFT_OK)                                                          \
            return wf_try_status;                                                              \
    } while (0)

/* Writes the record (when there is one) and returns `status`. */
enum weft_status wf_error_set(struct weft_error *err, enum weft_status status, const char *file,
                              int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#define WEFT_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* Puts text around a message that is there: where it was met, what to do. */
void wf_error_wrap(struct weft_error *err, const char *before, const char *after);

#endif
