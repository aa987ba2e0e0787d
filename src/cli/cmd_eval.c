/* weft eval: measures the loss of a model on token shards. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "training/trainer/evaluate.h"

struct eval_settings {
    const char *model, *data, *precision;
    uint32_t seq, batch, batches, threads;
    bool json;
};

#define AT(field) offsetof(struct eval_settings, field)

static const struct wf_option options[] = {
    {"model", 'm', WF_OPTION_TEXT, "PATH", WF_MODEL_HELP, NULL, AT(model)},
    {"data", 'd', WF_OPTION_TEXT, "SHARDS", "token shards: files, folders, patterns", NULL,
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

struct eval {
    const struct eval_settings *s;
    struct wf_weights *weights; /* owned, as is all below */
    struct wf_shards *shards;
    struct wf_pool *pool;
    struct wf_tstage *stage;
    struct wf_evaluation result;
    double token_bytes, seconds;
    uint32_t seq;
};

static enum weft_status prepare(struct eval *e, struct weft_error *err)
{
    const struct eval_settings *s = e->s;
    if (s->model == NULL || s->data == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "eval needs --model and --data; see weft eval --help");
    WEFT_TRY(wf_model_open(s->model, &e->weights, err));
    const struct weft_model *model = &wf_weights_info(e->weights)->model;
    WEFT_TRY(wf_shards_open_split(s->data, "val", &e->shards, err));
    e->seq = s->seq != 0 ? s->seq : model->ctx < 1024 ? model->ctx : 1024;
    WEFT_TRY(wf_pool_new(s->threads, &e->pool, err));
    /* There is no backward pass: recomputation and fast sums need the least memory. */
    struct wf_tstage_spec spec = {
        .model = *model,
        .item1 = model->layers + 2,
        .seq = e->seq,
        .row_counts = {s->batch},
        .n_row_counts = 1,
        .slots = 1,
        .precision = strcmp(s->precision, "bf16") == 0 ? WF_DTYPE_BF16 : WF_DTYPE_F32,
        .fast_sums = true,
        .recompute = WF_RECOMPUTE_FULL,
        .pool = e->pool,
    };
    WEFT_TRY(wf_tstage_new(&spec, &e->stage, err));
    return wf_load_stage(e->weights, e->stage, err);
}

static enum weft_status measure(struct eval *e, struct weft_error *err)
{
    struct wf_evaluate_data data = {.shards = e->shards,
                                    .rows = e->s->batch,
                                    .seq = e->seq,
                                    .vocab = wf_weights_info(e->weights)->model.vocab,
                                    .batches = e->s->batches};
    int64_t begin = wf_clock_ns();
    WEFT_TRY(wf_evaluate(e->stage, &data, &e->result, err));
    e->seconds = (double)(wf_clock_ns() - begin) * 1e-9;
    e->token_bytes = wf_evaluate_token_bytes(e->shards);
    return WEFT_OK;
}

static void print(const struct eval *e)
{
    double loss = e->result.loss, bits = loss / log(2), tokens = (double)e->result.tokens;
    double per_byte = e->token_bytes > 0 ? bits / e->token_bytes : NAN;
    if (e->s->json) {
        struct wf_json j = {.out = stdout};
        wf_json_begin(&j, NULL, '{');
        wf_json_string(&j, "model", e->s->model);
        wf_json_string(&j, "data", e->s->data);
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
    struct eval e = {.s = &s};
    enum weft_status st = prepare(&e, err);
    if (st == WEFT_OK)
        st = measure(&e, err);
    if (st == WEFT_OK)
        print(&e);
    wf_tstage_free(e.stage);
    wf_pool_free(e.pool);
    wf_shards_free(e.shards);
    wf_weights_free(e.weights);
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
