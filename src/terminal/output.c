/* Output files that are written atomically, and the abilities of a terminal. */
#define _DEFAULT_SOURCE /* isatty and the window size of a terminal */

#include "terminal/output.h"

#include <errno.h>
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/input.h"
#include "base/printable.h"
#include "base/temporary.h"

/* Opens a temporary file beside the target, with the permissions of the old file.  If the
 * target is a symbolic link, the link is followed. */
static enum weft_status open_beside(struct wf_output *s, const struct stat *old,
                                    struct weft_error *err)
{
    s->target = old != NULL ? realpath(s->path, NULL) : strdup(s->path);
    if (s->target == NULL)
        return WEFT_FAIL(err, errno == ENOMEM ? WEFT_NOMEM : WEFT_IO, "cannot write %s: %s",
                         s->path, strerror(errno));
    wf_temporary_clean(s->target);
    enum weft_status st = wf_temporary_new_file(s->target, &s->unfinished, &s->lock, err);
    if (st == WEFT_IO)
        return WEFT_FAIL(err, WEFT_IO, "cannot write %s: %s", s->path, strerror(errno));
    WEFT_TRY(st);

    /* The stream has its own descriptor, so that the lock lasts until the file is renamed. */
    int fd = dup(s->lock);
    s->out = fd < 0 ? NULL : fdopen(fd, "wb");
    if (s->out == NULL) {
        st = WEFT_FAIL(err, WEFT_IO, "cannot write %s: %s", s->path, strerror(errno));
        if (fd >= 0)
            close(fd);
        remove(s->unfinished);
        close(s->lock);
        return st;
    }
    if (old != NULL)
        fchmod(fileno(s->out), old->st_mode & 07777);
    return WEFT_OK;
}

enum weft_status wf_output_check(const char *path, const char *endings, struct weft_error *err)
{
    struct stat info;
    if (path == NULL || strcmp(path, "-") == 0 ||
        (stat(path, &info) == 0 && !S_ISREG(info.st_mode)))
        return WEFT_OK;
    for (const char *at = endings; *at != '\0';) {
        char ending[16];
        size_t n = strcspn(at, " ");
        snprintf(ending, sizeof ending, "%.*s", (int)n, at);
        if (wf_path_ends_in(path, ending))
            return WEFT_OK;
        at += n + (at[n] == ' ');
    }
    return WEFT_FAIL(err, WEFT_USAGE,
                     "--output %.160s: unknown file name extension (expected one of %s)", path,
                     endings);
}

enum weft_status wf_output_open(struct wf_output *s, const char *path, struct weft_error *err)
{
    *s = (struct wf_output){.out = stdout, .path = path};
    if (path == NULL || strcmp(path, "-") == 0) {
        s->path = NULL;
        return WEFT_OK;
    }

    struct stat info;
    bool exists = stat(path, &info) == 0;
    enum weft_status st = WEFT_OK;

    if (exists && !S_ISREG(info.st_mode)) { /* do not replace a pipe or a device */
        s->out = fopen(path, "wb");
        if (s->out == NULL)
            st = WEFT_FAIL(err, WEFT_IO, "%s: %s", path, strerror(errno));
    } else {
        st = open_beside(s, exists ? &info : NULL, err);
    }

    if (st != WEFT_OK) {
        free(s->unfinished);
        free(s->target);
        *s = (struct wf_output){0};
    }
    return st;
}

enum weft_status wf_output_close(struct wf_output *s, enum weft_status st,
                                 struct weft_error *err)
{
    const char *name = s->path == NULL ? "standard output" : s->path;
    bool failed = fflush(s->out) != 0 || ferror(s->out);
    if (s->path != NULL)
        failed = fclose(s->out) != 0 || failed;
    if (st == WEFT_OK && failed)
        st = WEFT_FAIL(err, WEFT_IO, "cannot write %s: %s", name, strerror(errno));
    if (s->unfinished != NULL) {
        if (st == WEFT_OK && rename(s->unfinished, s->target) != 0)
            st = WEFT_FAIL(err, WEFT_IO, "cannot write %s: %s", name, strerror(errno));
        if (st != WEFT_OK)
            remove(s->unfinished);
        else if (!s->quiet)
            printf("wrote %s\n", wf_shown(s->path).at);
        close(s->lock);
        free(s->unfinished);
        free(s->target);
    }
    return st;
}

struct weft_text_style wf_style_for(FILE *out, const char *when, uint32_t width)
{
    bool terminal = isatty(fileno(out));
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    const char *columns = getenv("COLUMNS");
    bool able = terminal && (no_colour == NULL || *no_colour == '\0') &&
                (term == NULL || strcmp(term, "dumb") != 0);
    struct weft_text_style style = {
        .width = 100,
        .colour =
            when == NULL || strcmp(when, "auto") == 0 ? able : strcmp(when, "always") == 0,
        .utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
    };
    struct winsize size;
    if (width != 0)
        style.width = width;
    else if (terminal && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        style.width = size.ws_col;
    else if (columns != NULL && atoi(columns) > 0)
        style.width = (unsigned)atoi(columns);
    return style;
}
