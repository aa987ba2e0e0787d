/* The error record and the table of status codes. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int exit_code;
    const char *text;
} status_table[] = {
#define WF_STATUS_ROW(name, code, text) {code, text},
    WEFT_STATUS_MAP(WF_STATUS_ROW)
#undef WF_STATUS_ROW
};

const char *weft_status_text(enum weft_status status)
{
    return (size_t)status < WEFT_LEN(status_table) ? status_table[status].text
                                                   : "unknown status";
}

int weft_status_exit_code(enum weft_status status)
{
    return (size_t)status < WEFT_LEN(status_table) ? status_table[status].exit_code
                                                   : status_table[WEFT_INTERNAL].exit_code;
}

enum weft_status wf_errno_status(int code, enum weft_status kind)
{
    switch (code) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO:
    case ENODEV:
        return kind;
    case ENOMEM:
        return WEFT_NOMEM;
    default:
        return WEFT_IO;
    }
}

void wf_error_wrap(struct weft_error *err, const char *before, const char *after)
{
    char msg[sizeof err->msg];
    if (err == NULL)
        return;
    memcpy(msg, err->msg, sizeof msg);
    wf_error_set(err, err->status, err->file, err->line, "%s%s%s", before, msg, after);
}

enum weft_status wf_error_set(struct weft_error *err, enum weft_status status, const char *file,
                              int line, const char *format, ...)
{
    if (err == NULL)
        return status;
    va_list args;
    va_start(args, format);
    err->status = status;
    err->file = file;
    err->line = line;
    int n = vsnprintf(err->msg, sizeof err->msg, format, args);
    va_end(args);
    if (n >= (int)sizeof err->msg) /* mark a truncated message */
        memcpy(err->msg + sizeof err->msg - 4, "...", 4);
    return status;
}
