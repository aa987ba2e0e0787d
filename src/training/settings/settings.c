#include "training/settings/settings.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"

#define AT(field) .offset = offsetof(struct wf_train_settings, field)
#define GIVEN(key) .given = offsetof(struct wf_train_settings, parallel.given.key)

/* The largest of a kind: what a whole number in a file may be, and any sensible count. */
#define LARGEST 9007199254740992.0 /* 2^53 */
#define MANY 1048576

static const struct wf_setting rows[] = {
    /* model */
    {"model", "dir", WF_SETTING_STRING, "", "a Hugging Face directory, as weft saves one",
     AT(model.dir)},
    {"model", "spec", WF_SETTING_STRING, "",
     "a shape by its name: gpt2-124m, llama3-8b, dN (GPT-2 with N layers of 64 N); sizes below change it",
     AT(model.spec)},
    {"model", "arch", WF_SETTING_CHOICE, "auto",
     "the family, where neither dir nor spec says it", .choices = "auto|gpt2|llama",
     AT(model.arch)},
    {"model", "layers", WF_SETTING_COUNT, "auto", "transformer layers; auto: those of the spec",
     .zero = "auto", .min = 1, .max = WEFT_MAX_LAYERS, AT(model.layers)},
    {"model", "dim", WF_SETTING_COUNT, "auto", "width of the residual stream", .zero = "auto",
     .min = 1, .max = MANY, AT(model.dim)},
    {"model", "heads", WF_SETTING_COUNT, "auto", "heads of attention", .zero = "auto", .min = 1,
     .max = MANY, AT(model.heads)},
    {"model", "kv_heads", WF_SETTING_COUNT, "auto", "heads of keys and values; auto: as heads",
     .zero = "auto", .min = 1, .max = MANY, AT(model.kv_heads)},
    {"model", "ffn", WF_SETTING_COUNT, "auto", "width inside the MLP; auto: 4 dim for gpt2",
     .zero = "auto", .min = 1, .max = 16 * MANY, AT(model.ffn)},
    {"model", "vocab", WF_SETTING_COUNT, "auto",
     "tokens of the vocabulary; auto: as data.train was tokenized, else those of the spec",
     .zero = "auto", .min = 2, .max = 16 * MANY, AT(model.vocab)},
    {"model", "ctx", WF_SETTING_COUNT, "auto", "the longest sequence", .zero = "auto", .min = 1,
     .max = 16 * MANY, AT(model.ctx)},
    {"model", "tied", WF_SETTING_CHOICE, "auto",
     "the head multiplies by the embedding's weight; auto: true for gpt2",
     .choices = "auto|true|false", AT(model.tied)},
    {"model", "residual_block_layers", WF_SETTING_COUNT, "off",
     "layers of a block of attention residuals; off: plain residuals", .zero = "off", .min = 1,
     .max = WEFT_MAX_LAYERS, AT(model.residual_block_layers)},
    {"model", "seed", WF_SETTING_LONG, "1", "of all random numbers: weights and shuffling",
     .max = LARGEST, AT(model.seed)},
    /* data */
    {"data", "train", WF_SETTING_STRING, "",
     "token shards (see README): a file, a folder of *.bin, or a list with commas and patterns",
     AT(data.train)},
    {"data", "val", WF_SETTING_STRING, "", "token shards to evaluate on", AT(data.val)},
    {"data", "tokenizer", WF_SETTING_STRING, "",
     "a tokenizer's folder or file, put beside the weights; without: that of data.train or model.dir",
     AT(data.tokenizer)},
    {"data", "seq", WF_SETTING_COUNT, "auto", "tokens of a sequence; auto: the model's ctx",
     .zero = "auto", .min = 1, .max = 16 * MANY, AT(data.seq)},
    {"data", "batch", WF_SETTING_COUNT, "8", "sequences of a step, over all replicas", .min = 1,
     .max = 16 * MANY, AT(data.batch)},
    {"data", "shuffle", WF_SETTING_SWITCH, "false",
     "sequences in a random order, another one in each epoch; false: in file order",
     AT(data.shuffle)},
    /* parallel */
    {"parallel", "pp", WF_SETTING_COUNT, "1", "ranks of a pipeline", .min = 1, .max = MANY,
     AT(parallel.pp), GIVEN(pp)},
    {"parallel", "dp", WF_SETTING_COUNT, "1", "replicas of the pipeline", .min = 1, .max = MANY,
     AT(parallel.dp), GIVEN(dp)},
    {"parallel", "chunks", WF_SETTING_COUNT, "auto",
     "stages a rank; auto: the schedule's own number", .zero = "auto", .min = 1, .max = 4096,
     AT(parallel.chunks), GIVEN(chunks)},
    {"parallel", "micros", WF_SETTING_COUNT, "1",
     "micro-batches of a step, over all replicas; part of what is computed", .min = 1,
     .max = 16 * MANY, AT(parallel.micros), GIVEN(micros)},
    {"parallel", "schedule", WF_SETTING_STRING, "1f1b",
     "a schedule's name (weft plan --list) or a CSV file", AT(parallel.schedule),
     GIVEN(schedule)},
    {"parallel", "placement", WF_SETTING_CHOICE, "auto",
     "stages on ranks; auto: the schedule's",
     .choices = "auto|linear|loop|v|wave|bidirectional", AT(parallel.placement)},
    {"parallel", "partition", WF_SETTING_STRING, "balanced",
     "layers on stages: balanced, even, a list as 4,3,3,2 or a layout as 'Et*3|(tt|)*2L'",
     AT(parallel.partition)},
    {"parallel", "transport", WF_SETTING_CHOICE, "auto",
     "between ranks; auto: mpi under mpirun, else threads in one process",
     .choices = "auto|inproc|mpi", AT(parallel.transport)},
    {"parallel", "threads", WF_SETTING_COUNT, "auto", "threads of a rank; auto: one a core",
     .zero = "auto", .min = 1, .max = 4096, AT(parallel.threads), GIVEN(threads)},
    {"parallel", "cache", WF_SETTING_CHOICE, "off",
     "what a rank keeps of blocks that it received or made, so that they are not sent again",
     .choices = "off|received|full", AT(parallel.cache)},
    {"parallel", "auto", WF_SETTING_SWITCH, "false",
     "measure a few micros, and choose those of pp, dp, chunks, schedule and threads not given",
     AT(parallel.automatic)},
    /* train */
    {"train", "steps", WF_SETTING_LONG, "1000", "steps of the whole run", .min = 1,
     .max = LARGEST, AT(train.steps)},
    {"train", "precision", WF_SETTING_CHOICE, "fp32",
     "of matrix products; bf16 keeps weights and sums in fp32", .choices = "fp32|bf16",
     AT(train.precision)},
    {"train", "reduction", WF_SETTING_CHOICE, "exact",
     "how gradients add up: exact is the same bits for every layout", .choices = "exact|fast",
     AT(train.reduction)},
    {"train", "recompute", WF_SETTING_CHOICE, "none",
     "what the backward computes again instead of keeping it", .choices = "none|attention|full",
     AT(train.recompute)},
    {"train", "timeout", WF_SETTING_REAL, "60",
     "seconds without a heartbeat after which a rank counts as lost", .min = 1, .max = 1e6,
     AT(train.timeout)},
    {"train", "slow", WF_SETTING_REAL, "2",
     "a rank that takes this many times as long as planned, against the fastest, is named",
     .zero = "off", .min = 1, .max = 1e6, AT(train.slow)},
    {"train", "max_time", WF_SETTING_REAL, "off",
     "seconds after which the run ends in good order", .zero = "off", .min = 1e-3, .max = 1e9,
     AT(train.max_time)},
    /* optim */
    {"optim", "lr", WF_SETTING_REAL, "3e-4", "the highest learning rate", .max = 100,
     AT(optim.lr)},
    {"optim", "min_lr", WF_SETTING_REAL, "0", "the learning rate from decay_steps on",
     .max = 100, AT(optim.min_lr)},
    {"optim", "warmup", WF_SETTING_LONG, "0", "steps of a straight rise to lr", .max = LARGEST,
     AT(optim.warmup)},
    {"optim", "decay_steps", WF_SETTING_LONG, "auto",
     "the step that is the first to have min_lr; auto: train.steps", .zero = "auto", .min = 1,
     .max = LARGEST, AT(optim.decay_steps)},
    {"optim", "curve", WF_SETTING_CHOICE, "cosine",
     "the way from lr to min_lr; wsd: lr, then down over the last fifth",
     .choices = "cosine|linear|wsd|constant", AT(optim.curve)},
    {"optim", "beta1", WF_SETTING_REAL, "0.9", "AdamW: memory of the gradient", .max = 0.999999,
     AT(optim.beta1)},
    {"optim", "beta2", WF_SETTING_REAL, "0.95", "AdamW: memory of its square", .max = 0.99999,
     AT(optim.beta2)},
    {"optim", "eps", WF_SETTING_REAL, "1e-8", "AdamW: keeps the divisor from 0", .min = 1e-20,
     .max = 1, AT(optim.eps)},
    {"optim", "weight_decay", WF_SETTING_REAL, "0.1",
     "AdamW: decay of weights of two or more dimensions", .max = 100, AT(optim.weight_decay)},
    {"optim", "clip", WF_SETTING_REAL, "1", "the longest gradient, by its norm", .zero = "off",
     .min = 1e-12, .max = 1e12, AT(optim.clip)},
    /* eval */
    {"eval", "every", WF_SETTING_COUNT, "off", "steps from one evaluation to the next",
     .zero = "off", .min = 1, .max = 1e9, AT(eval.every)},
    {"eval", "batches", WF_SETTING_COUNT, "20", "batches of an evaluation", .min = 1,
     .max = 1e9, AT(eval.batches)},
    /* checkpoint */
    {"checkpoint", "every", WF_SETTING_COUNT, "off", "steps from one checkpoint to the next",
     .zero = "off", .min = 1, .max = 1e9, AT(checkpoint.every)},
    {"checkpoint", "keep", WF_SETTING_COUNT, "3", "newest checkpoints to keep", .min = 1,
     .max = 1e9, AT(checkpoint.keep)},
    {"checkpoint", "resume", WF_SETTING_STRING, "no",
     "auto: from the newest checkpoint, if there is one; no; or a checkpoint's path",
     AT(checkpoint.resume)},
    {"checkpoint", "async", WF_SETTING_SWITCH, "true",
     "write while training goes on, from a copy in memory", AT(checkpoint.in_background)},
    /* log */
    {"log", "dir", WF_SETTING_STRING, "",
     "the run's directory, with metrics.jsonl and the weights", AT(log.dir)},
    {"log", "every", WF_SETTING_COUNT, "auto",
     "steps from one printed line to the next; auto: 1, on a terminal about 20 lines a run",
     .zero = "auto", .min = 1, .max = 1e9, AT(log.every)},
    {"log", "trace_steps", WF_SETTING_COUNT, "off",
     "first steps whose actions are recorded, after each start", .zero = "off", .min = 1,
     .max = 1e9, AT(log.trace_steps)},
    {"log", "tensorboard", WF_SETTING_SWITCH, "false", "write event files for TensorBoard",
     AT(log.tensorboard)},
    {"log", "serve", WF_SETTING_COUNT, "off",
     "a port of this machine, where the run's page is shown live: http://127.0.0.1:PORT/",
     .zero = "off", .min = 1, .max = 65535, AT(log.serve)},
    {"log", "sample", WF_SETTING_COUNT, "off", "steps from one generated text to the next",
     .zero = "off", .min = 1, .max = 1e9, AT(log.sample)},
    {"log", "sample_prompt", WF_SETTING_STRING, "",
     "what they go on from; nothing: a new document", AT(log.sample_prompt)},
    {"log", "sample_tokens", WF_SETTING_COUNT, "64", "the most tokens of one", .min = 1,
     .max = 1e6, AT(log.sample_tokens)},
};

