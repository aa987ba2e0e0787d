/* Finds a usable checkpoint on rank 0, checks its model, and loads it on all ranks. */
#include "training/trainer/resume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "planning/spec/hf_config.h"
#include "runtime/comm/background.h"
#include "training/ckpt/store.h"
#include "training/data/meta.h"
#include "training/data/tokenizer.h"
#include "training/trainer/data_hash.h"
#include "training/trainer/lines.h"
#include "training/trainer/phases.h"
#include "training/trainer/settings_changes.h"

enum { CAUSE = 300 };

static uint32_t own_rank(const struct wf_resume_setup *setup)
{
    return setup->comm == NULL ? 0 : weft_comm_rank(setup->comm);
}

/* -- the model ----------------------------------------------------------------------------- */

static enum weft_status check_params(const struct wf_param_list *params,
                                     const struct wf_ckpt *ckpt, struct weft_error *err)
{
    if (wf_ckpt_count(ckpt) != params->n)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.200s is a checkpoint of another model: it has %zu tensors, the "
                         "model has %zu",
                         wf_ckpt_path(ckpt), wf_ckpt_count(ckpt), params->n);
    for (size_t i = 0; i < params->n; i++) {
        const struct wf_param_desc *d = &params->at[i];
        const struct wf_ckpt_param *p = wf_ckpt_find(ckpt, d->name);
        if (p == NULL || p->n_dims != d->n_dims || p->shape[0] != d->shape[0] ||
            (p->n_dims == 2 && p->shape[1] != d->shape[1]) || !p->has[WF_STORE_FIELD_M])
            return WEFT_FAIL(err, WEFT_CKPT,
                             "%.200s: %s is missing or has another shape than in the model",
                             wf_ckpt_path(ckpt), d->name);
    }
    return WEFT_OK;
}

static enum weft_status describe_model(const struct weft_model *model, struct wf_text *out,
                                       struct weft_error *err)
{
    const struct wf_hf_metadata about = {.dtype = "float32"};
    WEFT_TRY(wf_hf_config_write(model, &about, out, err));
    return out->failed || out->at == NULL
               ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a checkpoint")
               : WEFT_OK;
}

static const char *skip_blanks(const char *line)
{
    return line + strspn(line, " ");
}

/* Compares the configurations, because models with the same shapes may still differ, for
 * example in their number of heads. */
static enum weft_status check_model(const struct weft_model *model, const struct wf_ckpt *ckpt,
                                    struct weft_error *err)
{
    struct weft_model stored;
    struct wf_text then = {0}, now = {0};
    const char *text = wf_ckpt_model(ckpt);
    WEFT_TRY(wf_hf_config_parse(text, strlen(text), wf_ckpt_path(ckpt), &stored, err));
    enum weft_status st = describe_model(&stored, &then, err);
    if (st == WEFT_OK)
        st = describe_model(model, &now, err);

    const char *a = then.at, *b = now.at;
    if (st == WEFT_OK && wf_lines_find_difference(&a, &b)) {
        a = skip_blanks(a);
        b = skip_blanks(b);
        st =
            WEFT_FAIL(err, WEFT_CKPT,
                      "%.200s is a checkpoint of another model: it has %.*s where the settings "
                      "have %.*s; give the same model",
                      wf_ckpt_path(ckpt), (int)strcspn(a, ",\n"), a, (int)strcspn(b, ",\n"), b);
    }
    wf_text_release(&then);
    wf_text_release(&now);
    return st;
}

/* -- the data ------------------------------------------------------------------------------ */

/* Compares the tokenizer of the data with that of the checkpoint. */
static enum weft_status check_tokenizer(const struct wf_resume_setup *setup,
                                        const struct wf_ckpt *ckpt, struct weft_error *err)
{
    uint64_t then = 0;
    if (setup->shards == NULL || !setup->settings->data.verify ||
        !wf_tokenizer_hash_parse(wf_ckpt_tokenizer(ckpt), &then))
        return WEFT_OK;
    return wf_meta_check_same(wf_shards_path(setup->shards, 0), setup->tokenizer,
                              wf_ckpt_path(ckpt), then, err);
}

struct data_check {
    struct wf_data_hash *hash;
    const struct wf_ckpt *ckpt;
};

