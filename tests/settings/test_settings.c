/* Checks the settings of a training run: the table, precedence, consistency between settings,
 * and that printed settings are read back unchanged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "compute/model/stage.h"
#include "training/settings/settings.h"

static void assert_has(const char *have, const char *want)
{
    if (strstr(have, want) == NULL)
        fail_msg("want \"%s\", have \"%s\"", want, have);
}

/* -- the table ----------------------------------------------------------------------------- */

/* All keys, by section. */
static const char *const keys[] = {
    "model: dir spec arch layers dim heads kv_heads ffn vocab ctx tied residual_block_layers seed",
    "data: train val tokenizer seq batch shuffle verify",
    "parallel: pp dp chunks micros schedule placement partition transport threads cache auto",
    "train: steps precision reduction recompute memory_limit timeout slow max_time",
    "optim: lr min_lr warmup decay_steps curve beta1 beta2 eps weight_decay clip",
    "eval: every batches",
    "checkpoint: every keep resume async",
    "log: dir every trace_steps tensorboard serve sample sample_prompt sample_tokens",
};

static void check_keys(void **state)
{
    (void)state;
    struct wf_setting_list list = wf_train_setting_list();
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(keys); i++) {
        char line[256], *save = NULL;
        snprintf(line, sizeof line, "%s", keys[i]);
        const char *section = strtok_r(line, ": ", &save);
        for (const char *key; (key = strtok_r(NULL, " ", &save)) != NULL; n++) {
            char name[WF_SETTING_NAME];
            snprintf(name, sizeof name, "%.30s.%.30s", section, key);
            if (wf_setting_find(list, name) == NULL)
                fail_msg("%s is missing", name);
        }
    }
    assert_int_equal(n, list.n);
}

/* The rows of a section are adjacent; names are unique and short enough for the help text. */
static void check_rows(void **state)
{
    (void)state;
    struct wf_setting_list list = wf_train_setting_list();
    for (size_t i = 0; i < list.n; i++) {
        const struct wf_setting *a = &list.at[i];
        assert_true(strlen(a->section) + strlen(a->key) < 40);
        assert_true(strlen(a->help) > 5 && a->help[strlen(a->help) - 1] != '.');
        assert_null(strchr(a->help, '\n'));
        assert_int_equal(a->type == WF_SETTING_CHOICE, a->choices != NULL);
        for (size_t k = 0; k < i; k++) {
            const struct wf_setting *b = &list.at[k];
            bool same_section = strcmp(a->section, b->section) == 0;
            assert_false(same_section && strcmp(a->key, b->key) == 0);
            assert_true(!same_section || strcmp(list.at[i - 1].section, a->section) == 0);
            assert_int_not_equal(a->offset, b->offset);
        }
    }
}

static void check_defaults(void **state)
{
    (void)state;
    struct wf_train_settings s;
    assert_int_equal(wf_settings_init(wf_train_setting_list(), &s, NULL), WEFT_OK);
    assert_null(s.model.dir);
    assert_int_equal(s.model.seed, 1);
    assert_int_equal(s.data.batch, 8);
    assert_false(s.data.shuffle);
    assert_true(s.data.verify);
    assert_int_equal(s.parallel.pp, 1);
    assert_int_equal(s.parallel.micros, 1);
    assert_int_equal(s.parallel.threads, 0);
    assert_int_equal(s.train.precision, WF_PRECISION_FP32);
    assert_int_equal(s.train.reduction, WF_REDUCTION_EXACT);
    assert_string_equal(s.train.recompute, "none");
    assert_int_equal(s.train.memory_limit, 0);
    assert_int_equal(s.optim.curve, WF_LR_CURVE_COSINE);
    assert_true(s.optim.lr == 3e-4 && s.optim.min_lr == 0 && s.optim.clip == 1);
    assert_true(s.optim.beta1 == 0.9 && s.optim.beta2 == 0.95 && s.optim.eps == 1e-8);
    assert_true(s.optim.weight_decay == 0.1 && s.optim.warmup == 0);
    wf_settings_release(wf_train_setting_list(), &s);
}

