/* Collects runs and executes them together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tracer.h"

static bool has_failed(const struct tracer_run *run)
{
    for (uint32_t r = 0; r < TRACER_RANKS; r++)
        if (run->status[r] != WEFT_OK)
            return true;
    return false;
}

void tracer_batch_finish(struct tracer_batch *b)
{
    struct weft_error err = {.msg = ""};
    for (size_t i = 0; i < b->n; i++) {
        b->runs[i].schedule =
            b->schedules[i] != NULL ? b->schedules[i] : b->runs[i - 1].schedule;
        b->runs[i].model = &b->models[i];
    }
    enum weft_status st = b->n == 0 ? WEFT_OK : tracer_run(b->runs, b->n, &err);
    for (size_t i = 0; i < b->n; i++) {
        if (st != WEFT_OK && has_failed(&b->runs[i]))
            print_error("%s\n", b->runs[i].label);
        weft_schedule_free(b->schedules[i]);
    }
    b->n_run += b->n;
    b->n = 0;
    if (st != WEFT_OK)
        fail_msg("%s", err.msg);
}

void tracer_batch_add(struct tracer_batch *b, struct weft_schedule *s,
                      const struct tracer_run *run)
{
    if (s != NULL && b->n + TRACER_SHARES > TRACER_BATCH)
        tracer_batch_finish(b);
    b->runs[b->n] = *run;
    b->models[b->n] = *run->model;
    b->schedules[b->n] = s;
    b->n++;
}