struct wf_setting_list wf_train_setting_list(void)
{
    return (struct wf_setting_list){rows, WEFT_LEN(rows)};
}

/* -- the model ------------------------------------------------------------------------------ */

/* One size: its name, what is set, and where it goes. */
struct size_row {
    const char *key;
    uint32_t set;
    uint32_t *out;
};

static uint32_t or_else(uint32_t set, uint32_t otherwise)
{
    return set != 0 ? set : otherwise;
}

/* What the sizes leave open of a shape without a spec. */
static enum weft_status complete(const struct wf_train_settings *s, struct weft_model *m,
                                 struct weft_error *err)
{
    bool gpt2 = s->model.arch == WF_TRAIN_ARCH_GPT2;
    const struct size_row needed[] = {
        {"layers", m->layers, NULL}, {"dim", m->dim, NULL}, {"heads", m->heads, NULL},
        {"vocab", m->vocab, NULL},   {"ctx", m->ctx, NULL},
    };
    for (size_t i = 0; i < WEFT_LEN(needed); i++)
        if (needed[i].set == 0)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "model.%s is needed with model.arch (or give model.spec)",
                             needed[i].key);
    if (m->ffn == 0 && !gpt2)
        return WEFT_FAIL(err, WEFT_USAGE, "model.ffn is needed with model.arch llama");
    if (m->ffn == 0 && m->dim > UINT32_MAX / 4)
        return WEFT_FAIL(err, WEFT_USAGE, "model.dim is too large");
    m->arch = gpt2 ? WEFT_ARCH_GPT2 : WEFT_ARCH_LLAMA;
    m->norm_eps = WEFT_NORM_EPS_DEFAULT;
    m->rope.theta = WEFT_ROPE_THETA_DEFAULT;
    m->ffn = or_else(m->ffn, 4 * m->dim);
    m->tied = s->model.tied == WF_TRAIN_TIED_AUTO ? gpt2 : m->tied;
    return WEFT_OK;
}