/* The values of every choice are in the order of its enumeration. */
static void check_choices(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
        uint32_t want;
        size_t offset;
    } choices[] = {
#define CHOICE(section, key, value, want)                                                      \
    {#section "." #key, value, want, offsetof(struct wf_train_settings, section.key)}
        CHOICE(model, arch, "llama", WF_TRAIN_ARCH_LLAMA),
        CHOICE(model, arch, "gpt2", WF_TRAIN_ARCH_GPT2),
        CHOICE(model, tied, "true", WF_TRAIN_TIED_TRUE),
        CHOICE(model, tied, "false", WF_TRAIN_TIED_FALSE),
        CHOICE(parallel, transport, "inproc", WF_TRAIN_TRANSPORT_INPROC),
        CHOICE(parallel, transport, "mpi", WF_TRAIN_TRANSPORT_MPI),
        CHOICE(parallel, cache, "received", WF_TRAIN_CACHE_RECEIVED),
        CHOICE(parallel, cache, "full", WF_TRAIN_CACHE_FULL),
        CHOICE(train, precision, "bf16", WF_PRECISION_BF16),
        CHOICE(train, reduction, "fast", WF_REDUCTION_FAST),
        CHOICE(optim, curve, "linear", WF_LR_CURVE_LINEAR),
        CHOICE(optim, curve, "wsd", WF_LR_CURVE_WSD),
        CHOICE(optim, curve, "constant", WF_LR_CURVE_CONSTANT),
    };

    struct wf_train_settings s;
    assert_int_equal(wf_settings_init(wf_train_setting_list(), &s, NULL), WEFT_OK);
    for (size_t i = 0; i < WEFT_LEN(choices); i++) {
        assert_int_equal(wf_settings_set(wf_train_setting_list(), choices[i].name,
                                         choices[i].value, &s, NULL),
                         WEFT_OK);

        uint32_t have;
        memcpy(&have, (const char *)&s + choices[i].offset, sizeof have);
        assert_int_equal(have, choices[i].want);
    }

    wf_settings_release(wf_train_setting_list(), &s);
}

/* -- consistency --------------------------------------------------------------------------- */

#define MODEL "model: {spec: d6}\n"
#define DATA "data: {train: x}\n"
#define TINY                                                                                   \
    "model: {arch: gpt2, layers: 2, dim: 48, heads: 3, vocab: 128, ctx: 64}\ndata: {train: x}\n"

static struct check_case {
    const char *name, *file, *flag, *error; /* NULL: accepted */
} checks[] = {
    {"minimal settings", MODEL DATA, NULL, NULL},
    {"a model given by its sizes", TINY, NULL, NULL},
    {"a directory", "model: {dir: d}\n" DATA, NULL, NULL},
    {"a spec with other sizes", MODEL DATA, "--model.layers=3", NULL},
    {"as many micros as sequences", MODEL DATA, "--parallel.micros=8", NULL},
    {"constant", MODEL DATA, "--optim.curve=constant", NULL},
    {"threads in one process", MODEL DATA, "--parallel.transport=inproc", NULL},
    {"bf16", MODEL DATA, "--train.precision=bf16", NULL},
    {"a pipeline", MODEL DATA, "--parallel.pp=2", NULL},
    {"a schedule", MODEL DATA, "--parallel.schedule=zb-v", NULL},

    {"no model", DATA, NULL, "no model is specified; set model.dir, model.spec"},
    {"two models", MODEL DATA, "--model.dir=d", "the model is specified more than once"},
    {"a spec and a family", MODEL DATA, "--model.arch=gpt2",
     "the model is specified more than once"},
    {"an unknown spec", DATA, "--model.spec=gpt2-125m", "gpt2-124m"},
    {"a directory with sizes", "model: {dir: d}\n" DATA, "--model.layers=3",
     "model.dir determines the shape of the model"},
    {"a family without sizes", DATA, "--model.arch=gpt2",
     "model.layers is required with model.arch"},
    {"llama without ffn", TINY, "--model.arch=llama", "model.ffn is required"},
    {"heads that do not divide the dimension", TINY, "--model.heads=5", "heads"},
    {"no data", MODEL, NULL, "no training data is specified; set data.train"},
    {"more micros than sequences", MODEL DATA, "--parallel.micros=9",
     "parallel.micros 9 is greater than data.batch (8 sequences)"},
    {"min_lr above lr", MODEL DATA, "--optim.min_lr=1",
     "optim.min_lr 1 is greater than optim.lr"},
    {"a constant rate with min_lr", MODEL DATA "optim: {min_lr: 1e-5}\n",
     "--optim.curve=constant", "has no effect with optim.curve constant"},

    {"evaluation without data", MODEL DATA, "--eval.every=5",
     "eval.every is 5, but there is no evaluation data; set data.val"},
    {"checkpoints without a run directory", MODEL DATA, "--checkpoint.every=5",
     "checkpoint.every is 5, but there is no run directory; set log.dir"},
};

static enum weft_status merge(const char *file, const char *flag, struct wf_train_settings *s,
                              struct weft_error *err)
{
    struct wf_setting_list list = wf_train_setting_list();
    WEFT_TRY(wf_settings_init(list, s, err));
    enum weft_status st = wf_settings_parse(list, file, strlen(file), "f.yaml", s, err);
    if (st == WEFT_OK && flag != NULL)
        st = wf_settings_parse_flags(list, 1, (char **)&flag, s, err);
    return st;
}