static enum weft_status compare_data(void *arg, struct weft_error *err)
{
    const struct data_check *c = arg;
    return wf_data_hash_compare(c->hash, wf_ckpt_data(c->ckpt), wf_ckpt_step(c->ckpt), err);
}

/* Reads the shards on rank 0 and compares their hashes with those in the checkpoint.  Data of
 * another name is a change of the settings, which note_changes() reports. */
static enum weft_status check_data(const struct wf_resume_setup *setup,
                                   const struct wf_ckpt *ckpt, struct weft_error *err)
{
    struct data_check check = {.ckpt = ckpt};
    bool same = false;
    if (setup->shards == NULL || !setup->settings->data.verify || wf_ckpt_data(ckpt)[0] == '\0')
        return WEFT_OK;
    WEFT_TRY(
        wf_settings_is_same(wf_ckpt_config(ckpt), setup->settings, "data.train", &same, err));
    if (!same)
        return WEFT_OK;
    if (own_rank(setup) == 0) {
        WEFT_TRY(wf_data_hash_new(setup->shards, &check.hash, err));
        enum weft_status st = wf_background_run(setup->comm, compare_data, &check, err);
        wf_data_hash_free(*setup->data);
        *setup->data = check.hash;
        WEFT_TRY(st);
    }
    return setup->comm == NULL ? WEFT_OK : weft_comm_barrier(setup->comm, err);
}

/* -- choosing a checkpoint ----------------------------------------------------------------- */

struct resume_search {
    const struct wf_resume_setup *setup;
    /* consider only checkpoints before this step, since later ones could not be read */
    uint64_t below;
    struct wf_ckpt *found;
    struct wf_text skipped;
};

/* Finds a checkpoint by checking manifests, sizes and headers.  The tensor data is verified
 * when it is read. */
static enum weft_status find(void *arg, struct weft_error *err)
{
    struct resume_search *s = arg;
    if (s->setup->root == NULL)
        return wf_ckpt_open(s->setup->path, false, &s->found, err);
    return wf_ckpt_open_newest_below(s->setup->root, s->below, false, &s->found, &s->skipped,
                                     err);
}

/* Appends text to the note and joins its lines. */
static void add_note(struct wf_resume_result *out, const char *lines)
{
    size_t used = strlen(out->note);
    snprintf(out->note + used, sizeof out->note - used, "%s%s", used == 0 ? "" : "; ", lines);
    for (char *at = out->note; (at = strchr(at, '\n')) != NULL;)
        *at = at[1] == '\0' ? '\0' : ';';
}

/* Opens the checkpoint to resume from.  Rank 0 searches for it; the other ranks open the
 * checkpoint that rank 0 found.  *ckpt is NULL if there is none. */
static enum weft_status choose(const struct wf_resume_setup *setup, uint64_t below,
                               struct wf_ckpt **ckpt, struct wf_resume_result *out,
                               struct weft_error *err)
{
    struct resume_search search = {.setup = setup, .below = below};
    uint32_t rank = own_rank(setup);
    char path[4096] = "";
    enum weft_status st =
        rank == 0 ? wf_background_run(setup->comm, find, &search, err) : WEFT_OK;
    *ckpt = search.found;
    if (*ckpt != NULL)
        snprintf(path, sizeof path, "%s", wf_ckpt_path(*ckpt));
    if (search.skipped.at != NULL)
        add_note(out, search.skipped.at);
    wf_text_release(&search.skipped);

    if (st == WEFT_OK && setup->comm != NULL)
        st = weft_comm_broadcast(setup->comm, path, sizeof path, err);
    if (st == WEFT_OK && rank != 0 && path[0] != '\0')
        st = wf_ckpt_open(path, false, ckpt, err);
    return st;
}

/* -- loading ------------------------------------------------------------------------------- */

/* Reads all ranges with all threads.  If there are other ranks, reads a few ranges at a time
 * and sends heartbeats in between. */
static enum weft_status read_ranges(const struct wf_resume_setup *setup, struct wf_ckpt *ckpt,
                                    struct weft_error *err)
{
    size_t n = setup->n_ranges, max = setup->comm == NULL ? n : wf_pool_threads(setup->pool);
    for (size_t i = 0; i < n; i += max) {
        if (setup->comm != NULL)
            weft_comm_publish(setup->comm, 0, WF_PHASE_START);
        WEFT_TRY(wf_load_ranges(ckpt, setup->ranges + i, n - i < max ? n - i : max, setup->pool,
                                err));
    }
    return WEFT_OK;
}

