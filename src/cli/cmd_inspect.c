/* weft inspect: finds out what a path is and prints its contents. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/inspect.h"

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

/* -- one path ------------------------------------------------------------------------------- */

static enum weft_status inspect_hash(const char *path, const struct wf_inspect *how,
                                     struct weft_error *err)
{
    enum wf_artifact kind;
    if (access(path, F_OK) != 0 || wf_is_directory(path))
        return wf_inspect_hash(path, how, err);
    WEFT_TRY(wf_artifact_detect(path, &kind, err));
    if (kind == WF_ARTIFACT_LLMC)
        return wf_inspect_hash(path, how, err);
    return WEFT_FAIL(err, WEFT_USAGE,
                     "--hash needs a model: %.200s is a file; give the directory of a model, a "
                     "checkpoint or a run, or a model file of llm.c",
                     path);
}

/* Inspects token shards, which a directory of no other known kind may contain. */
static enum weft_status inspect_shards(const char *path, const struct wf_inspect *how,
                                       struct weft_error *err)
{
    struct weft_error why = {0};
    enum weft_status st = wf_inspect_shards(path, how, &why);
    if (wf_is_directory(path) && st == WEFT_DATA && strstr(why.msg, "no *.bin file") != NULL)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.200s: not a model (config.json), checkpoint (manifest.json), run "
                         "(config.yaml, metrics.jsonl) or directory of token shards (*.bin)",
                         path);
    if (err != NULL)
        *err = why;
    return st;
}

static enum weft_status inspect(const char *path, const struct wf_inspect *how,
                                struct weft_error *err)
{
    static wf_inspect_fn *const readers[WF_ARTIFACT_UNKNOWN] = {
        [WF_ARTIFACT_MODEL] = wf_inspect_model,
        [WF_ARTIFACT_CHECKPOINT] = wf_inspect_checkpoint,
        [WF_ARTIFACT_RUN] = wf_inspect_run,
        [WF_ARTIFACT_SHARDS] = inspect_shards,
        [WF_ARTIFACT_SAFETENSORS] = wf_inspect_safetensors,
        [WF_ARTIFACT_FLIGHT] = wf_inspect_flight,
        [WF_ARTIFACT_TRACE] = wf_inspect_trace,
        [WF_ARTIFACT_METRICS] = wf_inspect_metrics,
        [WF_ARTIFACT_SETTINGS] = wf_inspect_settings,
        [WF_ARTIFACT_SCHEDULE] = wf_inspect_schedule,
    };
    enum wf_artifact kind;
    if (how->hash)
        return inspect_hash(path, how, err);
    WEFT_TRY(wf_artifact_detect(path, &kind, err));

    /* weft prints no summary of a model file of llm.c. */
    if (kind == WF_ARTIFACT_LLMC && wf_path_ends_in(path, ".bin"))
        kind = WF_ARTIFACT_SHARDS;
    if (kind == WF_ARTIFACT_UNKNOWN || readers[kind] == NULL)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.200s: unknown kind of file (expected safetensors, token shards, a "
                         "schedule, a trace, metrics, settings or a flight record)",
                         path);
    return readers[kind](path, how, err);
}

/* -- the command ---------------------------------------------------------------------------- */

static enum weft_status inspect_all(const char *const *paths, size_t n,
                                    const struct inspect_settings *s, struct weft_error *err)
{
    const struct wf_inspect how = {stdout, s->json, s->hash};
    if (n == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "inspect needs a PATH; see weft inspect --help");
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
    .summary = "show what a model, run, shard or schedule contains",
    .operands = "PATH...",
    .text =
        "Shows the kind and the contents of what weft reads and writes: a Hugging Face\n"
        "directory, a safetensors file, the directory of a run, a checkpoint (all of its data\n"
        "is compared with its hashes), token shards, a schedule, a trace, metrics, settings, a\n"
        "flight record. If a file is malformed, the error names the place.\n\n"
        "For an unfinished run it shows the last action of each rank and which rank was lost:\n"
        "the one whose process ended without a record; if there are several, the one with the\n"
        "oldest heartbeat.\n\n"
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
