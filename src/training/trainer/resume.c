/* Going on from a checkpoint: which one, whether it is this model's, and what was changed since. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "planning/spec/hf_config.h"
#include "runtime/comm/background.h"
#include "training/ckpt/file.h"
#include "training/ckpt/store.h"
#include "training/trainer/load.h"
#include "training/trainer/trainer_priv.h"

static enum weft_status no_memory(struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a checkpoint");
}

/* -- the model ------------------------------------------------------------------------------ */

static enum weft_status check_params(const struct wf_trainer *t, const struct wf_ckpt *store,
                                     struct weft_error *err)
{
    const struct wf_param_list *list = &t->topology.params;
    if (wf_ckpt_count(store) != list->n)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.200s has %zu tensors, the model %zu: it is another "
                         "model's",
                         wf_ckpt_path(store), wf_ckpt_count(store), list->n);
    for (size_t i = 0; i < list->n; i++) {
        const struct wf_ckpt_param *p = wf_ckpt_find(store, list->at[i].name);
        if (p == NULL || p->rank != list->at[i].rank || p->shape[0] != list->at[i].shape[0] ||
            (p->rank == 2 && p->shape[1] != list->at[i].shape[1]) || !p->has[WF_STORE_FIELD_M])
            return WEFT_FAIL(err, WEFT_CKPT,
                             "%.200s: %s is missing or has another shape than the model's",
                             wf_ckpt_path(store), list->at[i].name);
    }
    return WEFT_OK;
}

static enum weft_status describe_model(const struct weft_model *model, struct wf_text *out,
                                       struct weft_error *err)
{
    const struct wf_hf_metadata about = {"float32", -1, -1};
    WEFT_TRY(wf_hf_config_write(model, &about, out, err));
    return out->failed || out->at == NULL ? no_memory(err) : WEFT_OK;
}

/* The first line in which two texts differ, without blanks before it. */
static const char *first_difference(const char *a, const char *b)
{
    const char *line = a;
    for (; *a != '\0' && *a == *b; a++, b++)
        if (*a == '\n')
            line = a + 1;
    return line + strspn(line, " ");
}

/* Tensors of the same shapes do not make the same model: heads, for one, leave no trace in them. */
static enum weft_status check_model(const struct wf_trainer *t, const struct wf_ckpt *store,
                                    struct weft_error *err)
{
    struct weft_model model;
    struct wf_text then = {0}, now = {0};
    const char *text = wf_ckpt_model(store);
    WEFT_TRY(wf_hf_config_parse(text, strlen(text), wf_ckpt_path(store), &model, err));
    enum weft_status st = describe_model(&model, &then, err);
    if (st == WEFT_OK)
        st = describe_model(&t->topology.model, &now, err);
    if (st == WEFT_OK && strcmp(then.at, now.at) != 0) {
        const char *a = first_difference(then.at, now.at);
        const char *b = first_difference(now.at, then.at);
        st = WEFT_FAIL(err, WEFT_CKPT,
                       "%.200s is another model's: it has %.*s where the settings have %.*s; "
                       "give the same model",
                       wf_ckpt_path(store), (int)strcspn(a, ",\n"), a, (int)strcspn(b, ",\n"),
                       b);
    }
    wf_text_release(&then);
    wf_text_release(&now);
    return st;
}

/* -- settings ------------------------------------------------------------------------------- */

/* What decides the numbers of a step; all other settings may change without changing a bit. */
static const char *const numeric_settings[] = {
    "data.train",      "data.seq",           "data.batch",      "data.shuffle", "model.seed",
    "parallel.micros", "train.precision",    "train.reduction", "optim.lr",     "optim.min_lr",
    "optim.warmup",    "optim.decay_steps",  "optim.curve",     "optim.beta1",  "optim.beta2",
    "optim.eps",       "optim.weight_decay", "optim.clip",
};

static void note_change(const char *name, const struct wf_train_settings *then,
                        const struct wf_train_settings *now, struct wf_text *out)
{
    const struct wf_setting *row = wf_setting_find(wf_train_setting_list(), name);
    struct wf_text a = {0}, b = {0};
    wf_setting_add_value(row, then, &a);
    wf_setting_add_value(row, now, &b);
    if (a.at != NULL && b.at != NULL && strcmp(a.at, b.at) != 0)
        wf_text_addf(out, "%s%s was %s and is %s", out->len == 0 ? "" : ", ", name, a.at, b.at);
    wf_text_release(&a);
    wf_text_release(&b);
}

/* Without decay_steps the learning rate comes down over all steps. */
static bool decays_by_steps(const struct wf_train_settings *s)
{
    return s->optim.decay_steps == 0 && s->optim.curve != WF_LR_CURVE_CONSTANT;
}

