/* Compiles the list of a rank: numbers the slots for activations and assigns output buffers. */
#include "runtime/exec/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/sched/slots.h"
#include "weft/verify.h"

/* -- slots ---------------------------------------------------------------------------------- */

enum { MAX_BY_SIZE = 4096 }; /* maximum number of cells for the placement by size */

/* Finds the stage's slot at this offset and stores its index in *out; adds a slot if the stage
 * has none there. */
static bool slot_number(struct wf_local_stage *h, size_t at, uint32_t *out)
{
    for (*out = 0; *out < h->n_slots; (*out)++)
        if (h->slot_offset[*out] == at)
            return true;
    size_t *list = realloc(h->slot_offset, (h->n_slots + 1) * sizeof *list);
    if (list == NULL)
        return false;
    h->slot_offset = list;
    h->slot_offset[h->n_slots++] = at;
    return true;
}

static enum weft_status color_slots(struct weft_program *p, const size_t *slot_bytes,
                                    struct weft_error *err)
{
    struct weft_action_span row = weft_schedule_rank(p->schedule, p->rank);
    struct wf_slots slots;
    WEFT_TRY(wf_slots_init(&slots, p->schedule, p->rank, slot_bytes, MAX_BY_SIZE, err));
    bool ok = true;
    for (size_t i = 0; ok && i < row.len; i++) {
        if (row.at[i].kind != WEFT_ACT_F)
            continue;
        size_t cell = wf_program_cell(p, row.at[i].stage, row.at[i].micro);
        ok = slot_number(&p->local[p->local_of[row.at[i].stage]], slots.offset[cell],
                         &p->cells[cell].slot);
    }
    p->slot_bytes = slot_bytes != NULL ? slots.total : 0;
    p->slot_bound = slot_bytes != NULL ? slots.bound : 0;
    wf_slots_release(&slots);
    if (!ok)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the slots of rank %u", p->rank);
    return WEFT_OK;
}

/* -- counting ------------------------------------------------------------------------------- */

/* A pool of numbers.  It returns the lowest free number. */
struct numbers {
    bool *used; /* owned */
    uint32_t n, cap;
};

static bool take_number(struct numbers *pool, uint32_t *out)
{
    for (*out = 0; *out < pool->n; (*out)++)
        if (!pool->used[*out]) {
            pool->used[*out] = true;
            return true;
        }
    if (pool->n == pool->cap) {
        uint32_t cap = pool->cap == 0 ? 16 : 2 * pool->cap;
        bool *used = realloc(pool->used, cap * sizeof *used);
        if (used == NULL)
            return false;
        pool->used = used;
        pool->cap = cap;
    }
    pool->used[pool->n++] = true;
    return true;
}

struct program_counts {
    struct numbers out;
    uint32_t split, in;
};

static bool count_action(struct weft_program *p, struct program_counts *all,
                         struct weft_action act, size_t *in_flight)
{
    uint32_t local = p->local_of[act.stage];
    struct wf_local_stage *h = &p->local[local];
    struct program_counts *c = &all[local];
    struct wf_program_cell *cell = &p->cells[wf_program_cell(p, act.stage, act.micro)];
    switch (act.kind) {
    case WEFT_ACT_F:
        *in_flight += 1;
        p->peak = wf_size_max(p->peak, *in_flight);
        return take_number(&c->out, &cell->out);
    case WEFT_ACT_B:
        *in_flight -= 1;
        c->out.used[cell->out] = false;
        break;
    case WEFT_ACT_I:
        c->out.used[cell->out] = false;
        c->split++;
        h->n_split = c->split > h->n_split ? c->split : h->n_split;
        break;
    case WEFT_ACT_W:
        *in_flight -= 1;
        c->split--;
        break;
    case WEFT_ACT_RECV_F:
        c->in++;
        h->n_in = c->in > h->n_in ? c->in : h->n_in;
        break;
    case WEFT_ACT_SEND_B:
        c->in--;
        break;
    }
    return true;
}

