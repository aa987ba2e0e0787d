/* weft convert: parses the options and converts stored weights. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/printable.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "training/jobs/convert.h"

struct convert_settings {
    const char *to, *type, *shard_bytes, *step;
};

#define AT(field) offsetof(struct convert_settings, field)

static const struct wf_option options[] = {
    {"to", 0, WF_OPTION_CHOICE, "FORM",
     "form of OUT: hf, a Hugging Face directory (default), or checkpoint", "hf|checkpoint",
     AT(to)},
    {"type", 't', WF_OPTION_CHOICE, "TYPE", "hf: type of the weights: f32 (default) or bf16",
     "f32|bf16", AT(type)},
    {"shard-bytes", 0, WF_OPTION_BYTES, "N", "hf: maximum size of a file (default: 5GB)", NULL,
     AT(shard_bytes)},
    {"step", 0, WF_OPTION_TEXT, "N",
     "checkpoint: the step that a run continues from (default: 0)", NULL, AT(step)},
};

/* -- settings ------------------------------------------------------------------------------- */

/* Parses a whole number, or bytes with a unit.  If `text` is NULL, *out stays unchanged. */
static enum weft_status parse_number(const char *text, const char *name,
                                     enum wf_quantity quantity, uint64_t min, uint64_t *out,
                                     struct weft_error *err)
{
    const char *end = NULL;
    struct wf_amount amount;
    if (text == NULL)
        return WEFT_OK;
    bool with_unit = wf_amount_read(text, quantity, &amount, &end) == WF_AMOUNT_OK &&
                     *end == '\0' && amount.scale > 0;
    double value = with_unit ? wf_amount_value(amount, quantity) : 0;
    if (with_unit && value >= (double)min && value < 1e18) {
        *out = (uint64_t)value;
        return WEFT_OK;
    }
    unsigned long long n = strtoull(text, NULL, 10);
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text) || strlen(text) > 18 ||
        n < min)
        return WEFT_FAIL(
            err, WEFT_USAGE, "--%s: '%.40s' is not a whole number of at least %llu%s%s", name,
            text, (unsigned long long)min, quantity == WF_QUANTITY_PLAIN ? "" : "; give ",
            quantity == WF_QUANTITY_PLAIN ? "" : wf_quantity_example(quantity));
    *out = n;
    return WEFT_OK;
}

static bool to_checkpoint(const struct convert_settings *s)
{
    return s->to != NULL && strcmp(s->to, "checkpoint") == 0;
}

static enum weft_status check_settings(const struct convert_settings *s, struct weft_error *err)
{
    if (to_checkpoint(s) && (s->type != NULL || s->shard_bytes != NULL))
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "--%s applies to a Hugging Face directory only: a checkpoint is one file in f32",
            s->type != NULL ? "type" : "shard-bytes");
    if (!to_checkpoint(s) && s->step != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "--step needs --to checkpoint");
    return WEFT_OK;
}

/* -- the command ---------------------------------------------------------------------------- */

static void print_note(const struct wf_convert_result *r)
{
    if (r->note[0] != '\0')
        fprintf(stderr, "weft: warning: %s\n", wf_shown(r->note).at);
}

static enum weft_status to_hf(const struct weft_checkpoint *from, const char *out,
                              const struct wf_convert_options *how, struct weft_error *err)
{
    const struct weft_model *m = weft_checkpoint_model(from);
    struct wf_convert_result r;
    WEFT_TRY(wf_convert_to_hf(wf_checkpoint_weights(from), out, how, &r, err));
    print_note(&r);
    printf("%s: %s, %u layer%s of dimension %u, %zu tensors, %s\n", wf_shown(out).at,
           weft_arch_name(m->arch), m->layers, wf_plural(m->layers), m->dim, r.n_tensors,
           wf_dtype_name(how->type));
    return WEFT_OK;
}

static enum weft_status to_ckpt(const struct weft_checkpoint *from, const char *out,
                                const struct wf_convert_options *how, struct weft_error *err)
{
    struct wf_convert_result r;
    WEFT_TRY(wf_convert_to_checkpoint(wf_checkpoint_weights(from), out, how, &r, err));
    print_note(&r);
    printf("%s: a checkpoint of step %llu, %zu tensors, moments zero\n", wf_shown(out).at,
           (unsigned long long)how->step, r.n_tensors);
    return WEFT_OK;
}

static enum weft_status convert(const char *in, const char *out,
                                const struct convert_settings *s, struct weft_error *err)
{
    struct weft_checkpoint *from = NULL;
    struct wf_convert_options how = wf_convert_defaults();
    if (s->type != NULL && strcmp(s->type, "bf16") == 0)
        how.type = WF_DTYPE_BF16;
    WEFT_TRY(check_settings(s, err));
    WEFT_TRY(parse_number(s->shard_bytes, "shard-bytes", WF_QUANTITY_BYTES, 1, &how.shard_bytes,
                          err));
    WEFT_TRY(parse_number(s->step, "step", WF_QUANTITY_PLAIN, 0, &how.step, err));
    WEFT_TRY(wf_model_open(in, &from, err));
    enum weft_status st =
        to_checkpoint(s) ? to_ckpt(from, out, &how, err) : to_hf(from, out, &how, err);
    weft_checkpoint_free(from);
    return st;
}

static enum weft_status run_convert(int argc, char **argv, struct weft_error *err)
{
    struct convert_settings s = {0};
    const char **paths = malloc(sizeof *paths * ((size_t)argc + 1));
    size_t n = 0;
    if (paths == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %d arguments", argc);
    enum weft_status st =
        wf_options_parse(wf_command_convert.options, argc, argv, &s, paths, &n, err);
    if (st == WEFT_OK && n != 2)
        st = WEFT_FAIL(err, WEFT_USAGE,
                       "convert needs IN and OUT, not %zu name%s; see weft convert --help", n,
                       wf_plural(n));
    if (st == WEFT_OK)
        st = convert(paths[0], paths[1], &s, err);
    free(paths);
    return st;
}

const struct wf_command wf_command_convert = {
    .name = "convert",
    .summary = "convert stored weights into another form",
    .operands = "IN OUT",
    .text =
        "Reads a model and writes it as a new directory OUT: a Hugging Face directory\n"
        "(config.json and safetensors), or a checkpoint from which a run can start. IN is\n"
        "\n" WF_MODEL_TEXT "\n"
        "OUT is written atomically; a directory that is not empty is not changed. All files\n"
        "beside the weights are copied, such as the tokenizer and the chat template, and\n"
        "config.json keeps its other keys; for a checkpoint they are those of its run.\n\n"
        "A checkpoint written by weft convert contains only weights: AdamW's moments are zero,\n"
        "as at the start of a run. A run with settings of the same model continues from it\n"
        "with --checkpoint.resume=OUT.\n",
    .examples = "  weft convert gpt2_124M.bin gpt2\n"
                "  weft convert runs/a small --type bf16\n"
                "  weft convert runs/a/checkpoints/step-00000100 early\n"
                "  weft convert gpt2 start --to checkpoint\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_convert,
};