/* A run may go on with other settings; it is only to be known that it is not the same run. */
static void note_changes(const struct wf_ckpt *store, const struct wf_train_settings *s,
                         char *note, size_t room)
{
    const struct wf_setting_list list = wf_train_setting_list();
    struct wf_train_settings then;
    struct wf_text changes = {0};
    const char *text = wf_ckpt_config(store);
    /* One that was made of a model is of no run. */
    if (text[0] == '\0' || wf_settings_init(list, &then, NULL) != WEFT_OK)
        return;
    bool read = wf_settings_parse(list, text, strlen(text), "", &then, NULL) == WEFT_OK;
    for (size_t i = 0; read && i < WEFT_LEN(numeric_settings); i++)
        note_change(numeric_settings[i], &then, s, &changes);
    if (read && decays_by_steps(&then) && decays_by_steps(s))
        note_change("train.steps", &then, s, &changes);
    size_t used = strlen(note);
    if (changes.at != NULL && !changes.failed)
        snprintf(note + used, room - used,
                 "%sthe run goes on with other settings than its checkpoint: %s",
                 used == 0 ? "" : "; ", changes.at);
    wf_text_release(&changes);
    wf_settings_release(list, &then);
}

/* -- loading -------------------------------------------------------------------------------- */

/* Again for every tensor: all of them may take longer than others wait. */
static void post_heartbeat(struct wf_trainer *t)
{
    if (t->comm != NULL)
        weft_comm_publish(t->comm, 0, WF_PHASE_START);
}

/* What this rank holds: values of its stages, moments of its shares. */
struct ranges {
    struct wf_load_range *at; /* owned */
    size_t n;
};

static size_t count_ranges(const struct wf_trainer *t)
{
    size_t n = 0, all = 0;
    for (uint32_t s = 0; s < t->topology.n_stages; s++)
        if (t->stages[s] != NULL) {
            wf_tstage_params(t->stages[s], &n);
            all += n;
        }
    wf_optim_tensors(t->optim, &n);
    return all + 2 * n;
}

static enum weft_status list_ranges(const struct wf_trainer *t, struct ranges *r,
                                    struct weft_error *err)
{
    size_t n = 0;
    r->at = calloc(count_ranges(t) + 1, sizeof *r->at);
    if (r->at == NULL)
        return no_memory(err);
    for (uint32_t s = 0; s < t->topology.n_stages; s++) {
        struct wf_param *p = t->stages[s] == NULL ? NULL : wf_tstage_params(t->stages[s], &n);
        for (size_t i = 0; p != NULL && i < n; i++)
            r->at[r->n++] = (struct wf_load_range){p[i].desc.name, WF_STORE_FIELD_VALUE, 0,
                                                   p[i].n, p[i].value};
    }
    const struct wf_optim_tensor *o = wf_optim_tensors(t->optim, &n);
    for (size_t i = 0; i < n; i++) {
        uint64_t count = o[i].end - o[i].begin;
        r->at[r->n++] =
            (struct wf_load_range){o[i].name, WF_STORE_FIELD_M, o[i].begin, count, o[i].m};
        r->at[r->n++] =
            (struct wf_load_range){o[i].name, WF_STORE_FIELD_V, o[i].begin, count, o[i].v};
    }
    return WEFT_OK;
}

/* All threads read; a few tensors at a time where others wait for a heartbeat. */
static enum weft_status load(struct wf_trainer *t, struct wf_ckpt *store,
                             struct weft_error *err)
{
    struct ranges r = {0};
    enum weft_status st = list_ranges(t, &r, err);
    size_t most = t->comm == NULL ? r.n : wf_pool_threads(t->pool);
    for (size_t i = 0; st == WEFT_OK && i < r.n; i += most) {
        post_heartbeat(t);
        st = wf_load_ranges(store, r.at + i, r.n - i < most ? r.n - i : most, t->pool, err);
    }
    free(r.at);
    return st;
}

/* -- which one ------------------------------------------------------------------------------ */

struct search {
    const struct wf_train_settings *settings;
    uint64_t below; /* this step could not be read, nor later ones */
    struct wf_ckpt *store;
    struct wf_text skipped;
};

/* By manifests, sizes and headers.  Numbers are compared with their hashes when they are read. */
static enum weft_status find(void *arg, struct weft_error *err)
{
    struct search *search = arg;
    const struct wf_train_settings *s = search->settings;
    struct wf_resume resume = wf_train_settings_resume(s);
    if (resume.mode == WF_RESUME_PATH)
        return wf_ckpt_open(resume.path, false, &search->store, err);
    char *root = wf_path_join(s->log.dir, "checkpoints");
    if (root == NULL)
        return no_memory(err);
    enum weft_status st = wf_ckpt_open_newest_below(root, search->below, false, &search->store,
                                                    &search->skipped, err);
    free(root);
    return st;
}

/* Adds lines, which become one. */
static void add_note(char *note, size_t room, const char *lines)
{
    size_t used = strlen(note);
    snprintf(note + used, room - used, "%s%s", used == 0 ? "" : "; ", lines);
    for (char *at = note; (at = strchr(at, '\n')) != NULL;)
        *at = at[1] == '\0' ? '\0' : ';';
}

