/* Says what a file or directory is and what is in it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/inspect.h"
#include "training/ckpt/file.h"

struct inspect_settings {
    bool hash, json;
};

static const struct wf_option options[] = {
    {"hash", 0, WF_OPTION_SWITCH, NULL,
     "print only a hash of a model's weights: the same for the same numbers, however stored",
     NULL, offsetof(struct inspect_settings, hash)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "an object for each path, one a line", NULL,
     offsetof(struct inspect_settings, json)},
};

/* -- what the kinds share ------------------------------------------------------------------- */

enum { MOST_TEXT = 1 << 30 };

enum weft_status wf_as_data(enum weft_status st, struct weft_error *err)
{
    if (st != WEFT_USAGE && st != WEFT_SCHEDULE && st != WEFT_CKPT)
        return st;
    if (err != NULL)
        err->status = WEFT_DATA;
    return WEFT_DATA;
}

enum weft_status wf_inspect_text(const char *path, char **text, size_t *len,
                                 struct weft_error *err)
{
    return wf_as_data(wf_file_read(path, MOST_TEXT, text, len, err), err);
}

void wf_inspect_begin(struct wf_json *j, FILE *out, const char *path, const char *kind)
{
    *j = (struct wf_json){.out = out};
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "path", path);
    wf_json_string(j, "kind", kind);
}

void wf_inspect_end(struct wf_json *j)
{
    wf_json_end(j, '}');
    fputc('\n', j->out);
}

/* -- which kind it is ----------------------------------------------------------------------- */

enum { HEAD_BYTES = 4096 };

/* The first bytes of a file. */
struct head {
    unsigned char at[HEAD_BYTES + 1]; /* ends in NUL */
    size_t n;
};

static enum weft_status read_head(const char *path, struct head *head, struct weft_error *err)
{
    int fd;
    uint64_t size;
    WEFT_TRY(wf_as_data(wf_file_open(path, &fd, &size, err), err));
    head->n = size < HEAD_BYTES ? (size_t)size : HEAD_BYTES;
    enum weft_status st = wf_as_data(wf_file_read_at(fd, path, 0, head->at, head->n, err), err);
    head->at[head->n] = '\0';
    close(fd);
    if (st == WEFT_OK && size == 0)
        st = WEFT_FAIL(err, WEFT_DATA, "%.300s is empty", path);
    return st;
}

static uint64_t little_endian(const unsigned char *at, unsigned n)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static bool is_shard(const struct head *h)
{
    uint64_t magic = h->n < 4 ? 0 : little_endian(h->at, 4);
    return magic == 20240520 || magic == 20240801;
}

static bool is_llmc(const struct head *h)
{
    return h->n >= 4 && little_endian(h->at, 4) == 20240326;
}

static bool is_safetensors(const struct head *h)
{
    return h->n > 8 && h->at[8] == '{' && little_endian(h->at, 8) <= WF_SAFETENSORS_MAX_HEADER;
}

static bool is_text(const struct head *h)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->at[i] == 0x7f || (h->at[i] < ' ' && strchr("\t\n\r", h->at[i]) == NULL) ||
            h->at[i] == '\0')
            return false;
    return true;
}

/* A schedule begins with its header, with a cell, or with idle steps before one. */
static bool is_schedule(const struct head *h)
{
    size_t i = strspn((const char *)h->at, ", \t(");
    return strncmp((const char *)h->at, "# weft schedule", 15) == 0 ||
           (h->at[i] >= '0' && h->at[i] <= '9');
}

typedef enum weft_status inspect_fn(const char *path, const struct wf_inspect *how,
                                    struct weft_error *err);

/* What the bytes say comes first; the name decides what the errors of a broken file speak of. */
static inspect_fn *kind_of_file(const char *path, const struct head *h)
{
    const char *text = (const char *)h->at;
    if (is_shard(h))
        return wf_inspect_shards;
    if (h->n >= 8 && memcmp(h->at, "weftrank", 8) == 0)
        return wf_inspect_flight;
    if (is_safetensors(h) || wf_path_ends_in(path, ".safetensors"))
        return wf_inspect_safetensors;
    if (wf_path_ends_in(path, ".bin"))
        return wf_inspect_shards;
    if (!is_text(h))
        return NULL;
    if (weft_trace_detect(text, h->n) || wf_path_ends_in(path, ".trace"))
        return wf_inspect_trace;
    if (wf_path_ends_in(path, ".jsonl"))
        return wf_inspect_metrics;
    if (wf_path_ends_in(path, ".yaml") || wf_path_ends_in(path, ".yml"))
        return wf_inspect_settings;
    return wf_path_ends_in(path, ".csv") || is_schedule(h) ? wf_inspect_schedule : NULL;
}

