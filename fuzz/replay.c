/* Runs a fuzz target over stored inputs, without libFuzzer.  If the target has a mutator, runs
 * mutants of each input as well: the same ones every time.
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

#include "mutate.h"

enum { MAX_MUTANT = 1 << 14, N_MUTANTS = 100 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Targets without a mutator do not define it. */
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                                     size_t max_size, unsigned seed);

static int fail(const char *path, const char *why)
{
    fprintf(stderr, "replay: %s: %s\n", path, why);
    return -1;
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    static struct random_numbers r;
    size_t at = random_below(&r, (uint32_t)size + 1);
    if (at < size && random_below(&r, 2) == 0)
        data[at] ^= (uint8_t)(1u << random_below(&r, 8));
    else if (size < max_size) {
        memmove(data + at + 1, data + at, size - at);
        data[at] = (uint8_t)random_below(&r, 256);
        size++;
    }
    return size;
}

/* Runs the target with a buffer of exactly this size, so that a sanitizer detects reads past the
 * end. */
static int run_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL)
        return -1;
    if (size > 0)
        memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    return 0;
}

/* Runs mutants of an input; each is a mutant of the previous one.  Returns their number. */
static int run_mutants(const char *path, const uint8_t *data, size_t size)
{
    static uint8_t mutant[MAX_MUTANT];
    if (LLVMFuzzerCustomMutator == NULL || size > MAX_MUTANT / 2)
        return 0;
    memcpy(mutant, data, size);
    for (unsigned seed = 0; seed < N_MUTANTS; seed++) {
        size = LLVMFuzzerCustomMutator(mutant, size, sizeof mutant, seed);
        if (size > sizeof mutant)
            return fail(path, "the mutator exceeds its buffer");
        if (run_copy(mutant, size) != 0)
            return fail(path, "out of memory");
    }
    return N_MUTANTS;
}

static int replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return fail(path, strerror(errno));
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (data == NULL) {
        fclose(file);
        return fail(path, "out of memory");
    }
    size_t got = fread(data, 1, size, file);
    fclose(file);
    int n_mutants = 0;
    if (got == size) {
        LLVMFuzzerTestOneInput(data, size);
        n_mutants = run_mutants(path, data, size);
    }
    free(data);
    if (got != size)
        return fail(path, "shorter than it was");
    return n_mutants < 0 ? -1 : 1 + n_mutants;
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