/* The damage that a rank found while it read the checkpoint. */
struct damage {
    uint32_t found;
    char cause[CAUSE];
};

/* Replaces *own by the damage that the first rank with damage found.  Rank 0 adds the cause to
 * the note. */
static enum weft_status gather_damage(const struct wf_resume_setup *setup, struct damage *own,
                                      struct wf_resume_result *out, struct weft_error *err)
{
    uint32_t n = setup->comm == NULL ? 1 : weft_comm_size(setup->comm);
    struct damage *all = calloc(n, sizeof *all), any = {0};
    if (all == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a checkpoint");
    enum weft_status st = weft_comm_gather_equal(setup->comm, own, sizeof *own, all, err);
    for (uint32_t r = 0; st == WEFT_OK && own_rank(setup) == 0 && r < n && !any.found; r++)
        any = all[r];
    free(all);

    if (st == WEFT_OK && any.found)
        add_note(out, any.cause);
    if (st == WEFT_OK && setup->comm != NULL)
        st = weft_comm_broadcast(setup->comm, &any, sizeof any, err);
    *own = any;
    return st;
}

/* Loads one checkpoint.  If an older checkpoint can replace it, damaged data is not an error:
 * *damaged is then set on all ranks. */
static enum weft_status try_to_load(const struct wf_resume_setup *setup, struct wf_ckpt *ckpt,
                                    bool *damaged, struct wf_resume_result *out,
                                    struct weft_error *err)
{
    struct weft_error cause = {0};
    WEFT_TRY(check_model(setup->model, ckpt, err));
    WEFT_TRY(check_params(setup->params, ckpt, err));
    WEFT_TRY(check_tokenizer(setup, ckpt, err));
    WEFT_TRY(check_data(setup, ckpt, err));
    enum weft_status st = read_ranges(setup, ckpt, &cause);
    /* A cause outside of the file, such as a failed read, does not make it damaged. */
    if (st != WEFT_OK && (setup->root == NULL || st != WEFT_CKPT)) {
        if (err != NULL)
            *err = cause;
        return st;
    }

    struct damage damage = {.found = st != WEFT_OK};
    snprintf(damage.cause, sizeof damage.cause, "%.299s", cause.msg);
    if (setup->root != NULL)
        WEFT_TRY(gather_damage(setup, &damage, out, err));
    *damaged = damage.found;
    return WEFT_OK;
}

/* Notes settings that changed.  A run may continue with changed settings, but its results then
 * differ. */
static void note_changes(const struct wf_resume_setup *setup, const struct wf_ckpt *ckpt,
                         struct wf_resume_result *out)
{
    struct wf_text changes = {0};
    wf_settings_add_changes(wf_ckpt_config(ckpt), setup->settings, &changes);
    size_t used = strlen(out->note);
    if (changes.at != NULL && !changes.failed)
        snprintf(out->note + used, sizeof out->note - used,
                 "%sthe run continues with settings that differ from its checkpoint: %s",
                 used == 0 ? "" : "; ", changes.at);
    wf_text_release(&changes);
}

enum weft_status wf_resume_load(const struct wf_resume_setup *setup,
                                struct wf_resume_result *out, struct weft_error *err)
{
    uint64_t below = UINT64_MAX;
    bool damaged = true;
    enum weft_status st = WEFT_OK;
    *out = (struct wf_resume_result){0};

    /* If a checkpoint is damaged, try the one before it. */
    while (st == WEFT_OK && damaged) {
        struct wf_ckpt *ckpt = NULL;
        damaged = false;
        st = choose(setup, below, &ckpt, out, err);
        if (st == WEFT_CKPT && own_rank(setup) == 0 && below != UINT64_MAX)
            st = WEFT_FAIL(err, WEFT_CKPT, "no checkpoint in %.100s can be used: %.300s",
                           setup->root, out->note);
        if (st == WEFT_OK && ckpt != NULL) {
            below = wf_ckpt_step(ckpt);
            st = try_to_load(setup, ckpt, &damaged, out, err);
        }
        if (st == WEFT_OK && ckpt != NULL && !damaged) {
            note_changes(setup, ckpt, out);
            out->step = below;
            out->found = true;
        }
        wf_ckpt_free(ckpt);
    }
    return st;
}