static void check_consistency(void **state)
{
    const struct check_case *c = *state;
    struct wf_train_settings s;
    struct weft_error err = {.msg = ""};
    if (merge(c->file, c->flag, &s, &err) != WEFT_OK)
        fail_msg("cannot be parsed: %s", err.msg);
    enum weft_status st = wf_train_settings_check(&s, &err);
    if (c->error == NULL && st != WEFT_OK)
        fail_msg("rejected: %s", err.msg);
    assert_int_equal(st, c->error == NULL ? WEFT_OK : WEFT_USAGE);
    if (c->error != NULL)
        assert_has(err.msg, c->error);
    wf_settings_release(wf_train_setting_list(), &s);
}

/* A flag overrides the file, and the file overrides the default. */
static void check_precedence(void **state)
{
    (void)state;
    struct wf_train_settings s;
    assert_int_equal(merge("optim: {lr: 1e-3, warmup: 7}\n", "--optim.lr=2e-3", &s, NULL),
                     WEFT_OK);
    assert_true(s.optim.lr == 2e-3);
    assert_int_equal(s.optim.warmup, 7);
    assert_true(s.optim.beta1 == 0.9);
    wf_settings_release(wf_train_setting_list(), &s);
}

#define SHAPE(a, l, d, h, kv, f, v, c, t, eps, k, base)                                        \
    {                                                                                          \
        .arch = a, .layers = l, .dim = d, .heads = h, .kv_heads = kv, .ffn = f, .vocab = v,    \
        .ctx = c, .tied = t, .norm_eps = eps, .residual_block_layers = k, .rope.theta = base   \
    }

static struct model_case {
    const char *name, *file;
    struct weft_model want;
} models[] = {
    {"a spec", "model: {spec: d6}\n",
     SHAPE(WEFT_ARCH_GPT2, 6, 384, 6, 6, 1536, 50257, 1024, true, 1e-5F, 0, 10000)},
    {"a spec with changes",
     "model: {spec: d6, layers: 2, heads: 3, vocab: 96, ctx: 64, tied: false}\n",
     SHAPE(WEFT_ARCH_GPT2, 2, 384, 3, 3, 1536, 96, 64, false, 1e-5F, 0, 10000)},
    {"a spec keeps its kv_heads", "model: {spec: llama3-8b, layers: 1}\n",
     SHAPE(WEFT_ARCH_LLAMA, 1, 4096, 32, 8, 14336, 128256, 8192, false, 1e-5F, 0, 500000)},
    {"gpt2 by sizes", TINY,
     SHAPE(WEFT_ARCH_GPT2, 2, 48, 3, 3, 192, 128, 64, true, 1e-5F, 0, 10000)},
    {"llama by sizes",
     "model: {arch: llama, layers: 2, dim: 32, heads: 4, kv_heads: 2, ffn: 80, vocab: 9, "
     "ctx: 8, residual_block_layers: 2}\n",
     SHAPE(WEFT_ARCH_LLAMA, 2, 32, 4, 2, 80, 9, 8, false, 1e-5F, 2, 10000)},
    {"llama, tied",
     "model: {arch: llama, layers: 2, dim: 32, heads: 4, ffn: 80, vocab: 9, ctx: 8, tied: "
     "true}\n",
     SHAPE(WEFT_ARCH_LLAMA, 2, 32, 4, 4, 80, 9, 8, true, 1e-5F, 0, 10000)},
};

static void check_model(void **state)
{
    const struct model_case *c = *state;
    struct wf_train_settings s;
    struct weft_model m;
    struct weft_error err = {.msg = ""};
    assert_int_equal(merge(c->file, NULL, &s, NULL), WEFT_OK);
    if (wf_train_settings_model(&s, &m, &err) != WEFT_OK)
        fail_msg("rejected: %s", err.msg);
    assert_int_equal(m.arch, c->want.arch);
    assert_int_equal(m.layers, c->want.layers);
    assert_int_equal(m.dim, c->want.dim);
    assert_int_equal(m.heads, c->want.heads);
    assert_int_equal(m.kv_heads, c->want.kv_heads);
    assert_int_equal(m.ffn, c->want.ffn);
    assert_int_equal(m.vocab, c->want.vocab);
    assert_int_equal(m.ctx, c->want.ctx);
    assert_int_equal(m.tied, c->want.tied);
    assert_int_equal(m.residual_block_layers, c->want.residual_block_layers);
    assert_true(m.norm_eps == c->want.norm_eps && m.rope.theta == c->want.rope.theta);
    wf_settings_release(wf_train_setting_list(), &s);
}

