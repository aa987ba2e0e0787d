/* Compares the settings that affect the results of a step. */
#include "training/trainer/settings_changes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The settings that affect the results of a step.  A change of any other setting leaves the
 * results identical in every bit. */
static const char *const numeric_settings[] = {
    "data.train",      "data.seq",           "data.batch",      "data.shuffle", "model.seed",
    "parallel.micros", "train.precision",    "train.reduction", "optim.lr",     "optim.min_lr",
    "optim.warmup",    "optim.decay_steps",  "optim.curve",     "optim.beta1",  "optim.beta2",
    "optim.eps",       "optim.weight_decay", "optim.clip",
};

/* Returns true if two lists name the same paths.  Checkpoints contain absolute paths.  Sets
 * *failed without memory. */
static bool is_same_path(const char *a, const char *b, bool *failed)
{
    if (a == NULL || b == NULL)
        return false;
    char *x = wf_train_settings_absolute(a), *y = wf_train_settings_absolute(b);
    bool same = x != NULL && y != NULL && strcmp(x, y) == 0;
    *failed = *failed || x == NULL || y == NULL;
    free(x);
    free(y);
    return same;
}

static void add_change(const char *name, const struct wf_train_settings *then,
                       const struct wf_train_settings *now, struct wf_text *out)
{
    const struct wf_setting *row = wf_setting_find(wf_train_setting_list(), name);
    struct wf_text a = {0}, b = {0};
    wf_setting_add_value(row, then, &a);
    wf_setting_add_value(row, now, &b);
    out->failed = out->failed || a.failed || b.failed;
    if (a.at != NULL && b.at != NULL && strcmp(a.at, b.at) != 0 &&
        !(strcmp(name, "data.train") == 0 &&
          is_same_path(then->data.train, now->data.train, &out->failed)))
        wf_text_addf(out, "%s%s was %s and is %s", out->len == 0 ? "" : ", ", name, a.at, b.at);
    wf_text_release(&a);
    wf_text_release(&b);
}

enum weft_status wf_settings_is_same(const char *then, const struct wf_train_settings *now,
                                     const char *name, bool *out, struct weft_error *err)
{
    const struct wf_setting_list list = wf_train_setting_list();
    struct wf_train_settings old;
    struct wf_text change = {0};
    *out = false;
    if (then[0] == '\0')
        return WEFT_OK;
    WEFT_TRY(wf_settings_init(list, &old, err));

    /* Settings of another version that cannot be parsed differ. */
    enum weft_status st = wf_settings_parse(list, then, strlen(then), "", &old, err);
    if (st == WEFT_OK) {
        add_change(name, &old, now, &change);
        *out = change.len == 0;
    }
    if (st == WEFT_OK && change.failed)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to compare settings");
    wf_text_release(&change);
    wf_settings_release(list, &old);
    return st == WEFT_NOMEM ? st : WEFT_OK;
}

/* Returns true if train.steps determines the decay, because decay_steps is not set: the
 * learning rate then decays over all steps. */
static bool decays_by_steps(const struct wf_train_settings *s)
{
    return s->optim.decay_steps == 0 && s->optim.curve != WF_LR_CURVE_CONSTANT;
}

void wf_settings_add_changes(const char *then, const struct wf_train_settings *now,
                             struct wf_text *out)
{
    const struct wf_setting_list list = wf_train_setting_list();
    struct wf_train_settings old;
    /* A checkpoint that was converted from a model has no settings. */
    if (then[0] == '\0' || wf_settings_init(list, &old, NULL) != WEFT_OK)
        return;
    if (wf_settings_parse(list, then, strlen(then), "", &old, NULL) == WEFT_OK) {
        for (size_t i = 0; i < WEFT_LEN(numeric_settings); i++)
            add_change(numeric_settings[i], &old, now, out);
        if (decays_by_steps(&old) && decays_by_steps(now))
            add_change("train.steps", &old, now, out);
    }
    wf_settings_release(list, &old);
}
