/* Reads the settings of the reference runs under tests/data/train from their run.json. */
#ifndef TESTS_TRAINER_RUNS_H
#define TESTS_TRAINER_RUNS_H

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "training/settings/settings.h"
#include "training/trainer/trainer.h"

static const char *const run_names[] = {"gpt2-tiny", "llama-tiny", "llama-tiny-tied-residual"};
enum { N_RUNS = 3, RUN_STEPS = 8 };

/* Returns the path of a file of a run, valid for the next three calls. */
static inline const char *run_path(const char *run, const char *file)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/train/%s%s%s", WEFT_TEST_DATA, run,
             file[0] != '\0' ? "/" : "", file);
    return path;
}

static inline void run_set(struct wf_train_settings *s, const char *key, const char *value)
{
    struct weft_error err = {0};
    if (wf_settings_set(wf_train_setting_list(), key, value, s, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
}

/* Initializes the settings of a run; the caller releases them with wf_settings_release(). */
static inline void run_settings(struct wf_train_settings *s, const char *run)
{
    static const char *const keys[][2] = {
        {"batch", "data.batch"},
        {"seq", "data.seq"},
        {"microbatches", "parallel.micros"},
        {"steps", "train.steps"},
        {"lr", "optim.lr"},
        {"min_lr", "optim.min_lr"},
        {"warmup", "optim.warmup"},
        {"decay_steps", "optim.decay_steps"},
        {"beta1", "optim.beta1"},
        {"beta2", "optim.beta2"},
        {"eps", "optim.eps"},
        {"wd", "optim.weight_decay"},
        {"clip", "optim.clip"},
    };

    json_t *json = json_load_file(run_path(run, "run.json"), 0, NULL);
    assert_non_null(json);
    assert_int_equal(wf_settings_init(wf_train_setting_list(), s, NULL), WEFT_OK);

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char value[40];
        const json_t *number = json_object_get(json, keys[i][0]);
        assert_true(json_is_number(number));
        snprintf(value, sizeof value, "%.17g", json_number_value(number));
        run_set(s, keys[i][1], value);
    }

    json_decref(json);
    run_set(s, "model.dir", run_path(run, ""));
    run_set(s, "data.train", run_path(run, "tokens.bin"));
}

/* Creates the trainer of a run on one rank. */
static inline struct wf_trainer *run_trainer(const struct wf_train_settings *s)
{
    struct weft_error err = {0};
    struct wf_trainer *t = NULL;
    assert_int_equal(wf_train_settings_check(s, &err), WEFT_OK);
    if (wf_trainer_new(s, NULL, &t, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    return t;
}

#endif
