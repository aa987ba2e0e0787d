/* Reads any files as the directory of a run, as `report` and `inspect` do.  Checks that the page
 * has no script but its own, that JSON is valid, and that text is printable.
 *
 * An input is a list of files: a line "name length", and then the bytes of the file.  Names that
 * are not in the table below are ignored.  The mutator changes, adds and removes files. */
#define _XOPEN_SOURCE 700 /* mkdtemp, nftw */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/inspect.h"
#include "mutate.h"
#include "printed.h"
#include "require.h"
#include "training/report/page_priv.h"
#include "training/unpack/unpack.h"

/* A folder comes after the one that contains it. */
static const char *const folders[] = {"trace", "checkpoints", "checkpoints/step-00000010",
                                      "model", "ranks"};
static const char *const names[] = {"config.yaml",
                                    "metrics.jsonl",
                                    "samples.jsonl",
                                    "plan.json",
                                    "schedule.csv",
                                    "trace/step-000001.trace",
                                    "trace/step-000002-replica-0.trace",
                                    "checkpoints/step-00000010/manifest.json",
                                    "checkpoints/step-00000010/rank-00000.safetensors",
                                    "model/config.json",
                                    "model/model.safetensors",
                                    "model/model.safetensors.index.json",
                                    "ranks/0",
                                    "ranks/1"};
enum { N_NAMES = sizeof names / sizeof names[0], LINE = 80 };

/* A file of an input. */
struct file {
    const uint8_t *at; /* borrowed; NULL: the input has no such file */
    size_t n;
};

/* -- the directory ------------------------------------------------------------------------- */

static char root[256]; /* "": not created */

static int remove_path(const char *path, const struct stat *info, int flag, struct FTW *ftw)
{
    (void)info, (void)flag, (void)ftw;
    return remove(path);
}