static enum weft_status count(struct weft_program *p, struct weft_error *err)
{
    struct weft_action_span row = weft_schedule_rank(p->schedule, p->rank);
    struct program_counts *all = calloc((size_t)p->n_local + 1, sizeof *all);
    size_t in_flight = 0;
    bool ok = all != NULL;
    for (size_t i = 0; ok && i < row.len; i++)
        if (weft_act_is_compute(row.at[i].kind) || weft_act_is_message(row.at[i].kind))
            ok = count_action(p, all, row.at[i], &in_flight);
    for (uint32_t h = 0; all != NULL && h < p->n_local; h++) {
        p->local[h].n_out = all[h].out.n;
        free(all[h].out.used);
    }
    free(all);
    if (!ok)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the list of rank %u", p->rank);
    return WEFT_OK;
}

/* -- creation ------------------------------------------------------------------------------ */

static enum weft_status list_local_stages(struct weft_program *p, struct weft_error *err)
{
    const struct weft_placement *place = p->place;
    p->local_of = malloc(place->n_stages * sizeof *p->local_of);
    p->local = calloc((size_t)weft_schedule_n_chunks(p->schedule) + 1, sizeof *p->local);
    if (p->local_of == NULL || p->local == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the stages of rank %u", p->rank);
    for (uint32_t s = 0; s < place->n_stages; s++) {
        p->local_of[s] = WF_NOT_LOCAL;
        if (weft_placement_runs(place, p->rank, s)) {
            p->local_of[s] = p->n_local;
            p->local[p->n_local++].stage = s;
        }
    }
    size_t n;
    if (!wf_size_mul(p->n_local, place->n_micros, &n))
        return WEFT_FAIL(err, WEFT_NOMEM, "rank %u has too many stages and micros", p->rank);
    p->cells = calloc(n + 1, sizeof *p->cells);
    if (p->cells == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the micros of rank %u", p->rank);
    return WEFT_OK;
}

/* Verifies the schedule: only a proven schedule is executed. */
static enum weft_status verify_schedule(const struct weft_schedule *s, struct weft_error *err)
{
    struct weft_verify_result report;
    WEFT_TRY(weft_verify(s, NULL, &report, err));
    enum weft_status st = WEFT_OK;
    if (report.n_findings > 0)
        st = WEFT_FAIL(err, WEFT_SCHEDULE, "the schedule cannot run: %s",
                       report.findings[0].text);
    weft_verify_result_release(&report);
    return st;
}

/* Compiles the list of p->schedule. */
static enum weft_status compile(struct weft_program *p, const size_t *slot_bytes,
                                struct weft_error *err)
{
    p->place = weft_schedule_placement(p->schedule);
    p->forward_only = weft_schedule_is_forward_only(p->schedule);
    WEFT_TRY(list_local_stages(p, err));
    WEFT_TRY(p->forward_only ? wf_program_number_forward(p, err) : count(p, err));
    return color_slots(p, slot_bytes, err);
}

/* Compiles the forwards of a program, which was verified, for forward-only steps.  They use the
 * first slot of each stage, for nothing is kept from one call to the next. */
static enum weft_status compile_forward(struct weft_program *p, struct weft_error *err)
{
    struct weft_program *f = calloc(1, sizeof *f);
    if (f == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for rank %u", p->rank);
    p->forward = f;
    f->rank = p->rank;
    WEFT_TRY(weft_schedule_forward_only(p->schedule, &f->lowered, err));
    f->schedule = f->lowered;
    return compile(f, NULL, err);
}

static enum weft_status build(struct weft_program *p, const struct weft_schedule *s,
                              const size_t *slot_bytes, struct weft_error *err)
{
    if (p->rank >= weft_schedule_placement(s)->n_ranks)
        return WEFT_FAIL(err, WEFT_USAGE, "rank %u does not exist; the schedule has %u ranks",
                         p->rank, weft_schedule_placement(s)->n_ranks);
    WEFT_TRY(verify_schedule(s, err));
    if (!weft_schedule_is_lowered(s))
        WEFT_TRY(weft_schedule_lower(s, WEFT_LOWERING_WEFT, &p->lowered, err));
    p->schedule = p->lowered != NULL ? p->lowered : s;
    WEFT_TRY(compile(p, slot_bytes, err));
    return p->forward_only ? WEFT_OK : compile_forward(p, err);
}

enum weft_status weft_program_new(const struct weft_schedule *s, uint32_t rank,
                                  const size_t *slot_bytes, struct weft_program **out,
                                  struct weft_error *err)
{
    if (s == NULL || out == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "the schedule or the result of rank %u is NULL",
                         rank);
    struct weft_program *p = calloc(1, sizeof *p);
    if (p == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for rank %u", rank);
    p->rank = rank;
    enum weft_status st = build(p, s, slot_bytes, err);
    if (st != WEFT_OK) {
        weft_program_free(p);
        return st;
    }
    *out = p;
    return WEFT_OK;
}

void weft_program_free(struct weft_program *p)
{
    if (p == NULL)
        return;
    for (uint32_t h = 0; p->local != NULL && h < p->n_local; h++)
        free(p->local[h].slot_offset);
    weft_program_free(p->forward);
    weft_schedule_free(p->lowered);
    free(p->set_of);
    free(p->set_before);
    free(p->local);
    free(p->local_of);
    free(p->cells);
    free(p);
}

/* -- queries ------------------------------------------------------------------------------- */

const struct weft_program *weft_program_forward(const struct weft_program *p)
{
    return p == NULL || p->forward_only ? p : p->forward;
}

const struct weft_schedule *weft_program_schedule(const struct weft_program *p)
{
    return p == NULL ? NULL : p->schedule;
}

uint32_t weft_program_rank(const struct weft_program *p)
{
    return p == NULL ? 0 : p->rank;
}

static const struct wf_local_stage *local(const struct weft_program *p, uint32_t stage)
{
    if (p == NULL || stage >= p->place->n_stages || p->local_of[stage] == WF_NOT_LOCAL)
        return NULL;
    return &p->local[p->local_of[stage]];
}

uint32_t weft_program_slots(const struct weft_program *p, uint32_t stage)
{
    const struct wf_local_stage *h = local(p, stage);
    return h == NULL ? 0 : h->n_slots;
}

uint32_t weft_program_split_slots(const struct weft_program *p, uint32_t stage)
{
    const struct wf_local_stage *h = local(p, stage);
    return h == NULL ? 0 : h->n_split;
}

uint32_t weft_program_outputs(const struct weft_program *p, uint32_t stage)
{
    const struct wf_local_stage *h = local(p, stage);
    return h == NULL ? 0 : h->n_out;
}

uint32_t weft_program_inputs(const struct weft_program *p, uint32_t stage, bool copies)
{
    const struct wf_local_stage *h = local(p, stage);
    if (h == NULL || h->n_in == 0 || (!copies && !p->forward_only))
        return 0;
    return h->n_in + (copies ? WF_INPUTS_AHEAD : 0);
}

uint32_t weft_program_block_sets(const struct weft_program *p)
{
    return p == NULL ? 0 : p->n_sets;
}

size_t weft_program_peak(const struct weft_program *p)
{
    return p == NULL ? 0 : p->peak;
}

size_t weft_program_slot_bytes(const struct weft_program *p)
{
    return p == NULL ? 0 : p->slot_bytes;
}

size_t weft_program_slot_bound(const struct weft_program *p)
{
    return p == NULL ? 0 : p->slot_bound;
}

size_t weft_program_slot_offset(const struct weft_program *p, uint32_t stage, uint32_t slot)
{
    const struct wf_local_stage *h = local(p, stage);
    return h == NULL || slot >= h->n_slots ? 0 : h->slot_offset[slot];
}

void weft_program_describe(const struct weft_program *p, uint32_t rank, size_t position,
                           char *out, size_t room)
{
    if (p == NULL || out == NULL || room == 0 || rank >= p->place->n_ranks)
        return;
    struct weft_action_span row = weft_schedule_rank(p->schedule, rank);
    char text[WEFT_ACTION_TEXT_MAX] = "the end";
    if (position < row.len)
        weft_action_print(row.at[position], text);
    snprintf(out, room, "action %zu %s", position, text);
}
