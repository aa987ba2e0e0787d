/* Lists, counts and splits the files of a text source. */
#define _DEFAULT_SOURCE /* scandir */

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/input.h"
#include "base/size.h"
#include "training/data/text_source.h"

enum { MAX_DEPTH = 64 };

static enum weft_status add_file(struct wf_text_list *list, const char *path,
                                 const struct stat *info, struct weft_error *err)
{
    bool regular = S_ISREG(info->st_mode);
    if (regular && info->st_size == 0)
        return WEFT_OK;
    if (list->n == list->cap) {
        size_t cap = list->cap == 0 ? 16 : 2 * list->cap;
        struct wf_text_file *at = realloc(list->at, cap * sizeof *at);
        if (at == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu names of files", cap);
        list->at = at;
        list->cap = cap;
    }

    struct wf_text_file file = {
        .path = strdup(path),
        .end = regular ? (uint64_t)info->st_size : UINT64_MAX,
        .json = wf_path_ends_in(path, ".jsonl"),
    };
    if (file.path == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the names of files");
    list->at[list->n++] = file;
    list->bytes += regular ? file.end : 0;
    return WEFT_OK;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static enum weft_status add_folder(struct wf_text_list *list, const char *path, int depth,
                                   struct weft_error *err);

/* Adds a file, or all files of a folder.  Symbolic links to folders are not followed, because
 * they may form a cycle. */
static enum weft_status add_entry(struct wf_text_list *list, const char *path, int depth,
                                  struct weft_error *err)
{
    struct stat info, link;
    if (stat(path, &info) != 0 || lstat(path, &link) != 0)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s", path,
                         strerror(errno));
    if (S_ISDIR(info.st_mode))
        return S_ISLNK(link.st_mode) ? WEFT_OK : add_folder(list, path, depth + 1, err);
    return S_ISREG(info.st_mode) ? add_file(list, path, &info, err) : WEFT_OK;
}

static enum weft_status add_folder(struct wf_text_list *list, const char *path, int depth,
                                   struct weft_error *err)
{
    struct dirent **entries = NULL;
    if (depth > MAX_DEPTH)
        return WEFT_FAIL(err, WEFT_DATA, "%.240s: folders are nested deeper than %d levels",
                         path, MAX_DEPTH);
    int n = scandir(path, &entries, is_visible, by_bytes);
    if (n < 0)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s", path,
                         strerror(errno));

    enum weft_status st = WEFT_OK;
    for (int i = 0; i < n; i++) {
        size_t size = strlen(path) + strlen(entries[i]->d_name) + 2;
        char *inner = st == WEFT_OK ? malloc(size) : NULL;
        if (inner != NULL) {
            snprintf(inner, size, "%s%s%s", path, wf_path_ends_in(path, "/") ? "" : "/",
                     entries[i]->d_name);
            st = add_entry(list, inner, depth, err);
        } else if (st == WEFT_OK) {
            st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the names of files");
        }
        free(inner);
        free(entries[i]);
    }
    free(entries);
    return st;
}

enum weft_status wf_text_list_init(struct wf_text_list *list, const char *const *inputs,
                                   size_t n_inputs, struct weft_error *err)
{
    *list = (struct wf_text_list){0};
    for (size_t i = 0; i < n_inputs; i++) {
        struct stat info;
        if (stat(inputs[i], &info) != 0)
            return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s",
                             inputs[i][0] == '\0' ? "an empty input name" : inputs[i],
                             strerror(errno));
        if (S_ISDIR(info.st_mode))
            WEFT_TRY(add_folder(list, inputs[i], 0, err));
        else
            WEFT_TRY(add_file(list, inputs[i], &info, err));
    }
    if (list->n == 0)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.240s%s: there is no text; expected files that are not empty",
                         inputs[0], n_inputs > 1 ? " and others" : "");
    return WEFT_OK;
}

void wf_text_list_release(struct wf_text_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->at[i].path);
    free(list->at);
    *list = (struct wf_text_list){0};
}

/* -- counting ------------------------------------------------------------------------------ */

/* Counts the non-blank lines of a file and adds their number to *n.  Stops when *n reaches
 * `limit`. */
static enum weft_status count_lines(const char *path, uint64_t limit, uint64_t *n,
                                    struct weft_error *err)
{
    FILE *in = fopen(path, "rb");
    bool blank = true;
    int c;
    if (in == NULL)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s", path,
                         strerror(errno));
    while (*n < limit && (c = getc(in)) != EOF) {
        if (c == '\n')
            blank = true;
        else if (blank && c != ' ' && c != '\t' && c != '\r') {
            blank = false;
            ++*n;
        }
    }
    enum weft_status st = ferror(in) ? WEFT_FAIL(err, wf_errno_status(errno, WEFT_IO),
                                                 "%.240s: %s", path, strerror(errno))
                                     : WEFT_OK;
    fclose(in);
    return st;
}

enum weft_status wf_text_list_count(const struct wf_text_list *list, uint64_t limit,
                                    uint64_t *out, struct weft_error *err)
{
    uint64_t n = 0;
    for (size_t i = 0; i < list->n && n < limit; i++) {
        if (list->at[i].json)
            WEFT_TRY(count_lines(list->at[i].path, limit, &n, err));
        else
            n++;
    }
    *out = n;
    return WEFT_OK;
}

enum weft_status wf_text_list_split(struct wf_text_list *list, double fraction,
                                    struct weft_error *err)
{
    const struct wf_text_file *file = &list->at[0];
    uint64_t size = file->end, cut = (uint64_t)((double)size * fraction);
    if (list->n != 1 || file->json || size == UINT64_MAX)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.240s: is only one document; a validation part needs two",
                         file->path);

    struct stat info = {.st_mode = S_IFREG, .st_size = (off_t)size};
    FILE *in = fopen(file->path, "rb");
    if (in == NULL)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s", file->path,
                         strerror(errno));
    int c = fseeko(in, (off_t)cut, SEEK_SET) == 0 ? getc(in) : EOF;
    for (cut++; c != EOF && c != '\n'; cut++)
        c = getc(in);
    int code = ferror(in) ? errno : 0;
    fclose(in);

    if (code != 0)
        return WEFT_FAIL(err, wf_errno_status(code, WEFT_IO), "%.240s: %s", file->path,
                         strerror(code));
    if (c == EOF || cut >= size)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.240s: no line begins after %.0f %% of its bytes; a validation part "
                         "needs two documents",
                         file->path, 100 * fraction);
    WEFT_TRY(add_file(list, file->path, &info, err));
    list->at[0].end = list->at[1].begin = cut;
    list->bytes = size;
    return WEFT_OK;
}
