/* Checkpoints of whole steps for the tests of the store: saves one, compares it, and
 * finds the newest. */
#ifndef CKPT_STORE_STEPS_H
#define CKPT_STORE_STEPS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ckpt/store_saved.h"
#include "folder.h"
#include "training/ckpt/store.h"

static inline struct saved_options saved_step_options(const struct folder *f, uint64_t step,
                                                      size_t n_ranks)
{
    return (struct saved_options){f->at, "run-1", step, n_ranks, step * 31 + n_ranks,
                                  100,   false};
}

static inline void saved_step(const struct folder *f, uint64_t step, size_t n_ranks)
{
    struct saved_options o = saved_step_options(f, step, n_ranks);
    struct weft_error err = {.msg = ""};
    enum weft_status st = saved_write(&o, &err);
    assert_string_equal(err.msg, "");
    assert_int_equal(st, WEFT_OK);
}

static inline void saved_step_compare(struct wf_ckpt *s, uint64_t seed)
{
    struct weft_error err = {.msg = ""};
    bool same = false;
    assert_int_equal(saved_compare(s, seed, &same, &err), WEFT_OK);
    assert_true(same);
}

/* Returns the step from which a run would resume, after comparing its values; -1 if
 * there is none. */
static inline int64_t saved_newest(const struct folder *f, struct wf_text *skipped)
{
    struct wf_ckpt *s = NULL;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_ckpt_open_newest(f->at, true, &s, skipped, &err);
    assert_string_equal(err.msg, "");
    assert_int_equal(st, WEFT_OK);
    int64_t step = s == NULL ? -1 : (int64_t)wf_ckpt_step(s);
    if (s != NULL)
        saved_step_compare(s, 3);
    wf_ckpt_free(s);
    return step;
}

#endif
