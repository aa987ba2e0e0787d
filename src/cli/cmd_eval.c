/* weft eval: measures the loss of a model on token shards. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "training/jobs/evaluate.h"

struct eval_settings {
    const char *model, *data, *precision;
    uint32_t seq, batch, batches, threads;
    bool json;
};

#define AT(field) offsetof(struct eval_settings, field)

static const struct wf_option options[] = {
    {"model", 'm', WF_OPTION_TEXT, "PATH", WF_MODEL_HELP, NULL, AT(model)},
    {"data", 'd', WF_OPTION_TEXT, "SHARDS", "token shards: files, directories, patterns", NULL,
     AT(data)},
    {"seq", 0, WF_OPTION_COUNT, "N", "tokens per window (the model's context, at most 1024)",
     NULL, AT(seq)},
    {"batch", 0, WF_OPTION_COUNT, "N", "windows per batch (4)", NULL, AT(batch)},
    {"batches", 0, WF_OPTION_COUNT, "N", "number of batches (all)", NULL, AT(batches)},
    {"precision", 0, WF_OPTION_CHOICE, "TYPE",
     "precision of matrix products: fp32 (default) or bf16", "fp32|bf16", AT(precision)},
    {"threads", 0, WF_OPTION_COUNT, "N", "threads (one per core)", NULL, AT(threads)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "print JSON", NULL, AT(json)},
};

static void print(const struct eval_settings *s, const struct wf_model_evaluation *e)
{
    double loss = e->result.loss, bits = loss / log(2), tokens = (double)e->result.tokens;
    double per_byte = e->token_bytes > 0 ? bits / e->token_bytes : NAN;
    if (s->json) {
        struct wf_json j = {.out = stdout};
        wf_json_begin(&j, NULL, '{');
        wf_json_string(&j, "model", s->model);
        wf_json_string(&j, "data", s->data);
        wf_json_uint(&j, "seq", e->seq);
        wf_json_uint(&j, "tokens", e->result.tokens);
        wf_json_number(&j, "loss", loss);
        wf_json_number(&j, "perplexity", exp(loss));
        wf_json_number(&j, "bits_per_token", bits);
        wf_json_number(&j, "bits_per_byte", per_byte);
        wf_json_number(&j, "tok_s", tokens / e->seconds);
        wf_json_end(&j, '}');
        putchar('\n');
        return;
    }
    printf("tokens          %llu, in windows of %u\n", (unsigned long long)e->result.tokens,
           e->seq);
    printf("loss            %.6f\n", loss);
    printf("perplexity      %.6g\n", exp(loss));
    printf("bits per token  %.6f\n", bits);
    if (e->token_bytes > 0)
        printf("bits per byte   %.6f (%.4f bytes per token)\n", per_byte, e->token_bytes);
    printf("speed           %.0f tokens/s\n", tokens / e->seconds);
}

static enum weft_status run_eval(int argc, char **argv, struct weft_error *err)
{
    struct eval_settings s = {0};
    const char *operand = NULL;
    WEFT_TRY(wf_command_parse(&wf_command_eval, argc, argv, &s, &operand, err));
    s.batch = s.batch == 0 ? 4 : s.batch;
    s.precision = s.precision == NULL ? "fp32" : s.precision;
    if (s.model == NULL || s.data == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "eval needs --model and --data; see weft eval --help");

    struct wf_weights *weights = NULL;
    struct wf_model_evaluation e;
    struct wf_evaluate_options how = {
        .data = s.data,
        .seq = s.seq,
        .rows = s.batch,
        .batches = s.batches,
        .precision = strcmp(s.precision, "bf16") == 0 ? WF_DTYPE_BF16 : WF_DTYPE_F32,
        .threads = s.threads,
    };
    WEFT_TRY(wf_model_open(s.model, &weights, err));
    enum weft_status st = wf_evaluate_model(weights, &how, &e, err);
    if (st == WEFT_OK)
        print(&s, &e);
    wf_weights_free(weights);
    return st;
}

const struct wf_command wf_command_eval = {
    .name = "eval",
    .summary = "measure how well a model predicts tokens",
    .text =
        "Prints the mean loss of a model on token shards in nats, and as perplexity and bits.\n"
        "The data is divided into windows in file order. Every token but the first is predicted\n"
        "once, from the tokens before it in its window. Bits per byte compare models with\n"
        "different tokenizers; they need the meta.json that weft tokenize writes into the\n"
        "directory of the shards.\n\n"
        "PATH is\n\n" WF_MODEL_TEXT,
    .examples = "  weft eval --model runs/a --data tokens/val-000000.bin\n"
                "  weft eval --model gpt2 --data 'fineweb/*val*.bin' --seq 1024 --batches 20\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_eval,
};
