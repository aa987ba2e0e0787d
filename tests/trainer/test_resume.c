/* Checks resuming without a trainer: checkpoints are written by a checkpointer, loaded by
 * wf_resume_load(), and compared with a formula. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/text.h"
#include "ckpt/folder.h"
#include "planning/spec/hf_config.h"
#include "runs.h"
#include "training/trainer/checkpoint.h"
#include "training/trainer/resume.h"

enum { LAST_STEP = 3, KEEP = 2 };

struct rig {
    struct folder folder;
    char root[128];
    struct wf_train_settings settings;
    struct weft_model model;
    struct wf_param_list params;
    struct wf_pool *pool;
    float *values[WF_STORE_N_FIELDS]; /* owned: all parameters, one after the other */
    size_t n;
};

static float expected(uint64_t step, unsigned field, size_t i)
{
    return (float)(step * 3 + field) + (float)(i % 1024) / 1024;
}

static void fill(struct rig *r, uint64_t step)
{
    for (unsigned f = 0; f < WF_STORE_N_FIELDS; f++)
        for (size_t i = 0; i < r->n; i++)
            r->values[f][i] = expected(step, f, i);
}

static void check_values(const struct rig *r, uint64_t step)
{
    for (unsigned f = 0; f < WF_STORE_N_FIELDS; f++)
        for (size_t i = 0; i < r->n; i++)
            assert_true(r->values[f][i] == expected(step, f, i));
}

/* Writes a checkpoint of every step up to LAST_STEP; the newest KEEP remain. */
static void write_checkpoints(struct rig *r)
{
    struct wf_checkpoint_tensor *tensors = calloc(r->params.n, sizeof *tensors);
    struct wf_text config = {0}, model = {0};
    const struct wf_hf_metadata metadata = {.dtype = "float32"};
    struct weft_error err = {0};

    assert_non_null(tensors);
    wf_settings_print(wf_train_setting_list(), &r->settings, &config);
    assert_int_equal(wf_hf_config_write(&r->model, &metadata, &model, &err), WEFT_OK);

    for (size_t i = 0, at = 0; i < r->params.n; at += tensors[i++].n) {
        const struct wf_param_desc *d = &r->params.at[i];
        tensors[i] = (struct wf_checkpoint_tensor){.name = d->name,
                                                   .n_dims = d->n_dims,
                                                   .shape = {d->shape[0], d->shape[1]},
                                                   .n = wf_param_size(d),
                                                   .value = r->values[0] + at,
                                                   .m = r->values[1] + at,
                                                   .v = r->values[2] + at};
    }

    const struct wf_checkpointer_setup setup = {.root = r->root,
                                                .config = config.at,
                                                .model = model.at,
                                                .tensors = tensors,
                                                .n_tensors = r->params.n,
                                                .every = 1,
                                                .keep = KEEP};

    struct wf_checkpointer *c = NULL;
    assert_int_equal(wf_checkpointer_new(&setup, &c, &err), WEFT_OK);
    for (uint64_t step = 1; step <= LAST_STEP; step++) {
        fill(r, step);
        assert_int_equal(wf_checkpointer_after_step(c, step, &err), WEFT_OK);
        assert_int_equal(wf_checkpointer_poll(c).saved, step);
    }

    wf_checkpointer_free(c);
    wf_text_release(&config);
    wf_text_release(&model);
    free(tensors);
}

static void rig_init(struct rig *r)
{
    struct weft_error err = {0};
    *r = (struct rig){0};
    folder_make(&r->folder);
    snprintf(r->root, sizeof r->root, "%s/checkpoints", r->folder.at);
    run_settings(&r->settings, "gpt2-tiny");
    assert_int_equal(wf_load_run_model(&r->settings, &r->model, &err), WEFT_OK);
    assert_int_equal(wf_param_list_init(&r->params, &r->model, 0, r->model.layers + 2, &err),
                     WEFT_OK);
    assert_int_equal(wf_pool_new(2, &r->pool, &err), WEFT_OK);
    for (size_t i = 0; i < r->params.n; i++)
        r->n += wf_param_size(&r->params.at[i]);
    for (unsigned f = 0; f < WF_STORE_N_FIELDS; f++) {
        r->values[f] = calloc(r->n, sizeof *r->values[f]);
        assert_non_null(r->values[f]);
    }
}

static void rig_release(struct rig *r)
{
    for (unsigned f = 0; f < WF_STORE_N_FIELDS; f++)
        free(r->values[f]);
    wf_pool_free(r->pool);
    wf_param_list_release(&r->params);
    wf_settings_release(wf_train_setting_list(), &r->settings);
    folder_remove(r->folder.at);
}

static enum weft_status resume(struct rig *r, const char *root, const char *path,
                               struct wf_resume_result *out, struct weft_error *err)
{
    struct wf_load_range *ranges = calloc(r->params.n * WF_STORE_N_FIELDS, sizeof *ranges);
    size_t n = 0;

