/* weft eval: measures the loss of a model on token shards. */
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "training/jobs/evaluate.h"
#include "training/session/session.h"

struct eval_settings {
    const char *model, *data, *precision;
    uint32_t seq, batch, batches, threads, ranks;
    bool json;
};

#define AT(field) offsetof(struct eval_settings, field)

static const struct wf_option options[] = {
    {"model", 'm', WF_OPTION_TEXT, "PATH", WF_MODEL_HELP, NULL, AT(model)},
    {"data", 'd', WF_OPTION_TEXT, "SHARDS", "token shards: files, directories, patterns", NULL,
     AT(data)},
    {"seq", 0, WF_OPTION_COUNT, "N",
     "tokens per window (default: the model's context, at most 1024)", NULL, AT(seq)},
    {"batch", 0, WF_OPTION_COUNT, "N", "windows per batch (default: 4)", NULL, AT(batch)},
    {"batches", 0, WF_OPTION_COUNT, "N", "number of batches (default: all)", NULL, AT(batches)},
    {"precision", 0, WF_OPTION_CHOICE, "TYPE",
     "precision of matrix products: fp32 (default) or bf16", "fp32|bf16", AT(precision)},
    {"ranks", 0, WF_OPTION_COUNT, "N",
     "number of ranks, with a part of the model each (default: 1, or as mpirun starts)", NULL,
     AT(ranks)},
    {"threads", 0, WF_OPTION_COUNT, "N",
     "threads per rank (default: cores are divided evenly among ranks)", NULL, AT(threads)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "print JSON", NULL, AT(json)},
};

static void print(const struct eval_settings *s, const struct wf_model_evaluation *e)
{
    if (s->json) {
        wf_model_evaluation_write_json(&(struct wf_json){.out = stdout}, e, s->model, s->data);
        putchar('\n');
        return;
    }
    printf("tokens          %llu, in windows of %u\n", (unsigned long long)e->result.tokens,
           e->seq);
    printf("loss            %.6f\n", e->result.loss);
    printf("perplexity      %.6g\n", e->perplexity);
    printf("bits per token  %.6f\n", e->bits_per_token);
    if (e->token_bytes > 0)
        printf("bits per byte   %.6f (%.4f bytes per token)\n", e->bits_per_byte,
               e->token_bytes);
    printf("speed           %.0f tokens/s\n", e->tok_s);
}

static enum weft_status parse(int argc, char **argv, struct eval_settings *s,
                              struct weft_error *err)
{
    const char *operand = NULL;
    WEFT_TRY(wf_command_parse(&wf_command_eval, argc, argv, s, &operand, err));
    if (s->model == NULL || s->data == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "eval needs --model and --data; see weft eval --help");
    return WEFT_OK;
}

static enum weft_status run_eval(int argc, char **argv, struct weft_error *err)
{
    struct eval_settings s = {0};
    struct weft_checkpoint *model = NULL;
    struct wf_model_evaluation e;

    /* If only this rank fails here, the others wait for it to connect. */
    enum weft_status st = parse(argc, argv, &s, err);
    if (st == WEFT_OK)
        st = wf_model_open(s.model, &model, err);
    if (st != WEFT_OK)
        return wf_session_fail(st, err);

    struct wf_evaluate_options how = {
        .data = s.data,
        .seq = s.seq,
        .rows = s.batch,
        .batches = s.batches,
        .precision = s.precision != NULL && strcmp(s.precision, "bf16") == 0 ? WF_DTYPE_BF16
                                                                             : WF_DTYPE_F32,
        .threads = s.threads,
        .ranks = s.ranks,
    };
    st = wf_evaluate_model(wf_checkpoint_weights(model), &how, &e, err);
    if (st == WEFT_OK && e.rank == 0)
        print(&s, &e);
    weft_checkpoint_free(model);
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
        "With several ranks, the model is evaluated through a pipeline: each rank has a part of\n"
        "its layers, and ranks send activations only. Ranks are threads of this process\n"
        "(--ranks) or the processes that mpirun starts. The loss does not depend on ranks.\n\n"
        "PATH is\n\n" WF_MODEL_TEXT,
    .examples = "  weft eval --model runs/a --data tokens/val-000000.bin\n"
                "  weft eval --model gpt2 --data 'fineweb/*val*.bin' --seq 1024 --batches 20\n"
                "  mpirun -n 2 weft eval --model gpt2 --data tokens/val-000000.bin\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_eval,
};