/* Rank 0 looks; the others take what it found. */
static enum weft_status choose(struct wf_trainer *t, const struct wf_train_settings *s,
                               uint64_t below, struct wf_ckpt **store, char *note,
                               size_t note_bytes, struct weft_error *err)
{
    struct search search = {.settings = s, .below = below};
    char path[4096] = "";
    enum weft_status st =
        t->rank == 0 ? wf_background_run(t->comm, find, &search, err) : WEFT_OK;
    *store = search.store;
    if (*store != NULL)
        snprintf(path, sizeof path, "%s", wf_ckpt_path(*store));
    if (search.skipped.at != NULL)
        add_note(note, note_bytes, search.skipped.at);
    wf_text_release(&search.skipped);
    if (st == WEFT_OK && t->comm != NULL)
        st = weft_comm_broadcast(t->comm, path, sizeof path, err);
    if (st == WEFT_OK && t->rank != 0 && path[0] != '\0')
        st = wf_ckpt_open(path, false, store, err);
    return st;
}

enum { WHY = 300 };

/* What a rank found out while it read. */
struct damage {
    uint32_t found;
    char why[WHY];
};

/* Whether any rank met numbers that do not have their hash; rank 0 notes the first one's words. */
static enum weft_status gather_damage(struct wf_trainer *t, struct damage *own, char *note,
                                      size_t note_bytes, struct weft_error *err)
{
    struct damage *all = calloc(t->n_ranks, sizeof *all);
    enum weft_status st = all == NULL
                              ? no_memory(err)
                              : weft_comm_gather_equal(t->comm, own, sizeof *own, all, err);
    struct damage any = {0};
    for (uint32_t r = 0; st == WEFT_OK && t->rank == 0 && r < t->n_ranks && !any.found; r++)
        any = all[r];
    if (st == WEFT_OK && any.found)
        add_note(note, note_bytes, any.why);
    if (st == WEFT_OK && t->comm != NULL)
        st = weft_comm_broadcast(t->comm, &any, sizeof any, err);
    if (st == WEFT_OK)
        *own = any;
    free(all);
    return st;
}

/* Loads one.  Where an older one can take its place, damage is no error: all ranks then say
 * *damaged. */
static enum weft_status try_to_load(struct wf_trainer *t, struct wf_ckpt *store, bool others,
                                    bool *damaged, char *note, size_t note_bytes,
                                    struct weft_error *err)
{
    struct damage own = {0};
    struct weft_error why = {0};
    *damaged = false;
    WEFT_TRY(check_model(t, store, err));
    WEFT_TRY(check_params(t, store, err));
    enum weft_status st = load(t, store, &why);
    if (st != WEFT_OK && (!others || (st != WEFT_CKPT && st != WEFT_IO))) {
        if (err != NULL)
            *err = why;
        return st;
    }
    own.found = st != WEFT_OK;
    snprintf(own.why, sizeof own.why, "%.299s", why.msg);
    if (others)
        WEFT_TRY(gather_damage(t, &own, note, note_bytes, err));
    *damaged = own.found;
    return WEFT_OK;
}

/* Reads the newest one; one that turns out to be damaged leads to the one before it. */
static enum weft_status load_newest(struct wf_trainer *t, const struct wf_train_settings *s,
                                    uint64_t *step, char *note, size_t note_bytes,
                                    struct weft_error *err)
{
    bool others = wf_train_settings_resume(s).mode == WF_RESUME_NEWEST, damaged = true;
    uint64_t below = UINT64_MAX;
    enum weft_status st = WEFT_OK;
    while (st == WEFT_OK && damaged) {
        struct wf_ckpt *store = NULL;
        damaged = false;
        st = choose(t, s, below, &store, note, note_bytes, err);
        if (st == WEFT_CKPT && t->rank == 0 && below != UINT64_MAX)
            st = WEFT_FAIL(err, WEFT_CKPT, "no checkpoint of %.100s can be used: %.300s",
                           s->log.dir, note);
        if (st == WEFT_OK && store != NULL) {
            below = wf_ckpt_step(store);
            st = try_to_load(t, store, others, &damaged, note, note_bytes, err);
        }
        if (st == WEFT_OK && store != NULL && !damaged) {
            note_changes(store, s, note, note_bytes);
            wf_trainer_pack(t);
            *step = t->done = below;
        }
        wf_ckpt_free(store);
    }
    return st;
}

enum weft_status wf_checkpoint_resume(struct wf_trainer *t, const struct wf_train_settings *s,
                                      uint64_t *step, char *note, size_t note_bytes,
                                      struct weft_error *err)
{
    *step = 0;
    note[0] = '\0';
    enum wf_resume_mode mode = wf_train_settings_resume(s).mode;
    if (mode == WF_RESUME_NO)
        return WEFT_OK;
    if (mode == WF_RESUME_NEWEST && s->log.dir == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "checkpoint.resume is auto: give log.dir, where the run is");
    return load_newest(t, s, step, note, note_bytes, err);
}
