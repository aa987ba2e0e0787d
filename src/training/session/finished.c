/* Recognizes a run that has nothing left to do, and completes the files that a run writes
 * last. */
#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "training/session/session_priv.h"

/* Copies the tokenizer to the weights, unless the run has completed that. */
static enum weft_status complete_model(const char *dir, const char *model,
                                       struct weft_error *err)
{
    static const char name[] = "tokenizer.json";
    bool exists, done;
    WEFT_TRY(wf_dir_has(dir, name, &exists, err));
    WEFT_TRY(wf_dir_has(model, name, &done, err));
    if (!exists || done)
        return WEFT_OK;
    char *from = wf_path_join(dir, name), *to = wf_path_join(model, name);
    enum weft_status st = from == NULL || to == NULL
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path")
                              : wf_file_copy(from, to, err);
    free(from);
    free(to);
    return st;
}

/* Returns true if the report is missing or older than the weights. */
static bool lacks_report(const char *dir, const char *model)
{
    struct stat page, weights;
    char *path = wf_report_path(dir);
    bool lacks = path == NULL || stat(path, &page) != 0 || stat(model, &weights) != 0 ||
                 page.st_mtim.tv_sec < weights.st_mtim.tv_sec ||
                 (page.st_mtim.tv_sec == weights.st_mtim.tv_sec &&
                  page.st_mtim.tv_nsec < weights.st_mtim.tv_nsec);
    free(path);
    return lacks;
}

static enum weft_status complete_files(struct wf_session_rank *r, struct weft_error *err)
{
    const char *dir = r->settings->log.dir;
    WEFT_TRY(wf_store_lock(dir, &r->dir.lock, err));
    char *model = wf_path_join(dir, "model");
    enum weft_status st = model == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path")
                                        : complete_model(dir, model, err);
    r->lacks_report = st == WEFT_OK && lacks_report(dir, model);
    free(model);
    return st;
}

enum weft_status wf_session_check_finished(struct wf_session_rank *r, struct weft_error *err)
{
    const struct wf_train_settings *s = r->settings;
    uint64_t done = 0;
    if (s->log.dir == NULL || s->checkpoint.resume_mode != WF_RESUME_NEWEST)
        return WEFT_OK;

    if (r->rank == 0)
        WEFT_TRY(wf_rundir_finished_steps(s->log.dir, &done, err));
    WEFT_TRY(weft_comm_broadcast(r->comm, &done, sizeof done, err));
    r->finished = done > 0 && done >= s->train.steps;
    if (!r->finished || r->rank != 0)
        return WEFT_OK;

    WEFT_TRY(complete_files(r, err));
    wf_session_emit(r,
                    (struct wf_session_event){.kind = WF_SESSION_EVENT_FINISHED, .step = done});
    return WEFT_OK;
}