static enum weft_status inspect_file(const char *path, const struct wf_inspect *how,
                                     struct weft_error *err)
{
    struct head head;
    WEFT_TRY(read_head(path, &head, err));
    if (how->hash && is_llmc(&head))
        return wf_inspect_hash(path, how, err);
    if (how->hash)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--hash is of a model: %.200s is a file, give the directory of a "
                         "model, a checkpoint or a run, or a model of llm.c",
                         path);
    inspect_fn *kind = kind_of_file(path, &head);
    if (kind == NULL)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.200s is nothing that weft knows: no safetensors file, token shard, "
                         "schedule, trace, metrics or settings",
                         path);
    return kind(path, how, err);
}

static enum weft_status inspect_directory(const char *path, const struct wf_inspect *how,
                                          struct weft_error *err)
{
    if (wf_dir_contains(path, "config.json") || wf_dir_contains(path, "model.safetensors"))
        return wf_inspect_model(path, how, err);
    if (wf_dir_contains(path, "manifest.json"))
        return wf_inspect_checkpoint(path, how, err);
    if (wf_dir_contains(path, "config.yaml") || wf_dir_contains(path, "metrics.jsonl") ||
        wf_dir_contains(path, "ranks"))
        return wf_inspect_run(path, how, err);
    if (access(path, R_OK | X_OK) != 0)
        return WEFT_FAIL(err, WEFT_DATA, "%.300s: %s", path, strerror(errno));
    struct weft_error why = {0};
    enum weft_status st = wf_inspect_shards(path, how, &why);
    if (st == WEFT_DATA && strstr(why.msg, "no *.bin file") != NULL)
        return WEFT_FAIL(
            err, WEFT_DATA,
            "%.200s is no model (config.json), no checkpoint (manifest.json), no "
            "run (config.yaml, metrics.jsonl) and no folder of token shards (*.bin)",
            path);
    if (err != NULL)
        *err = why;
    return st;
}

static enum weft_status inspect(const char *path, const struct wf_inspect *how,
                                struct weft_error *err)
{
    struct stat info;
    bool there = stat(path, &info) == 0;
    if (how->hash && (!there || S_ISDIR(info.st_mode)))
        return wf_inspect_hash(path, how, err);
    if (!there)
        return WEFT_FAIL(err, WEFT_DATA, "%.300s: %s", path, strerror(errno));
    return S_ISDIR(info.st_mode) ? inspect_directory(path, how, err)
                                 : inspect_file(path, how, err);
}

/* -- the command ---------------------------------------------------------------------------- */

static enum weft_status inspect_all(const char *const *paths, size_t n,
                                    const struct inspect_settings *s, struct weft_error *err)
{
    const struct wf_inspect how = {stdout, s->json, s->hash};
    if (n == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "inspect needs a PATH: see weft inspect --help");
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && !s->json && !s->hash)
            fputc('\n', how.out);
        WEFT_TRY(inspect(paths[i], &how, err));
    }
    return WEFT_OK;
}

static enum weft_status run_inspect(int argc, char **argv, struct weft_error *err)
{
    struct inspect_settings s = {0};
    const char **paths = malloc(sizeof *paths * ((size_t)argc + 1));
    size_t n = 0;
    if (paths == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %d arguments", argc);
    enum weft_status st =
        wf_options_parse(wf_command_inspect.options, argc, argv, &s, paths, &n, err);
    if (st == WEFT_OK)
        st = inspect_all(paths, n, &s, err);
    free(paths);
    return st;
}

const struct wf_command wf_command_inspect = {
    .name = "inspect",
    .summary = "say what a model, run, shard or schedule is and what is in it",
    .operands = "PATH...",
    .text =
        "Reads what weft reads and writes, and says what it is: a Hugging Face directory or\n"
        "one safetensors file, the directory of a run, a checkpoint (all of it is compared with\n"
        "its hashes), token shards, a schedule, a trace, metrics, settings, a rank's record.\n"
        "What is broken is named, and where.\n\n"
        "Of a run that was not finished it says what each rank was last at, and which one\n"
        "was lost: the one that ended without a word, of several the one whose last sign\n"
        "is the oldest.\n\n"
        "The hash (XXH3, 128 bits) is over names, shapes and values of all weights, in the\n"
        "order of the model and as fp32: how the files are cut, and whether they hold bf16\n"
        "or fp32, does not matter. Of a run it is that of its final weights, or, with a line on\n"
        "standard error, of its newest checkpoint.\n",
    .examples = "  weft inspect runs/a\n"
                "  weft inspect --hash runs/a runs/b\n"
                "  weft inspect --json gpt2/model.safetensors tokens.bin\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_inspect,
};
