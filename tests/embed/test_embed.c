/* Checks training, generation and checkpoints through the public headers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "folder.h"
#include "weft/checkpoint.h"
#include "weft/generate.h"
#include "weft/train.h"

static struct weft_error err;

static void write_shard(const char *path)
{
    int32_t header[256] = {20240520, 1, 600};
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    fwrite(header, sizeof header, 1, out);
    for (int i = 0; i < 600; i++)
        fwrite(&(uint16_t){(uint16_t)("the weft goes\n"[i % 14])}, 2, 1, out);
    assert_int_equal(fclose(out), 0);
}

static void set(struct weft_settings *s, const char *name, const char *value)
{
    if (weft_settings_set(s, name, value, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
}

static struct weft_settings *make_settings(struct folder *f, const char *run, const char *pp)
{
    struct weft_settings *s = NULL;
    char shard[512], dir[512];
    snprintf(shard, sizeof shard, "%s/shard.bin", f->path);
    snprintf(dir, sizeof dir, "%s/%s", f->path, run);
    write_shard(shard);
    assert_int_equal(weft_settings_new(&s, &err), WEFT_OK);
    const char *const rows[][2] = {
        {"model.spec", "d2"},  {"model.vocab", "257"},    {"model.ctx", "32"},
        {"data.train", shard}, {"data.val", shard},       {"data.batch", "4"},
        {"data.seq", "16"},    {"parallel.micros", "2"},  {"parallel.pp", pp},
        {"train.steps", "4"},  {"parallel.threads", "1"}, {"log.dir", dir}};
    for (size_t i = 0; i < WEFT_LEN(rows); i++)
        set(s, rows[i][0], rows[i][1]);
    return s;
}

struct seen {
    uint64_t n, stop_at;
    double losses[8];
};

static bool on_step(const struct weft_train_step *step, void *user)
{
    struct seen *seen = user;
    seen->losses[seen->n++] = step->loss;
    return step->step != seen->stop_at;
}

static void hash_of(const char *path, char out[WEFT_CHECKPOINT_HASH_SIZE])
{
    struct weft_checkpoint *c = NULL;
    if (weft_checkpoint_open(path, &c, &err) != WEFT_OK ||
        weft_checkpoint_hash(c, out, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(weft_checkpoint_model(c)->layers, 2);
    weft_checkpoint_free(c);
}

/* weft_train() and a trainer with the same steps give equal losses and weights. */
static void run_and_trainer_agree(void **state)
{
    struct folder f = folder_new();
    struct weft_settings *s = make_settings(&f, "run", "2");
    struct seen seen = {0};
    char model[512], other[512], a[WEFT_CHECKPOINT_HASH_SIZE], b[WEFT_CHECKPOINT_HASH_SIZE];
    (void)state;
    if (weft_train(s, on_step, &seen, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(seen.n, 4);
    weft_settings_free(s);
    snprintf(model, sizeof model, "%s/run/model", f.path);

    s = make_settings(&f, "unused", "1");
    struct weft_trainer *t = NULL;
    struct weft_train_step step;
    double loss = 0;
    assert_int_equal(weft_settings_check(s, &err), WEFT_OK);
    if (weft_trainer_new(s, NULL, &t, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(weft_trainer_step(t, &step, &err), WEFT_OK);
        assert_true(step.loss == seen.losses[i]);
    }
    assert_int_equal(weft_trainer_evaluate(t, &loss, &err), WEFT_OK);
    assert_true(loss > 0 && loss < 10);
    snprintf(other, sizeof other, "%s/other", f.path);
    assert_int_equal(weft_trainer_save(t, other, &err), WEFT_OK);
    weft_trainer_free(t);
    weft_settings_free(s);

    hash_of(model, a);
    hash_of(other, b);
    assert_string_equal(a, b);
    folder_remove(&f);
}

static void callback_stops_the_run(void **state)
{
    struct folder f = folder_new();
    struct weft_settings *s = make_settings(&f, "run", "1");
    struct seen seen = {.stop_at = 2};
    (void)state;
    assert_int_equal(weft_train(s, on_step, &seen, &err), WEFT_OK);
    assert_int_equal(seen.n, 3); /* the step in which all ranks are notified */
    weft_settings_free(s);
    folder_remove(&f);
}

/* A run that was stopped with a checkpoint is opened as this checkpoint, and a note names it. */
static void note_names_the_checkpoint(void **state)
{
    struct folder f = folder_new();
    struct weft_settings *s = make_settings(&f, "run", "1");
    struct weft_checkpoint *c = NULL;
    struct seen seen = {.stop_at = 2};
    char run[512];
    (void)state;
    snprintf(run, sizeof run, "%s/run", f.path);
    assert_int_equal(weft_settings_set(s, "checkpoint.every", "1", &err), WEFT_OK);
    assert_int_equal(weft_train(s, on_step, &seen, &err), WEFT_OK);
    assert_int_equal(weft_checkpoint_open(run, &c, &err), WEFT_OK);
    assert_non_null(strstr(weft_checkpoint_note(c), "using its checkpoint of step 3"));
    weft_checkpoint_free(c);

    assert_int_equal(weft_settings_set(s, "checkpoint.resume", "auto", &err), WEFT_OK);
    assert_int_equal(weft_train(s, NULL, NULL, &err), WEFT_OK);
    assert_int_equal(weft_checkpoint_open(run, &c, &err), WEFT_OK);
    assert_null(weft_checkpoint_note(c));
    weft_checkpoint_free(c);
    weft_settings_free(s);
    folder_remove(&f);
}

static bool count(const char *bytes, size_t len, void *user)
{
    (void)bytes;
    *(size_t *)user += len;
    return *(size_t *)user < 5;
}

static void generates_reads_and_converts(void **state)
{
    struct folder f = folder_new();
    struct weft_settings *s = make_settings(&f, "run", "1");
    char model[512], copy[512], *text = NULL, *again = NULL;
    size_t len = 0, seen = 0;
    (void)state;
    assert_int_equal(weft_train(s, NULL, NULL, &err), WEFT_OK);
    weft_settings_free(s);
    snprintf(model, sizeof model, "%s/run/model", f.path);
    snprintf(copy, sizeof copy, "%s/copy", f.path);

    struct weft_generate_options options = weft_generate_defaults();
    options.prompt = "the ";
    options.max_tokens = 8;
    if (weft_generate(model, &options, &text, &len, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    options.threads = 2;
    assert_int_equal(weft_generate(model, &options, &again, NULL, &err), WEFT_OK);
    assert_memory_equal(text, again, len + 1);
    free(text);
    free(again);
    options.on_token = count;
    options.user = &seen;
    assert_int_equal(weft_generate(model, &options, &text, &len, &err), WEFT_OK);
    assert_int_equal(len, seen);
    free(text);

    struct weft_checkpoint *c = NULL;
    float *wpe = malloc(sizeof *wpe * 32 * 128);
    assert_int_equal(weft_checkpoint_open(model, &c, &err), WEFT_OK);
    assert_string_equal(weft_checkpoint_path(c), model);
    assert_int_equal(
        weft_checkpoint_read(c, "transformer.wpe.weight", 2, (uint64_t[]){32, 128}, wpe, &err),
        WEFT_OK);
    assert_int_equal(
        weft_checkpoint_read(c, "transformer.none", 2, (uint64_t[]){32, 128}, wpe, &err),
        WEFT_CKPT);
    assert_int_equal(weft_checkpoint_convert(c, copy, false, &err), WEFT_OK);
    char a[WEFT_CHECKPOINT_HASH_SIZE], b[WEFT_CHECKPOINT_HASH_SIZE];
    hash_of(model, a);
    hash_of(copy, b);
    assert_string_equal(a, b);
    free(wpe);
    weft_checkpoint_free(c);
    folder_remove(&f);
}

static void settings_are_checked(void **state)
{
    struct weft_settings *s = NULL;
    char *text = NULL;
    (void)state;
    assert_int_equal(weft_settings_new(&s, &err), WEFT_OK);
    assert_int_equal(weft_settings_set(s, "train.stepz", "1", &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "train.stepz"));
    assert_int_equal(weft_settings_set(s, "train.steps", "many", &err), WEFT_USAGE);
    assert_ptr_equal(strstr(err.msg, "train.steps: 'many' is not a whole number"), err.msg);
    assert_int_equal(weft_settings_read(s, "no-such-file.yaml", &err), WEFT_USAGE);
    assert_int_equal(weft_settings_check(s, &err), WEFT_USAGE); /* no model, no data */
    assert_int_equal(weft_train(s, NULL, NULL, &err), WEFT_USAGE);
    set(s, "optim.lr", "0.25");
    assert_int_equal(weft_settings_print(s, &text, &err), WEFT_OK);
    assert_non_null(strstr(text, "lr: 0.25"));
    free(text);
    weft_settings_free(s);
    weft_settings_free(NULL);
    weft_trainer_free(NULL);
    weft_checkpoint_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_and_trainer_agree),
        cmocka_unit_test(callback_stops_the_run),
        cmocka_unit_test(note_names_the_checkpoint),
        cmocka_unit_test(generates_reads_and_converts),
        cmocka_unit_test(settings_are_checked),
    };
    return cmocka_run_group_tests_name("embed", tests, NULL, NULL) != 0;
}
