/* Reading whole files. */
#include "base/input.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"

static enum weft_status read_stream(FILE *in, const char *path, char **out, size_t *len,
                                    struct weft_error *err)
{
    size_t cap = 1 << 16, n = 0;
    char *text = malloc(cap);
    for (;;) {
        if (text == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "%s: out of memory", path);
        errno = 0;
        n += fread(text + n, 1, cap - 1 - n, in);
        if (n + 1 < cap)
            break;
        char *more = cap > SIZE_MAX / 2 ? NULL : realloc(text, 2 * cap);
        if (more == NULL)
            free(text);
        text = more;
        cap *= 2;
    }

    if (ferror(in)) {
        int code = errno;
        free(text);
        return WEFT_FAIL(err, wf_errno_status(code, WEFT_IO), "%s: %s", path, strerror(code));
    }
    text[n] = '\0';
    *out = text;
    *len = n;
    return WEFT_OK;
}

enum weft_status wf_input_read_as(enum weft_status kind, const char *path, char **out,
                                  size_t *len, struct weft_error *err)
{
    if (strcmp(path, "-") == 0)
        return read_stream(stdin, "standard input", out, len, err);
    FILE *in = fopen(path, "rb");
    if (in == NULL)
        return WEFT_FAIL(err, wf_errno_status(errno, kind), "%s: %s", path, strerror(errno));
    struct stat info;
    enum weft_status st;
    if (fstat(fileno(in), &info) != 0)
        st = WEFT_FAIL(err, WEFT_IO, "%s: %s", path, strerror(errno));
    else if (S_ISDIR(info.st_mode))
        st = WEFT_FAIL(err, kind, "%s: is a directory, not a file", path);
    else
        st = read_stream(in, path, out, len, err);
    fclose(in);
    return st;
}

enum weft_status wf_input_read(const char *path, char **out, size_t *len,
                               struct weft_error *err)
{
    return wf_input_read_as(WEFT_USAGE, path, out, len, err);
}

bool wf_is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool wf_is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
}

bool wf_path_ends_in(const char *path, const char *ending)
{
    size_t n = strlen(path), k = strlen(ending);
    return n >= k && strcmp(path + n - k, ending) == 0;
}
