/* The table of settings, and checks that involve several settings. */
#include "training/settings/settings.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "planning/spec/recompute.h"

#define AT(field) .offset = offsetof(struct wf_train_settings, field)
#define GIVEN(key) .given = offsetof(struct wf_train_settings, parallel.given.key)

/* LARGEST: the largest integer that every YAML reader represents exactly.  MANY: a generous
 * limit for counts. */
#define LARGEST 9007199254740992.0 /* 2^53 */
#define MANY 1048576

/* Parses checkpoint.resume. */
static void set_resume_mode(void *settings)
{
    struct wf_train_settings *s = settings;
    const char *text = s->checkpoint.resume;
    s->checkpoint.resume_mode = text == NULL || strcmp(text, "no") == 0 ? WF_RESUME_NO
                                : strcmp(text, "auto") == 0             ? WF_RESUME_NEWEST
                                                                        : WF_RESUME_PATH;
}

static const struct wf_setting rows[] = {
    /* model */
    {"model", "dir", WF_SETTING_STRING, "",
     "a Hugging Face directory to start from, for example one that weft saved", AT(model.dir)},
    {"model", "spec", WF_SETTING_STRING, "",
     "a named shape: gpt2-124m, llama3-8b, dN (GPT-2 with N layers of dimension 64 N); sizes below override it",
     AT(model.spec)},
    {"model", "arch", WF_SETTING_CHOICE, "auto",
     "the architecture, if neither dir nor spec is set", .choices = "auto|gpt2|llama",
     AT(model.arch)},
    {"model", "layers", WF_SETTING_COUNT, "auto",
     "number of transformer layers; auto: from spec", .zero = "auto", .min = 1,
     .max = WEFT_MAX_LAYERS, AT(model.layers)},
    {"model", "dim", WF_SETTING_COUNT, "auto", "dimension of the residual stream",
     .zero = "auto", .min = 1, .max = MANY, AT(model.dim)},
    {"model", "heads", WF_SETTING_COUNT, "auto", "number of attention heads", .zero = "auto",
     .min = 1, .max = MANY, AT(model.heads)},
    {"model", "kv_heads", WF_SETTING_COUNT, "auto",
     "number of key and value heads; auto: same as heads", .zero = "auto", .min = 1,
     .max = MANY, AT(model.kv_heads)},
    {"model", "ffn", WF_SETTING_COUNT, "auto",
     "hidden dimension of the MLP; auto: 4 x dim for gpt2", .zero = "auto", .min = 1,
     .max = 16 * MANY, AT(model.ffn)},
    {"model", "vocab", WF_SETTING_COUNT, "auto",
     "vocabulary size; auto: that of the tokenizer of data.train, else from spec",
     .zero = "auto", .min = 2, .max = 16 * MANY, AT(model.vocab)},
    {"model", "ctx", WF_SETTING_COUNT, "auto", "maximum sequence length", .zero = "auto",
     .min = 1, .max = 16 * MANY, AT(model.ctx)},
    {"model", "tied", WF_SETTING_CHOICE, "auto",
     "share the weights of embedding and head; auto: true for gpt2",
     .choices = "auto|true|false", AT(model.tied)},
    {"model", "residual_block_layers", WF_SETTING_COUNT, "off",
     "layers per block of block attention residuals; off: plain residuals", .zero = "off",
     .min = 1, .max = WEFT_MAX_LAYERS, AT(model.residual_block_layers)},
    {"model", "seed", WF_SETTING_LONG, "1", "seed of all random numbers: weights and shuffling",
     .max = LARGEST, AT(model.seed)},
    /* data */
    {"data", "train", WF_SETTING_STRING, "",
     "token shards: a file, a directory of *.bin files, or a comma-separated list with patterns",
     AT(data.train)},
    {"data", "val", WF_SETTING_STRING, "", "token shards for evaluation", AT(data.val)},
    {"data", "tokenizer", WF_SETTING_STRING, "",
     "tokenizer file or directory, saved with the weights; default: that of data.train or model.dir",
     AT(data.tokenizer)},
    {"data", "seq", WF_SETTING_COUNT, "auto", "tokens per sequence; auto: model.ctx",
     .zero = "auto", .min = 1, .max = 16 * MANY, AT(data.seq)},
    {"data", "batch", WF_SETTING_COUNT, "8", "sequences per step, over all replicas", .min = 1,
     .max = 16 * MANY, AT(data.batch)},
    {"data", "shuffle", WF_SETTING_SWITCH, "false",
     "random order of sequences, different in each epoch; false: file order", AT(data.shuffle)},
    {"data", "verify", WF_SETTING_SWITCH, "true",
     "refuse tokens of another tokenizer than the model's, and shards that changed since the "
     "checkpoint",
     AT(data.verify)},
    /* parallel */
    {"parallel", "pp", WF_SETTING_COUNT, "1", "ranks per pipeline", .min = 1, .max = MANY,
     AT(parallel.pp), GIVEN(pp)},
    {"parallel", "dp", WF_SETTING_COUNT, "1", "number of replicas of the pipeline", .min = 1,
     .max = MANY, AT(parallel.dp), GIVEN(dp)},
    {"parallel", "chunks", WF_SETTING_COUNT, "auto",
     "stages per rank; auto: the default of the schedule", .zero = "auto", .min = 1,
     .max = 4096, AT(parallel.chunks), GIVEN(chunks)},
    {"parallel", "micros", WF_SETTING_COUNT, "1",
     "micro-batches per step, over all replicas; changes results", .min = 1, .max = 16 * MANY,
     AT(parallel.micros), GIVEN(micros)},
    {"parallel", "schedule", WF_SETTING_STRING, "1f1b",
     "name of a schedule, such as 1f1b or zb-h1, or a CSV file", AT(parallel.schedule),
     GIVEN(schedule)},
    {"parallel", "placement", WF_SETTING_CHOICE, "auto",
     "placement of stages on ranks; auto: that of the schedule",
     .choices = "auto|linear|loop|v|wave|bidirectional", AT(parallel.placement)},
    {"parallel", "partition", WF_SETTING_STRING, "balanced",
     "layers per stage: balanced, even, a list such as 4,3,3,2 or a pattern such as 'Et*3|(tt|)*2L'",
     AT(parallel.partition)},
    {"parallel", "transport", WF_SETTING_CHOICE, "auto",
     "transport between ranks; auto: mpi under mpirun, else threads of one process",
     .choices = "auto|inproc|mpi", AT(parallel.transport)},
    {"parallel", "threads", WF_SETTING_COUNT, "auto", "threads per rank; auto: one per core",
     .zero = "auto", .min = 1, .max = 4096, AT(parallel.threads), GIVEN(threads)},
    {"parallel", "cache", WF_SETTING_CHOICE, "off",
     "residual blocks that a rank keeps so that they are not sent again",
     .choices = "off|received|full", AT(parallel.cache)},
    {"parallel", "auto", WF_SETTING_SWITCH, "false",
     "measure a few micro-batches and choose pp, dp, chunks, schedule and threads unless given",
     AT(parallel.automatic)},
    /* train */
    {"train", "steps", WF_SETTING_LONG, "1000", "number of steps of the run", .min = 1,
     .max = LARGEST, AT(train.steps)},
    {"train", "precision", WF_SETTING_CHOICE, "fp32",
     "precision of matrix products; bf16 keeps weights and sums in fp32",
     .choices = "fp32|bf16", AT(train.precision)},
    {"train", "reduction", WF_SETTING_CHOICE, "exact",
     "summation of gradients; exact: bit-for-bit identical for every layout",
     .choices = "exact|fast", AT(train.reduction)},
    {"train", "recompute", WF_SETTING_STRING, "none",
     "recomputed activations: none, attention, full, auto (the least that fits memory_limit) or a list by layer or stage: full:0-5,attention:6-8,s3",
     AT(train.recompute)},
    {"train", "memory_limit", WF_SETTING_LONG, "auto",
     "bytes that the ranks on one machine may use together; auto: the memory of the machine or of its control group",
     .zero = "auto", .min = 1, .max = LARGEST, .quantity = WF_QUANTITY_BYTES,
     AT(train.memory_limit)},
    {"train", "timeout", WF_SETTING_REAL, "60",
     "seconds without a heartbeat after which a rank is considered lost", .min = 1, .max = 1e6,
     .quantity = WF_QUANTITY_TIME, AT(train.timeout)},
    {"train", "slow", WF_SETTING_REAL, "2",
     "warn about a rank whose ratio of measured to planned time is this many times that of the "
     "fastest rank",
     .zero = "off", .min = 1, .max = 1e6, AT(train.slow)},
    {"train", "max_time", WF_SETTING_REAL, "off", "seconds after which the run stops and saves",
     .zero = "off", .min = 1e-3, .max = 1e9, .quantity = WF_QUANTITY_TIME, AT(train.max_time)},
    /* optim */
    {"optim", "lr", WF_SETTING_REAL, "3e-4", "maximum learning rate", .max = 100, AT(optim.lr)},
    {"optim", "min_lr", WF_SETTING_REAL, "0", "learning rate from decay_steps on", .max = 100,
     AT(optim.min_lr)},
    {"optim", "warmup", WF_SETTING_LONG, "0", "steps of linear warm-up to lr", .max = LARGEST,
     AT(optim.warmup)},
    {"optim", "decay_steps", WF_SETTING_LONG, "auto",
     "first step with min_lr; auto: train.steps", .zero = "auto", .min = 1, .max = LARGEST,
     AT(optim.decay_steps)},
    {"optim", "curve", WF_SETTING_CHOICE, "cosine",
     "decay from lr to min_lr; wsd: constant, then linear over the last fifth",
     .choices = "cosine|linear|wsd|constant", AT(optim.curve)},
    {"optim", "beta1", WF_SETTING_REAL, "0.9", "AdamW: decay of the first moment",
     .max = 0.999999, AT(optim.beta1)},
    {"optim", "beta2", WF_SETTING_REAL, "0.95", "AdamW: decay of the second moment",
     .max = 0.99999, AT(optim.beta2)},
    {"optim", "eps", WF_SETTING_REAL, "1e-8", "AdamW: added to the denominator", .min = 1e-20,
     .max = 1, AT(optim.eps)},
    {"optim", "weight_decay", WF_SETTING_REAL, "0.1",
     "AdamW: weight decay of tensors with two or more dimensions", .max = 100,
     AT(optim.weight_decay)},
    {"optim", "clip", WF_SETTING_REAL, "1", "maximum gradient norm", .zero = "off",
     .min = 1e-12, .max = 1e12, AT(optim.clip)},
    /* eval */
    {"eval", "every", WF_SETTING_COUNT, "off", "steps between evaluations", .zero = "off",
     .min = 1, .max = 1e9, AT(eval.every)},
    {"eval", "batches", WF_SETTING_COUNT, "20", "batches per evaluation", .min = 1, .max = 1e9,
     AT(eval.batches)},
    /* checkpoint */
    {"checkpoint", "every", WF_SETTING_COUNT, "off", "steps between checkpoints", .zero = "off",
     .min = 1, .max = 1e9, AT(checkpoint.every)},
    {"checkpoint", "keep", WF_SETTING_COUNT, "3", "number of checkpoints to keep", .min = 1,
     .max = 1e9, AT(checkpoint.keep)},
    {"checkpoint", "resume", WF_SETTING_STRING, "no",
     "no, auto (from the newest checkpoint of log.dir, if there is one), or the path of a checkpoint",
     AT(checkpoint.resume), .changed = set_resume_mode},
    {"checkpoint", "async", WF_SETTING_SWITCH, "true",
     "write in the background, from a copy in memory", AT(checkpoint.in_background)},
    /* log */
    {"log", "dir", WF_SETTING_STRING, "",
     "directory of the run: settings, metrics, checkpoints, weights", AT(log.dir)},
    {"log", "every", WF_SETTING_COUNT, "auto",
     "steps between printed lines; auto: 1, on a terminal about 20 lines per run",
     .zero = "auto", .min = 1, .max = 1e9, AT(log.every)},
    {"log", "trace_steps", WF_SETTING_COUNT, "off",
     "number of steps after each start whose actions are recorded", .zero = "off", .min = 1,
     .max = 1e9, AT(log.trace_steps)},
    {"log", "tensorboard", WF_SETTING_SWITCH, "false", "write event files for TensorBoard",
     AT(log.tensorboard)},
    {"log", "serve", WF_SETTING_COUNT, "off",
     "port at which the report is served live: http://127.0.0.1:PORT/", .zero = "off", .min = 1,
     .max = 65535, AT(log.serve)},
    {"log", "sample", WF_SETTING_COUNT, "off", "steps between generated samples", .zero = "off",
     .min = 1, .max = 1e9, AT(log.sample)},
    {"log", "sample_prompt", WF_SETTING_STRING, "",
     "prompt of the samples; empty: a new document", AT(log.sample_prompt)},
    {"log", "sample_tokens", WF_SETTING_COUNT, "64", "maximum number of tokens per sample",
     .min = 1, .max = 1e6, AT(log.sample_tokens)},
};