enum weft_status wf_train_settings_model(const struct wf_train_settings *s,
                                         struct weft_model *out, struct weft_error *err)
{
    struct weft_model m = {0};
    if (s->model.spec != NULL)
        WEFT_TRY(weft_model_find(s->model.spec, &m, err));
    const struct size_row sizes[] = {
        {"layers", s->model.layers, &m.layers},
        {"dim", s->model.dim, &m.dim},
        {"heads", s->model.heads, &m.heads},
        {"kv_heads", s->model.kv_heads, &m.kv_heads},
        {"ffn", s->model.ffn, &m.ffn},
        {"vocab", s->model.vocab, &m.vocab},
        {"ctx", s->model.ctx, &m.ctx},
        {"residual_block_layers", s->model.residual_block_layers, &m.residual_block_layers},
    };
    /* Without grouped queries a spec's keys and values follow the heads that are asked for. */
    if (s->model.heads != 0 && m.kv_heads == m.heads)
        m.kv_heads = s->model.heads;
    for (size_t i = 0; i < WEFT_LEN(sizes); i++)
        *sizes[i].out = or_else(sizes[i].set, *sizes[i].out);
    m.kv_heads = or_else(m.kv_heads, m.heads);
    if (s->model.tied != WF_TRAIN_TIED_AUTO)
        m.tied = s->model.tied == WF_TRAIN_TIED_TRUE;
    if (s->model.spec == NULL)
        WEFT_TRY(complete(s, &m, err));
    WEFT_TRY(weft_model_check(&m, err));
    *out = m;
    return WEFT_OK;
}

