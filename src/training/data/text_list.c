/* Lists, counts and splits the files of a text source. */
#define _DEFAULT_SOURCE /* scandir */

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/input.h"
#include "base/size.h"
#include "training/data/text_records.h"

enum { MAX_DEPTH = 64 };

const char *wf_text_name(const struct wf_text_file *file)
{
    return strcmp(file->path, "-") == 0 ? "standard input" : file->path;
}

/* Appends a file to the list. */
static enum weft_status append(struct wf_text_list *list, const char *path, uint64_t bytes,
                               enum wf_text_kind kind, struct weft_error *err)
{
    if (list->n == list->cap) {
        size_t cap = list->cap == 0 ? 16 : 2 * list->cap;
        struct wf_text_file *at = realloc(list->at, cap * sizeof *at);
        if (at == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu names of files", cap);
        list->at = at;
        list->cap = cap;
    }
    struct wf_text_file file = {.path = strdup(path), .end = bytes, .kind = kind};
    if (file.path == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the names of files");
    list->at[list->n++] = file;
    return WEFT_OK;
}

/* Adds a regular file that has content.  A binary file of a folder is counted; as an input it
 * is an error.  Parquet files are always an error: they are data that was meant to be used. */
static enum weft_status add_file(struct wf_text_list *list, const char *path,
                                 const struct stat *info, bool in_folder,
                                 struct weft_error *err)
{
    struct wf_stream *s = NULL;
    struct wf_text_found found = {0};
    if (info->st_size == 0)
        return WEFT_OK;
    WEFT_TRY(wf_stream_open(path, &s, err));
    bool packed = wf_stream_packing(s) != NULL;
    enum weft_status st = wf_text_find_kind(path, s, list->options.format, &found, err);
    wf_stream_free(s);
    WEFT_TRY(st);

    if (found.empty)
        return WEFT_OK;
    if (found.kind == WF_TEXT_BINARY && in_folder && !found.parquet) {
        list->n_binary++;
        return WEFT_OK;
    }
    if (found.kind == WF_TEXT_BINARY)
        return WEFT_FAIL(err, WEFT_DATA, "%.240s: is %s, not text", path, found.what);
    list->bytes += packed ? 0 : (uint64_t)info->st_size;
    return append(list, path, packed ? UINT64_MAX : (uint64_t)info->st_size, found.kind, err);
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
    return S_ISREG(info.st_mode) ? add_file(list, path, &info, true, err) : WEFT_OK;
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

static enum weft_status add_input(struct wf_text_list *list, const char *input,
                                  struct weft_error *err)
{
    struct stat info;
    if (strcmp(input, "-") == 0)
        return append(list, input, UINT64_MAX, WF_TEXT_UNKNOWN, err);
    if (stat(input, &info) != 0)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s",
                         input[0] == '\0' ? "an empty input name" : input, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return add_folder(list, input, 0, err);
    if (S_ISREG(info.st_mode))
        return add_file(list, input, &info, false, err);
    return append(list, input, UINT64_MAX, WF_TEXT_UNKNOWN, err);
}

enum weft_status wf_text_list_init(struct wf_text_list *list, const char *const *inputs,
                                   size_t n_inputs, const struct wf_text_options *options,
                                   struct weft_error *err)
{
    *list = (struct wf_text_list){0};
    if (options != NULL)
        list->options = *options;
    for (size_t i = 0; i < n_inputs; i++)
        WEFT_TRY(add_input(list, inputs[i], err));
    if (list->n > 0)
        return WEFT_OK;

    char binary[64] = "";
    if (list->n_binary > 0)
        snprintf(binary, sizeof binary, " (%" PRIu64 " binary file%s skipped)", list->n_binary,
                 list->n_binary == 1 ? " was" : "s were");
    return WEFT_FAIL(err, WEFT_DATA,
                     "%.240s%s: there is no text%s; expected files that are not empty",
                     inputs[0], n_inputs > 1 ? " and others" : "", binary);
}

bool wf_text_list_rereadable(const struct wf_text_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->at[i].kind == WF_TEXT_UNKNOWN)
            return false;
    return true;
}

void wf_text_list_release(struct wf_text_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->at[i].path);
    free(list->at);
    *list = (struct wf_text_list){0};
}

/* -- counting ------------------------------------------------------------------------------ */

static enum weft_status count_document(void *ctx, const struct wf_document *document,
                                       struct weft_error *err)
{
    uint64_t *n = ctx;
    (void)document;
    (void)err;
    ++*n;
    return WEFT_OK;
}

/* Adds the number of records of one file to *n.  Stops when *n reaches `limit`. */
static enum weft_status count_records(const struct wf_text_list *list, size_t file,
                                      uint64_t limit, uint64_t *n, struct weft_error *err)
{
    struct wf_text_list one = {.at = &list->at[file], .n = 1, .options = list->options};
    struct wf_bad_records bad = {0};
    struct wf_text_segment segment = {0};
    struct wf_text_reader reader;
    bool more = true;
    enum weft_status st = WEFT_OK;
    wf_text_reader_init(&reader, &one, NULL, NULL);
    while (st == WEFT_OK && *n < limit) {
        st = wf_text_reader_next(&reader, &segment, &more, err);
        if (st != WEFT_OK || !more)
            break;
        st = wf_text_parse_records(&segment, &list->options, count_document, n, &bad, err);
    }
    free(segment.text);
    wf_text_reader_release(&reader);
    return st;
}

enum weft_status wf_text_list_count(const struct wf_text_list *list, uint64_t limit,
                                    uint64_t *out, struct weft_error *err)
{
    uint64_t n = 0;
    for (size_t i = 0; i < list->n && n < limit; i++) {
        if (list->at[i].kind == WF_TEXT_PLAIN)
            n++;
        else
            WEFT_TRY(count_records(list, i, limit, &n, err));
    }
    *out = n < limit ? n : limit;
    return WEFT_OK;
}

enum weft_status wf_text_list_split(struct wf_text_list *list, double fraction,
                                    struct weft_error *err)
{
    const struct wf_text_file *file = &list->at[0];
    uint64_t size = file->end, cut = (uint64_t)((double)size * fraction);
    if (list->n != 1 || file->kind != WF_TEXT_PLAIN || size == UINT64_MAX)
        return WEFT_FAIL(
            err, WEFT_DATA, "%.240s: is only one document%s; a validation part needs two",
            wf_text_name(file), file->kind == WF_TEXT_PLAIN ? ", and compressed" : "");

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
    WEFT_TRY(append(list, file->path, size, WF_TEXT_PLAIN, err));
    list->at[0].end = list->at[1].begin = cut;
    list->bytes = size;
    return WEFT_OK;
}