    assert_non_null(ranges);
    fill(r, 0);
    for (unsigned f = 0; f < WF_STORE_N_FIELDS; f++)
        for (size_t i = 0, at = 0; i < r->params.n; at += ranges[n++].n, i++)
            ranges[n] =
                (struct wf_load_range){r->params.at[i].name, (enum wf_store_field)f, 0,
                                       wf_param_size(&r->params.at[i]), r->values[f] + at};

    const struct wf_resume_setup setup = {.pool = r->pool,
                                          .root = root,
                                          .path = path,
                                          .model = &r->model,
                                          .params = &r->params,
                                          .settings = &r->settings,
                                          .ranges = ranges,
                                          .n_ranges = n};

    enum weft_status st = wf_resume_load(&setup, out, err);
    free(ranges);
    return st;
}

/* Inverts one byte in the middle of the file of a checkpoint, which only its hash detects. */
static void damage(const struct rig *r, unsigned step)
{
    char path[200];
    snprintf(path, sizeof path, "%s/step-%08u/rank-00000.safetensors", r->root, step);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long middle = ftell(file) / 2;
    assert_int_equal(fseek(file, middle, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, middle, SEEK_SET), 0);
    fputc(byte ^ 0xff, file);
    fclose(file);
}

static void starts_at_step_0_without_checkpoints(void **state)
{
    struct rig r;
    struct wf_resume_result result;
    (void)state;
    rig_init(&r);
    assert_int_equal(resume(&r, r.root, NULL, &result, NULL), WEFT_OK);
    assert_int_equal(result.step, 0);
    assert_string_equal(result.note, "");
    check_values(&r, 0);
    rig_release(&r);
}

static void loads_the_newest_or_a_named_checkpoint(void **state)
{
    struct rig r;
    struct wf_resume_result result;
    char path[200];
    (void)state;
    rig_init(&r);
    write_checkpoints(&r);
    assert_int_equal(resume(&r, r.root, NULL, &result, NULL), WEFT_OK);
    assert_int_equal(result.step, LAST_STEP);
    assert_string_equal(result.note, "");
    check_values(&r, LAST_STEP);

    snprintf(path, sizeof path, "%s/step-%08u", r.root, LAST_STEP - 1);
    assert_int_equal(resume(&r, NULL, path, &result, NULL), WEFT_OK);
    assert_int_equal(result.step, LAST_STEP - 1);
    check_values(&r, LAST_STEP - 1);
    rig_release(&r);
}

static void skips_damaged_checkpoints(void **state)
{
    struct rig r;
    struct wf_resume_result result;
    struct weft_error err = {0};
    (void)state;
    rig_init(&r);
    write_checkpoints(&r);
    damage(&r, LAST_STEP);
    assert_int_equal(resume(&r, r.root, NULL, &result, &err), WEFT_OK);
    assert_int_equal(result.step, LAST_STEP - 1);
    assert_non_null(strstr(result.note, "step-00000003"));
    check_values(&r, LAST_STEP - 1);

    damage(&r, LAST_STEP - 1);
    assert_int_equal(resume(&r, r.root, NULL, &result, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "no checkpoint in "));
    rig_release(&r);
}

static void rejects_another_model(void **state)
{
    struct rig r;
    struct wf_resume_result result;
    struct weft_error err = {0};
    (void)state;
    rig_init(&r);
    write_checkpoints(&r);
    r.model.heads *= 2; /* no shape depends on it */
    r.model.kv_heads *= 2;
    assert_int_equal(resume(&r, r.root, NULL, &result, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "is a checkpoint of another model: it has \"n_head\": "));
    r.model.heads /= 2;
    r.model.kv_heads /= 2;

    r.params.n--;
    assert_int_equal(resume(&r, r.root, NULL, &result, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "is a checkpoint of another model: it has "));
    r.params.n++;
    rig_release(&r);
}

static void notes_changed_settings(void **state)
{
    struct rig r;
    struct wf_resume_result result;
    (void)state;
    rig_init(&r);
    run_set(&r.settings, "optim.lr", "0.5");
    write_checkpoints(&r);
    run_set(&r.settings, "optim.lr", "0.25");
    run_set(&r.settings, "train.timeout", "7"); /* does not change the numbers */
    assert_int_equal(resume(&r, r.root, NULL, &result, NULL), WEFT_OK);
    assert_string_equal(result.note, "the run continues with settings that differ from its "
                                     "checkpoint: optim.lr was 0.5 and is 0.25");
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_at_step_0_without_checkpoints),
        cmocka_unit_test(loads_the_newest_or_a_named_checkpoint),
        cmocka_unit_test(skips_damaged_checkpoints),
        cmocka_unit_test(rejects_another_model),
        cmocka_unit_test(notes_changed_settings),
    };
    return cmocka_run_group_tests_name("resume", tests, NULL, NULL) != 0;
}