static bool has_sizes(const struct wf_train_settings *s)
{
    return s->model.layers != 0 || s->model.dim != 0 || s->model.heads != 0 ||
           s->model.kv_heads != 0 || s->model.ffn != 0 || s->model.vocab != 0 ||
           s->model.ctx != 0 || s->model.tied != WF_TRAIN_TIED_AUTO ||
           s->model.residual_block_layers != 0;
}

static enum weft_status check_model(const struct wf_train_settings *s, struct weft_error *err)
{
    bool dir = s->model.dir != NULL, spec = s->model.spec != NULL;
    bool arch = s->model.arch != WF_TRAIN_ARCH_AUTO;
    if (dir + spec + arch > 1)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the model is said twice: give one of model.dir, model.spec and "
                         "model.arch");
    if (dir + spec + arch == 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "there is no model: give model.dir, model.spec (as d12) or model.arch "
                         "with its sizes");
    if (dir && has_sizes(s))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "model.dir says the shape of the model itself: leave its sizes out");
    struct weft_model m;
    return dir ? WEFT_OK : wf_train_settings_model(s, &m, err);
}

/* -- all together --------------------------------------------------------------------------- */

static enum weft_status check_rates(const struct wf_train_settings *s, struct weft_error *err)
{
    if (s->optim.min_lr > s->optim.lr)
        return WEFT_FAIL(err, WEFT_USAGE, "optim.min_lr %g is above optim.lr %g",
                         s->optim.min_lr, s->optim.lr);
    if (s->optim.curve == WF_LR_CURVE_CONSTANT && s->optim.min_lr != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "optim.min_lr %g: a constant learning rate never comes down to it",
                         s->optim.min_lr);
    return WEFT_OK;
}

