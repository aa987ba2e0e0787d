/* weft inspect: finds out what a path is and prints its contents. */
#include <stdlib.h>

#include "base/error.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/inspect.h"
#include "cli/model.h"
#include "training/unpack/unpack.h"

struct inspect_settings {
    bool hash, json;
};

static const struct wf_option options[] = {
    {"hash", 0, WF_OPTION_SWITCH, NULL,
     "print only a hash of a model's weights, which does not depend on how they are stored",
     NULL, offsetof(struct inspect_settings, hash)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "print one JSON object per path and line", NULL,
     offsetof(struct inspect_settings, json)},
};

/* -- one path ------------------------------------------------------------------------------- */

static enum weft_status print_hash(const char *path, bool json, struct weft_error *err)
{
    struct weft_checkpoint *c = NULL;
    char hash[WEFT_CHECKPOINT_HASH_SIZE];
    enum weft_status st = wf_artifact_check_hash(path, err);
    if (st == WEFT_USAGE)
        wf_error_wrap(err, "--hash needs a model: ", "");
    WEFT_TRY(st);
    WEFT_TRY(wf_model_open(path, &c, err));
    st = weft_checkpoint_hash(c, hash, err);
    weft_checkpoint_free(c);
    if (st == WEFT_OK && json) {
        wf_inspect_write_hash_json(&(struct wf_json){.out = stdout}, path, hash);
        putchar('\n');
    } else if (st == WEFT_OK) {
        printf("%s  %s\n", hash, wf_shown(path).at);
    }
    return st;
}

static enum weft_status inspect(const char *path, bool json, struct weft_error *err)
{
    struct wf_inspection v;
    WEFT_TRY(wf_inspect(&v, path, wf_unpack_read_as, err));
    if (json) {
        wf_inspection_write_json(&(struct wf_json){.out = stdout}, &v, path);
        putchar('\n');
    } else {
        wf_inspection_print(&v, path, stdout);
    }
    wf_inspection_release(&v);
    return WEFT_OK;
}

/* -- the command ---------------------------------------------------------------------------- */

static enum weft_status inspect_all(const char *const *paths, size_t n,
                                    const struct inspect_settings *s, struct weft_error *err)
{
    if (n == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "inspect needs a PATH; see weft inspect --help");
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && !s->json && !s->hash)
            putchar('\n');
        WEFT_TRY(s->hash ? print_hash(paths[i], s->json, err)
                         : inspect(paths[i], s->json, err));
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
    .summary = "show what a model, run, shard or schedule contains",
    .operands = "PATH...",
    .text =
        "Shows the kind and the contents of what weft reads and writes: a Hugging Face\n"
        "directory, a safetensors file, the directory of a run, a checkpoint (all of its data\n"
        "is compared with its hashes), token shards, a schedule, a trace, metrics, settings, a\n"
        "flight record. If a file is malformed, the error names the place.\n\n"
        "For an unfinished run it shows the last action of each rank and which rank was lost.\n"
        "The lost rank is the rank whose process ended without recording its end; if there are\n"
        "several, the rank with the oldest heartbeat.\n\n"
        "The hash (XXH3, 128 bits) covers names, shapes and values of all weights, in the order\n"
        "of the model and as fp32. It does not depend on how the weights are divided into files\n"
        "or whether they are stored as bf16 or fp32. For a run it is the hash of its final\n"
        "weights; before the run is finished, that of its newest checkpoint, and a line on\n"
        "standard error names it.\n",
    .examples = "  weft inspect runs/a\n"
                "  weft inspect --hash runs/a runs/b\n"
                "  weft inspect --json gpt2/model.safetensors tokens.bin\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_inspect,
};