static void remove_root(void)
{
    nftw(root, remove_path, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *path_of(const char *name)
{
    static char path[sizeof root + LINE];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

/* Creates the directory in $TMPDIR, which tools/fuzz.sh sets to a directory in memory. */
static void create_root(void)
{
    const char *parent = getenv("TMPDIR");
    snprintf(root, sizeof root, "%.200s/weft-run-XXXXXX", parent != NULL ? parent : "/tmp");
    require(mkdtemp(root) != NULL);
    atexit(remove_root);
}

/* Returns true if the input has a file in the folder. */
static bool has_files(const struct file files[N_NAMES], const char *folder)
{
    size_t n = strlen(folder), i = 0;
    while (i < N_NAMES && (files[i].at == NULL || strncmp(names[i], folder, n) != 0))
        i++;
    return i < N_NAMES;
}

/* Removes the files of the previous input that this one does not have, and creates or removes
 * folders. */
static void prepare_folders(const struct file files[N_NAMES])
{
    static bool file_exists[N_NAMES], folder_exists[WEFT_LEN(folders)];
    for (size_t i = 0; i < N_NAMES; i++) {
        if (files[i].at == NULL && file_exists[i])
            require(unlink(path_of(names[i])) == 0);
        file_exists[i] = files[i].at != NULL;
    }

    for (size_t i = WEFT_LEN(folders); i-- > 0;)
        if (folder_exists[i] && !has_files(files, folders[i]))
            require(rmdir(path_of(folders[i])) == 0);
    for (size_t i = 0; i < WEFT_LEN(folders); i++) {
        bool wanted = has_files(files, folders[i]);
        if (!folder_exists[i] && wanted)
            require(mkdir(path_of(folders[i]), 0700) == 0);
        folder_exists[i] = wanted;
    }
}

static void write_files(const struct file files[N_NAMES])
{
    if (root[0] == '\0')
        create_root();
    prepare_folders(files);
    for (size_t i = 0; i < N_NAMES; i++) {
        if (files[i].at == NULL)
            continue;
        int fd = open(path_of(names[i]), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        require(fd >= 0 && write(fd, files[i].at, files[i].n) == (ssize_t)files[i].n);
        close(fd);
    }
}

/* -- the list of files --------------------------------------------------------------------- */

static size_t find_name(const char *name)
{
    size_t i = 0;
    while (i < N_NAMES && strcmp(names[i], name) != 0)
        i++;
    return i;
}

/* Finds the files in an input.  A length that is too large means the rest of the input. */
static void split(const uint8_t *data, size_t size, struct file files[N_NAMES])
{
    memset(files, 0, N_NAMES * sizeof *files);
    for (size_t at = 0; at < size;) {
        char line[LINE], name[LINE];
        unsigned n = 0;
        const uint8_t *newline = memchr(data + at, '\n', size - at);
        size_t len = newline == NULL ? size - at : (size_t)(newline - data) - at;
        snprintf(line, sizeof line, "%.*s", (int)len, (const char *)data + at);
        at = newline == NULL ? size : at + len + 1;
        if (sscanf(line, "%70s %9u", name, &n) != 2)
            continue;
        size_t i = find_name(name), length = n < size - at ? n : size - at;
        if (i < N_NAMES)
            files[i] = (struct file){data + at, length};
        at += length;
    }
}

/* Writes the list.  Returns its size, or 0 if it is larger than max_size. */
static size_t join(const struct file files[N_NAMES], uint8_t *data, size_t max_size)
{
    size_t at = 0;
    for (size_t i = 0; i < N_NAMES; i++) {
        char line[LINE];
        int n = snprintf(line, sizeof line, "%s %zu\n", names[i], files[i].n);
        if (files[i].at == NULL)
            continue;
        if ((size_t)n > max_size - at || files[i].n > max_size - at - (size_t)n)
            return 0;
        memcpy(data + at, line, (size_t)n);
        memcpy(data + at + n, files[i].at, files[i].n);
        at += (size_t)n + files[i].n;
    }
    return at;
}

/* -- checks -------------------------------------------------------------------------------- */

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        n++;
    return n;
}

/* Checks the scripts of the page and the data of its charts. */
static void check_page(const char *page, size_t len)
{
    static const char begin[] = "id=\"data\">";
    require(strlen(page) == len && count(page, "<script") == 2);
    require(count(page, "</script>") == 2 && count(page, "<style") == 1);
    const char *data = strstr(page, begin);
    require(data != NULL);
    data += sizeof begin - 1;
    json_t *value = json_loadb(data, (size_t)(strstr(data, "</script>") - data),
                               JSON_REJECT_DUPLICATES, NULL);
    require(value != NULL);
    json_decref(value);
}

static void check_report(void)
{
    struct wf_run run;
    struct weft_error err = {.msg = ""};
    require(wf_run_init(&run, root, NULL) == WEFT_OK);
    enum weft_status st = wf_run_update(&run, &err);
    if (st != WEFT_OK) {
        require(st == WEFT_DATA && err.status == st);
        require_message(err.msg);
        wf_run_release(&run);
        return;
    }

    struct printed page, data;
    printed_begin(&page);
    require(wf_page_write(page.out, &run, 1, false, &err) == WEFT_OK);
    require(fclose(page.out) == 0);
    check_page(page.text, page.len);
    free(page.text);

    require(wf_run_update(&run, &err) == WEFT_OK);
    printed_begin(&data);
    wf_page_write_data(data.out, &run, 1);
    printed_end_json(&data);
    wf_run_release(&run);
}

static void check_inspect(void)
{
    struct wf_inspection v;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_inspect(&v, root, wf_unpack_read_as, &err);
    if (st != WEFT_OK) {
        require((st == WEFT_DATA || st == WEFT_CKPT) && err.status == st);
        require_message(err.msg);
        return;
    }

    struct printed text, json;
    printed_begin(&json);
    wf_inspection_write_json(&(struct wf_json){.out = json.out}, &v, "run");
    printed_end_json(&json);
    printed_begin(&text);
    wf_inspection_print(&v, "run", text.out);
    require(printed_end(&text) > 0);
    wf_inspection_release(&v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct file files[N_NAMES];
    split(data, size, files);
    write_files(files);
    check_report();
    check_inspect();
    return 0;
}

/* -- the mutator --------------------------------------------------------------------------- */

/* Changes a file in a buffer of max_size bytes and returns its new size. */
static size_t change_file(size_t name, uint8_t *buffer, size_t n, size_t max_size,
                          unsigned seed)
{
    bool json = strstr(names[name], ".json") != NULL;
    return json ? mutate_json_text(buffer, n, max_size, seed)
                : LLVMFuzzerMutate(buffer, n, max_size);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    struct random_numbers r = {seed, 0};
    struct file files[N_NAMES];
    uint8_t *copy = malloc(size + 1), *buffer = malloc(max_size);
    require(copy != NULL && buffer != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    split(copy, size, files);

    /* One mutant in eight may add a file; the others change or remove one that exists. */
    size_t i = random_below(&r, N_NAMES);
    for (size_t k = 0; k < N_NAMES && files[i].at == NULL && seed % 8 != 0; k++)
        i = (i + 1) % N_NAMES;
    if (random_below(&r, 16) == 0) {
        files[i] = (struct file){NULL, 0};
    } else {
        size_t n = files[i].n < max_size ? files[i].n : max_size;
        if (n > 0)
            memcpy(buffer, files[i].at, n);
        files[i] = (struct file){buffer, change_file(i, buffer, n, max_size, seed)};
    }

    size_t n = join(files, data, max_size);
    if (n == 0 && size > 0)
        memcpy(data, copy, size);
    free(copy);
    free(buffer);
    return n > 0 ? n : LLVMFuzzerMutate(data, size, max_size);
}
