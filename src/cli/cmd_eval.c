/* How well a model predicts tokens. */
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

static const struct weft_option options[] = {
    {"model", 'm', WEFT_OPT_TEXT, "PATH", WEFT_MODEL_HELP, NULL, AT(model)},
    {"data", 'd', WEFT_OPT_TEXT, "SHARDS", "token shards: files, folders, patterns", NULL,
     AT(data)},
    {"seq", 0, WEFT_OPT_COUNT, "N", "tokens of a window (what the model takes, at most 1024)",
     NULL, AT(seq)},
    {"batch", 0, WEFT_OPT_COUNT, "N", "windows at one time (4)", NULL, AT(batch)},
    {"batches", 0, WEFT_OPT_COUNT, "N", "only so many batches (all)", NULL, AT(batches)},
    {"precision", 0, WEFT_OPT_CHOICE, "TYPE", "of the products: fp32 (default) or bf16",
     "fp32|bf16", AT(precision)},
    {"threads", 0, WEFT_OPT_COUNT, "N", "threads (one for each core)", NULL, AT(threads)},
    {"json", 'j', WEFT_OPT_SWITCH, NULL, "figures for programs", NULL, AT(json)},
};

struct eval {
    const struct eval_settings *s;
    struct weft_weights *weights; /* owned, as is all below */
    struct weft_shards *shards;
    struct weft_pool *pool;
    struct weft_tstage *stage;
    struct weft_evaluation result;
    double token_bytes, seconds;
    uint32_t seq;
};

static enum weft_status prepare(struct eval *e, struct weft_error *err)
{
    const struct eval_settings *s = e->s;
    if (s->model == NULL || s->data == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "eval needs --model and --data: see weft eval --help");
    WEFT_TRY(weft_model_open(s->model, &e->weights, err));
    const struct weft_model *model = &weft_weights_info(e->weights)->model;
    WEFT_TRY(weft_shards_open_part(s->data, "val", &e->shards, err));
    e->seq = s->seq != 0 ? s->seq : model->ctx < 1024 ? model->ctx : 1024;
    WEFT_TRY(weft_pool_new(s->threads, &e->pool, err));
    /* Nothing is kept for a backward but the input of each layer, and sums of gradients, which
     * nobody makes, are of the smaller kind. */
    struct weft_tstage_spec spec = {
        .model = *model,
        .item1 = model->layers + 2,
        .seq = e->seq,
        .row_counts = {s->batch},
        .n_row_counts = 1,
        .slots = 1,
        .precision = strcmp(s->precision, "bf16") == 0 ? WEFT_BF16 : WEFT_F32,
        .fast_sums = true,
        .recompute = WEFT_RECOMPUTE_FULL,
        .pool = e->pool,
    };
    WEFT_TRY(weft_tstage_new(&spec, &e->stage, err));
    return weft_load_stage(e->weights, e->stage, err);
}

static enum weft_status measure(struct eval *e, struct weft_error *err)
{
    struct weft_evaluate_data data = {.shards = e->shards,
                                      .rows = e->s->batch,
                                      .seq = e->seq,
                                      .vocab = weft_weights_info(e->weights)->model.vocab,
                                      .batches = e->s->batches};
    int64_t begin = weft_clock_ns();
    WEFT_TRY(weft_evaluate(e->stage, &data, &e->result, err));
    e->seconds = (double)(weft_clock_ns() - begin) * 1e-9;
    e->token_bytes = weft_evaluate_token_bytes(e->shards);
    return WEFT_OK;
}

static void print(const struct eval *e)
{
    double loss = e->result.loss, bits = loss / log(2), tokens = (double)e->result.tokens;
    double per_byte = e->token_bytes > 0 ? bits / e->token_bytes : NAN;
    if (e->s->json) {
        struct weft_json j = {.out = stdout};
        weft_json_begin(&j, NULL, '{');
        weft_json_string(&j, "model", e->s->model);
        weft_json_string(&j, "data", e->s->data);
        weft_json_uint(&j, "seq", e->seq);
        weft_json_uint(&j, "tokens", e->result.tokens);
        weft_json_number(&j, "loss", loss);
        weft_json_number(&j, "perplexity", exp(loss));
        weft_json_number(&j, "bits_per_token", bits);
        weft_json_number(&j, "bits_per_byte", per_byte);
        weft_json_number(&j, "tok_s", tokens / e->seconds);
        weft_json_end(&j, '}');
        putchar('\n');
        return;
    }
    printf("tokens          %llu, in windows of %u\n", (unsigned long long)e->result.tokens,
           e->seq);
    printf("loss            %.6f\n", loss);
    printf("perplexity      %.6g\n", exp(loss));
    printf("bits per token  %.6f\n", bits);
    if (e->token_bytes > 0)
        printf("bits per byte   %.6f (%.4f bytes a token)\n", per_byte, e->token_bytes);
    printf("speed           %.0f tokens/s\n", tokens / e->seconds);
}

static enum weft_status run_eval(int argc, char **argv, struct weft_error *err)
{
    struct eval_settings s = {0};
    const char *operand = NULL;
    WEFT_TRY(weft_command_parse(&weft_command_eval, argc, argv, &s, &operand, err));
    s.batch = s.batch == 0 ? 4 : s.batch;
    s.precision = s.precision == NULL ? "fp32" : s.precision;
    struct eval e = {.s = &s};
    enum weft_status st = prepare(&e, err);
    if (st == WEFT_OK)
        st = measure(&e, err);
    if (st == WEFT_OK)
        print(&e);
    weft_tstage_free(e.stage);
    weft_pool_free(e.pool);
    weft_shards_free(e.shards);
    weft_weights_free(e.weights);
    return st;
}

const struct weft_command weft_command_eval = {
    .name = "eval",
    .summary = "measure how well a model predicts tokens",
    .text =
        "Prints the mean loss (in nats) of a model on token shards, and the same as perplexity\n"
        "and bits. The data is cut in file order into windows; every token but the first is\n"
        "predicted once, from those before it in its window. Bits per byte, which compare\n"
        "models with different tokenizers, need the meta.json that weft tokenize writes\n"
        "beside the shards.\n\n"
        "PATH is\n\n" WEFT_MODEL_TEXT,
    .examples = "  weft eval --model runs/a --data tokens/val-000000.bin\n"
                "  weft eval --model gpt2 --data 'fineweb/*val*.bin' --seq 1024 --batches 20\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_eval,
};