static void check_curve(void **state)
{
    (void)state;
    struct wf_train_settings s;
    assert_int_equal(merge("train: {steps: 50}\noptim: {curve: wsd, lr: 2, min_lr: 1}\n",
                           "--optim.warmup=5", &s, NULL),
                     WEFT_OK);
    struct wf_lr_curve c = wf_train_settings_curve(&s);
    assert_true(c.kind == WF_LR_CURVE_WSD && c.lr == 2 && c.min_lr == 1);
    assert_true(c.warmup == 5 && c.decay_steps == 50);
    s.optim.decay_steps = 40;
    assert_int_equal(wf_train_settings_curve(&s).decay_steps, 40);
    wf_settings_release(wf_train_setting_list(), &s);
}

/* -- printed and read back ----------------------------------------------------------------- */

/* Writes a valid value of a setting that differs from its default. */
static void other_value(const struct wf_setting *row, char *out, size_t size)
{
    switch (row->type) {
    case WF_SETTING_COUNT:
    case WF_SETTING_LONG:
        snprintf(out, size, "%.0f", row->max);
        break;
    case WF_SETTING_REAL:
        snprintf(out, size, "%.17g", row->min + (row->max - row->min) / 3);
        break;
    case WF_SETTING_SWITCH:
        snprintf(out, size, "%s", strcmp(row->fallback, "true") == 0 ? "false" : "true");
        break;
    case WF_SETTING_CHOICE:
        snprintf(out, size, "%s", strrchr(row->choices, '|') + 1);
        break;
    case WF_SETTING_STRING:
        snprintf(out, size, "%s of \"all\"", row->key);
        break;
    }
}

static void check_round_trip(void **state)
{
    (void)state;
    struct wf_setting_list list = wf_train_setting_list();
    for (int others = 0; others < 2; others++) {
        struct wf_train_settings s, back;
        struct wf_text first = {0}, second = {0};
        struct weft_error err = {.msg = ""};

        assert_int_equal(wf_settings_init(list, &s, NULL), WEFT_OK);
        assert_int_equal(wf_settings_init(list, &back, NULL), WEFT_OK);

        for (size_t i = 0; others && i < list.n; i++) {
            char value[64], name[WF_SETTING_NAME];
            other_value(&list.at[i], value, sizeof value);
            snprintf(name, sizeof name, "%s.%s", list.at[i].section, list.at[i].key);
            if (wf_settings_set(list, name, value, &s, &err) != WEFT_OK)
                fail_msg("rejected: %s", err.msg);
        }

        wf_settings_print(list, &s, &first);
        if (wf_settings_parse(list, first.at, first.len, "f", &back, &err) != WEFT_OK)
            fail_msg("rejected: %s", err.msg);
        wf_settings_print(list, &back, &second);
        assert_string_equal(first.at, second.at);

        for (size_t i = 0; i < list.n; i++)
            assert_int_equal(wf_setting_is_default(&list.at[i], &back), !others);

        wf_text_release(&first);
        wf_text_release(&second);
        wf_settings_release(list, &s);
        wf_settings_release(list, &back);
    }
}

static void check_resume(void **state)
{
    const struct {
        const char *text;
        enum wf_resume_mode mode;
    } cases[] = {{"no", WF_RESUME_NO},
                 {"auto", WF_RESUME_NEWEST},
                 {"runs/a/checkpoints/step-00000010", WF_RESUME_PATH},
                 {"./auto", WF_RESUME_PATH}};

    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct wf_train_settings s;
        assert_int_equal(wf_settings_init(wf_train_setting_list(), &s, NULL), WEFT_OK);
        assert_int_equal(s.checkpoint.resume_mode, WF_RESUME_NO);
        assert_int_equal(wf_settings_set(wf_train_setting_list(), "checkpoint.resume",
                                         cases[i].text, &s, NULL),
                         WEFT_OK);
        assert_int_equal(s.checkpoint.resume_mode, cases[i].mode);
        assert_string_equal(s.checkpoint.resume, cases[i].text);
        wf_settings_release(wf_train_setting_list(), &s);
    }
}

int main(void)
{
    static const struct CMUnitTest single[] = {
        cmocka_unit_test(check_keys),       cmocka_unit_test(check_rows),
        cmocka_unit_test(check_defaults),   cmocka_unit_test(check_choices),
        cmocka_unit_test(check_curve),      cmocka_unit_test(check_precedence),
        cmocka_unit_test(check_round_trip), cmocka_unit_test(check_resume),
    };
    struct CMUnitTest tests[WEFT_LEN(single) + WEFT_LEN(checks) + WEFT_LEN(models)];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(single); i++)
        tests[n++] = single[i];
    for (size_t i = 0; i < WEFT_LEN(checks); i++)
        tests[n++] =
            (struct CMUnitTest){checks[i].name, check_consistency, NULL, NULL, &checks[i]};
    for (size_t i = 0; i < WEFT_LEN(models); i++)
        tests[n++] = (struct CMUnitTest){models[i].name, check_model, NULL, NULL, &models[i]};
    return cmocka_run_group_tests_name("train settings", tests, NULL, NULL) != 0;
}