struct wf_setting_list wf_train_setting_list(void)
{
    return (struct wf_setting_list){rows, WEFT_LEN(rows)};
}

/* -- the model ----------------------------------------------------------------------------- */

/* One size of the model: its key, its value in the settings, and where it is stored. */
struct size_row {
    const char *key;
    uint32_t set;
    uint32_t *out;
};

static uint32_t or_else(uint32_t set, uint32_t otherwise)
{
    return set != 0 ? set : otherwise;
}

/* Sets the properties that the sizes do not determine, in a model without a spec. */
static enum weft_status complete_model(const struct wf_train_settings *s, struct weft_model *m,
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
                             "model.%s is required with model.arch; set it, or use model.spec",
                             needed[i].key);
    if (m->ffn == 0 && !gpt2)
        return WEFT_FAIL(err, WEFT_USAGE, "model.ffn is required with model.arch llama");
    if (m->ffn == 0 && m->dim > UINT32_MAX / 4)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "model.dim %u is too large for the default of model.ffn", m->dim);

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

    /* If a spec has no grouped queries, a changed number of heads does not introduce them. */
    if (s->model.heads != 0 && m.kv_heads == m.heads)
        m.kv_heads = s->model.heads;
    for (size_t i = 0; i < WEFT_LEN(sizes); i++)
        *sizes[i].out = or_else(sizes[i].set, *sizes[i].out);
    m.kv_heads = or_else(m.kv_heads, m.heads);

    if (s->model.tied != WF_TRAIN_TIED_AUTO)
        m.tied = s->model.tied == WF_TRAIN_TIED_TRUE;
    if (s->model.spec == NULL)
        WEFT_TRY(complete_model(s, &m, err));
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
                         "the model is specified more than once; set one of model.dir, "
                         "model.spec and model.arch");
    if (dir + spec + arch == 0)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "no model is specified; set model.dir, model.spec (for example d12) or "
            "model.arch with its sizes");
    if (dir && has_sizes(s))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "model.dir determines the shape of the model; remove the sizes");
    struct weft_model m;
    return dir ? WEFT_OK : wf_train_settings_model(s, &m, err);
}

