/* Implements weft/train.h: training/session executes whole runs, training/trainer single
 * steps. */
#include "weft/train.h"

#include <stdlib.h>

#include "base/error.h"
#include "training/embed/embed.h"
#include "training/session/session.h"
#include "training/session/stop.h"
#include "training/trainer/companions.h"
#include "training/trainer/load.h"
#include "training/trainer/trainer.h"

/* -- whole runs ---------------------------------------------------------------------------- */

struct listener {
    weft_train_fn on_step;
    void *user;
    bool stop;
};

static void hear(void *arg, const struct wf_session_event *event)
{
    struct listener *l = arg;
    if (event->kind != WF_SESSION_EVENT_STEP || l->on_step == NULL)
        return;
    const struct wf_metrics_record *r = event->record;
    struct weft_train_step step = {.step = r->step,
                                   .loss = r->loss,
                                   .grad_norm = r->grad_norm,
                                   .lr = r->lr,
                                   .tokens = r->tokens,
                                   .seconds = r->ms * 1e-3,
                                   .bubble = r->bubble,
                                   .val_loss = r->val_loss};
    if (!l->on_step(&step, l->user))
        l->stop = true;
}

enum weft_status weft_train(struct weft_settings *s, weft_train_fn on_step, void *user,
                            struct weft_error *err)
{
    struct listener listener = {.on_step = on_step, .user = user};
    struct wf_session session = {
        .settings = &s->train, .on_event = hear, .stop = &listener.stop, .arg = &listener};
    enum weft_status st = weft_settings_check(s, err);
    if (st != WEFT_OK)
        return wf_session_fail(st, err);
    return wf_session_run(&session, err);
}

/* -- step by step -------------------------------------------------------------------------- */

struct weft_trainer {
    struct wf_trainer *t; /* owned */
    struct wf_companions companions;
};

static enum weft_status find_companions(struct weft_trainer *t,
                                        const struct wf_train_settings *s,
                                        struct weft_error *err)
{
    struct wf_trainer_info info = wf_trainer_info(t->t);
    char *source = NULL, *tokenizer = NULL;
    if (info.rank != 0)
        return WEFT_OK;
    enum weft_status st = wf_load_find_run_source(s, &source, err);
    if (st == WEFT_OK)
        st = wf_load_find_run_tokenizer(s, info.model.vocab, &tokenizer, err);
    if (st == WEFT_OK)
        st = wf_companions_init(&t->companions, source, tokenizer, &info.model, err);
    free(tokenizer);
    free(source);
    return st;
}

enum weft_status weft_trainer_new(const struct weft_settings *s, struct weft_comm *comm,
                                  struct weft_trainer **out, struct weft_error *err)
{
    struct weft_trainer *t = calloc(1, sizeof *t);
    if (t == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a trainer");
    enum weft_status st = wf_trainer_new(&s->train, comm, &t->t, err);
    if (st == WEFT_OK)
        st = find_companions(t, &s->train, err);
    if (st != WEFT_OK) {
        weft_trainer_free(t);
        return st;
    }
    *out = t;
    return WEFT_OK;
}

void weft_trainer_free(struct weft_trainer *t)
{
    if (t == NULL)
        return;
    wf_companions_release(&t->companions);
    wf_trainer_free(t->t);
    free(t);
}

enum weft_status weft_trainer_step(struct weft_trainer *t, struct weft_train_step *out,
                                   struct weft_error *err)
{
    struct wf_step_result r;
    WEFT_TRY(wf_trainer_step(t->t, &r, err));
    *out = (struct weft_train_step){.step = r.step,
                                    .loss = r.loss,
                                    .grad_norm = r.grad_norm,
                                    .lr = r.lr,
                                    .tokens = r.tokens,
                                    .seconds = (double)r.ns * 1e-9,
                                    .bubble = r.bubble};
    return WEFT_OK;
}

enum weft_status weft_trainer_evaluate(struct weft_trainer *t, double *loss,
                                       struct weft_error *err)
{
    struct wf_eval_result r;
    WEFT_TRY(wf_trainer_evaluate(t->t, &r, err));
    *loss = r.loss;
    return WEFT_OK;
}

enum weft_status weft_trainer_save(struct weft_trainer *t, const char *dir,
                                   struct weft_error *err)
{
    return wf_trainer_save(t->t, dir, &t->companions, err);
}