enum weft_status wf_train_check_micros(uint32_t micros, uint32_t batch, struct weft_error *err)
{
    if (micros <= batch)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "parallel.micros %u is more than the %u sequence%s of data.batch: give "
                     "fewer micros, or a larger batch",
                     micros, batch, wf_plural(batch));
}

enum weft_status wf_train_settings_check(const struct wf_train_settings *s,
                                         struct weft_error *err)
{
    WEFT_TRY(check_model(s, err));
    if (s->data.train == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "there is no data: give data.train");
    WEFT_TRY(wf_train_check_micros(s->parallel.micros, s->data.batch, err));
    if (s->eval.every != 0 && s->data.val == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "eval.every is %u, and there is nothing to evaluate on: give data.val",
                         s->eval.every);
    if (s->checkpoint.every != 0 && s->log.dir == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "checkpoint.every is %u, and there is no place for them: give log.dir",
                         s->checkpoint.every);
    if (s->log.serve != 0 && s->log.dir == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "log.serve is %u, and there is no run to show: give log.dir",
                         s->log.serve);
    return check_rates(s, err);
}

struct wf_resume wf_train_settings_resume(const struct wf_train_settings *s)
{
    const char *text = s->checkpoint.resume;
    if (text == NULL || strcmp(text, "no") == 0)
        return (struct wf_resume){WF_RESUME_NO, NULL};
    if (strcmp(text, "auto") == 0)
        return (struct wf_resume){WF_RESUME_NEWEST, NULL};
    return (struct wf_resume){WF_RESUME_PATH, text};
}

struct wf_lr_curve wf_train_settings_curve(const struct wf_train_settings *s)
{
    return (struct wf_lr_curve){
        .kind = (enum wf_lr_curve_kind)s->optim.curve,
        .lr = s->optim.lr,
        .min_lr = s->optim.min_lr,
        .warmup = s->optim.warmup,
        .decay_steps = s->optim.decay_steps != 0 ? s->optim.decay_steps : s->train.steps,
    };
}