/* -- all settings -------------------------------------------------------------------------- */

static enum weft_status check_rates(const struct wf_train_settings *s, struct weft_error *err)
{
    if (s->optim.min_lr > s->optim.lr)
        return WEFT_FAIL(err, WEFT_USAGE, "optim.min_lr %g is greater than optim.lr %g",
                         s->optim.min_lr, s->optim.lr);
    if (s->optim.curve == WF_LR_CURVE_CONSTANT && s->optim.min_lr != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "optim.min_lr %g has no effect with optim.curve constant; remove it",
                         s->optim.min_lr);
    return WEFT_OK;
}

enum weft_status wf_train_check_micros(uint32_t micros, uint32_t batch, struct weft_error *err)
{
    if (micros <= batch)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "parallel.micros %u is greater than data.batch (%u sequence%s); use fewer "
                     "micro-batches or a larger batch",
                     micros, batch, wf_plural(batch));
}

static enum weft_status check_recompute(const struct wf_train_settings *s,
                                        struct weft_error *err)
{
    struct wf_recompute_list list = {0};
    WEFT_TRY(wf_recompute_parse(s->train.recompute, "train.recompute", &list, err));
    wf_recompute_list_release(&list);
    return WEFT_OK;
}

enum weft_status wf_train_settings_check(const struct wf_train_settings *s,
                                         struct weft_error *err)
{
    WEFT_TRY(check_model(s, err));

    if (s->data.train == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "no training data is specified; set data.train");
    WEFT_TRY(wf_train_check_micros(s->parallel.micros, s->data.batch, err));
    if (s->parallel.schedule != NULL && strcmp(s->parallel.schedule, "-") == 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.schedule: every rank reads the schedule, so that it cannot "
                         "be standard input; give a name or a file");

    if (s->eval.every != 0 && s->data.val == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "eval.every is %u, but there is no evaluation data; set data.val",
                         s->eval.every);
    if (s->checkpoint.every != 0 && s->log.dir == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "checkpoint.every is %u, but there is no run directory; set log.dir",
                         s->checkpoint.every);
    if (s->log.serve != 0 && s->log.dir == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "log.serve is %u, but there is no run directory; set log.dir",
                         s->log.serve);

    WEFT_TRY(check_recompute(s, err));
    return check_rates(s, err);
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
