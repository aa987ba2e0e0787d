/* Runs a fuzz target over stored inputs, without libFuzzer.
 *
 * Every argument is a file or a directory; directories are read in name order.  The empty input
 * always runs first, so no corpus needs to contain it.  The exit code is 1 if a file cannot be
 * read.  A target that finds a fault aborts the program.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int fail(const char *path, const char *why)
{
    fprintf(stderr, "replay: %s: %s\n", path, why);
    return -1;
}

static int replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return fail(path, strerror(errno));
    /* A buffer of exactly this size, so that a sanitizer detects reads past the end. */
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (data == NULL) {
        fclose(file);
        return fail(path, "out of memory");
    }
    size_t got = fread(data, 1, size, file);
    fclose(file);
    if (got == size)
        LLVMFuzzerTestOneInput(data, size);
    free(data);
    return got == size ? 1 : fail(path, "shorter than it was");
}

static int replay_path(const char *path);

static int skip_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int replay_folder(const char *path)
{
    struct dirent **entries = NULL;
    int n_entries = scandir(path, &entries, skip_hidden, alphasort);
    if (n_entries < 0)
        return fail(path, strerror(errno));
    int n_run = 0;
    for (int i = 0; i < n_entries; i++) {
        char inner[4096];
        int len = snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        int n = len < (int)sizeof inner ? replay_path(inner) : fail(path, "path too long");
        n_run = n < 0 || n_run < 0 ? -1 : n_run + n;
        free(entries[i]);
    }
    free(entries);
    return n_run;
}

/* Returns the number of inputs that were run, or -1 after it printed a message. */
static int replay_path(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return fail(path, strerror(errno));
    return S_ISDIR(st.st_mode) ? replay_folder(path) : replay_file(path, (size_t)st.st_size);
}

int main(int argc, char **argv)
{
    uint8_t nothing = 0;
    LLVMFuzzerTestOneInput(&nothing, 0);
    int n_run = 1, status = EXIT_SUCCESS;
    for (int i = 1; i < argc; i++) {
        int n = replay_path(argv[i]);
        if (n < 0)
            status = EXIT_FAILURE;
        else
            n_run += n;
    }
    printf("%d inputs replayed\n", n_run);
    return status;
}
