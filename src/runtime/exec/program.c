/* Compiles the list of a rank: places the slots for activations in one memory area and assigns
 * output buffers. */
#include "runtime/exec/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "weft/verify.h"

enum { ALIGN = 64 };

/* -- placing slots in memory --------------------------------------------------------------- */

struct piece {
    size_t at, bytes;
    uint32_t local, micro;
};

/* Pieces of memory in use, sorted by offset. */
struct arena {
    struct piece *at; /* owned */
    size_t n, cap;
    size_t used, peak_used, end;
};

static bool arena_insert(struct arena *a, size_t index, struct piece piece)
{
    if (a->n == a->cap) {
        size_t cap = a->cap == 0 ? 64 : 2 * a->cap;
        struct piece *at = realloc(a->at, cap * sizeof *at);
        if (at == NULL)
            return false;
        a->at = at;
        a->cap = cap;
    }
    memmove(a->at + index + 1, a->at + index, (a->n - index) * sizeof *a->at);
    a->at[index] = piece;
    a->n++;
    return true;
}

/* Finds the first gap that is large enough. */
static bool arena_alloc(struct arena *a, struct piece *piece)
{
    size_t index = 0, at = 0;
    for (; index < a->n && a->at[index].at - at < piece->bytes; index++)
        at = a->at[index].at + a->at[index].bytes;
    piece->at = at;
    a->end = wf_size_max(a->end, at + piece->bytes);
    a->used += piece->bytes;
    a->peak_used = wf_size_max(a->peak_used, a->used);
    return arena_insert(a, index, *piece);
}

static void arena_free(struct arena *a, uint32_t local, uint32_t micro)
{
    size_t i = 0;
    while (a->at[i].local != local || a->at[i].micro != micro)
        i++;
    a->used -= a->at[i].bytes;
    memmove(a->at + i, a->at + i + 1, (a->n - i - 1) * sizeof *a->at);
    a->n--;
}

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

/* Places slots in the order of the list.  If `shared`, all stages use one arena; otherwise each
 * stage has its own region. */
static bool place_slots(struct weft_program *p, const size_t *bytes, bool shared,
                        struct arena *a)
{
    struct weft_action_span row = weft_schedule_rank(p->schedule, p->rank);
    size_t n_arenas = shared ? 1 : p->n_local;
    for (size_t i = 0; i < row.len; i++) {
        struct weft_action act = row.at[i];
        if (!weft_act_is_compute(act.kind))
            continue;
        uint32_t local = p->local_of[act.stage];
        struct arena *in = &a[n_arenas == 1 ? 0 : local];
        if (act.kind == WEFT_ACT_B || act.kind == WEFT_ACT_W)
            arena_free(in, local, act.micro);
        if (act.kind != WEFT_ACT_F)
            continue;
        struct piece piece = {
            .bytes = bytes == NULL ? 1 : bytes[act.stage], .local = local, .micro = act.micro};
        if (!arena_alloc(in, &piece) ||
            !slot_number(&p->local[local], piece.at,
                         &p->cells[wf_program_cell(p, act.stage, act.micro)].slot))
            return false;
    }
    return true;
}

static void reset_slots(struct weft_program *p)
{
    for (uint32_t h = 0; h < p->n_local; h++)
        p->local[h].n_slots = 0;
}

/* Places the regions of the stages one after the other. */
static size_t shift_regions(struct weft_program *p, const struct arena *a)
{
    size_t end = 0;
    for (uint32_t h = 0; h < p->n_local; h++) {
        for (uint32_t i = 0; i < p->local[h].n_slots; i++)
            p->local[h].slot_offset[i] += end;
        end += a[h].end;
    }
    return end;
}

static bool try_place(struct weft_program *p, const size_t *bytes, bool shared, size_t *total)
{
    size_t n = shared ? 1 : p->n_local;
    struct arena *a = calloc(n + 1, sizeof *a);
    reset_slots(p);
    bool ok = a != NULL && place_slots(p, bytes, shared, a);
    if (ok) {
        *total = shared ? a[0].end : shift_regions(p, a);
        if (shared)
            p->slot_bound = a[0].peak_used;
    }
    for (size_t i = 0; a != NULL && i < n; i++)
        free(a[i].at);
    free(a);
    return ok;
}

/* -- by size -------------------------------------------------------------------------------- */

/* The positions of the list between which the slot of a cell is in use. */
struct span {
    size_t begin, end, bytes, at;
    uint32_t local, micro;
};

static int larger_first(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static int lower_first(const void *a, const void *b)
{
    const struct span *x = *(struct span *const *)a, *y = *(struct span *const *)b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static size_t list_spans(const struct weft_program *p, const size_t *bytes, struct span *out)
{
    struct weft_action_span row = weft_schedule_rank(p->schedule, p->rank);
    size_t n_cells = (size_t)p->n_local * p->place->n_micros, n = 0;
    for (size_t i = 0; i < n_cells; i++)
        out[i].bytes = 0;
    for (size_t i = 0; i < row.len; i++) {
        struct weft_action a = row.at[i];
        if (!weft_act_is_compute(a.kind))
            continue;
        struct span *s = &out[wf_program_cell(p, a.stage, a.micro)];
        if (a.kind == WEFT_ACT_F)
            *s = (struct span){i, i, bytes[a.stage], 0, p->local_of[a.stage], a.micro};
        else
            s->end = i;
    }
    for (size_t i = 0; i < n_cells; i++)
        if (out[i].bytes != 0)
            out[n++] = out[i];
    return n;
}

/* Returns the lowest offset at which a span overlaps no placed span that is in use at the same
 * time. */
static size_t lowest_place(const struct span *s, struct span *placed, size_t n,
                           struct span **scratch)
{
    size_t n_near = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        if (placed[i].begin < s->end && s->begin < placed[i].end)
            scratch[n_near++] = &placed[i];
    qsort(scratch, n_near, sizeof(struct span *), lower_first);
    for (size_t i = 0; i < n_near; i++) {
        if (scratch[i]->at >= at + s->bytes)
            break;
        at = wf_size_max(at, scratch[i]->at + scratch[i]->bytes);
    }
    return at;
}

/* Places the largest spans first.  This is best if sizes differ, but takes quadratic time. */
static bool place_by_size(struct weft_program *p, const size_t *bytes, size_t *total)
{
    size_t n_cells = (size_t)p->n_local * p->place->n_micros;
    struct span *spans = calloc(n_cells + 1, sizeof *spans);
    struct span **scratch = calloc(n_cells + 1, sizeof *scratch);
    bool ok = spans != NULL && scratch != NULL;
    size_t n = ok ? list_spans(p, bytes, spans) : 0;
    *total = 0;
    reset_slots(p);
    if (ok)
        qsort(spans, n, sizeof *spans, larger_first);
    for (size_t i = 0; ok && i < n; i++) {
        struct span *s = &spans[i];
        s->at = lowest_place(s, spans, i, scratch);
        *total = wf_size_max(*total, s->at + s->bytes);
        ok = slot_number(&p->local[s->local], s->at,
                         &p->cells[(size_t)s->local * p->place->n_micros + s->micro].slot);
    }
    free(spans);
    free(scratch);
    return ok;
}

/* -- the best of them ----------------------------------------------------------------------- */

enum place_method {
    PLACE_SEPARATE,
    PLACE_FIRST_FIT,
    PLACE_UNIFORM,
    PLACE_BY_SIZE,
    N_PLACE_METHODS
};

enum { MAX_BY_SIZE = 4096 }; /* maximum number of cells for place_by_size() */

/* Places slots as if all slots had the size of the largest slot.  This wastes little memory if
 * sizes are similar. */
static bool place_uniform(struct weft_program *p, const size_t *bytes, size_t *total)
{
    size_t *uniform = calloc(p->place->n_stages, sizeof *uniform), largest = 0;
    for (uint32_t h = 0; h < p->n_local; h++)
        largest = wf_size_max(largest, bytes[p->local[h].stage]);
    for (uint32_t i = 0; uniform != NULL && i < p->place->n_stages; i++)
        uniform[i] = largest;
    size_t bound = p->slot_bound;
    bool ok = uniform != NULL && try_place(p, uniform, true, total);
    p->slot_bound = bound; /* the bound is computed with the actual sizes */
    free(uniform);
    return ok;
}

static bool place_with(struct weft_program *p, const size_t *bytes, enum place_method method,
                       size_t *total)
{
    switch (method) {
    case PLACE_BY_SIZE:
        return place_by_size(p, bytes, total);
    case PLACE_UNIFORM:
        return place_uniform(p, bytes, total);
    default:
        return try_place(p, bytes, method == PLACE_FIRST_FIT, total);
    }
}

/* Chooses the smallest of several placements.  Sharing memory among stages usually needs less
 * memory than one region per stage, but no method is always the best. */
static bool place_best(struct weft_program *p, const size_t *bytes)
{
    enum place_method best = PLACE_SEPARATE;
    p->slot_bytes = SIZE_MAX;
    for (enum place_method method = PLACE_SEPARATE; method < N_PLACE_METHODS; method++) {
        size_t total;
        if (method == PLACE_BY_SIZE && (size_t)p->n_local * p->place->n_micros > MAX_BY_SIZE)
            continue;
        if (!place_with(p, bytes, method, &total))
            return false;
        if (total < p->slot_bytes) {
            p->slot_bytes = total;
            best = method;
        }
    }
    return place_with(p, bytes, best, &p->slot_bytes);
}

/* Rounds the slot size of each stage to cache lines and checks that sums cannot overflow, even
 * with all micro-batches in flight and all slots of maximum size.  An empty slot also takes one
 * cache line, because slots are identified by their offset. */
static bool round_slots(const struct weft_program *p, const size_t *slot_bytes, size_t *out)
{
    size_t largest = 0, total;
    for (uint32_t h = 0; h < p->n_local; h++) {
        uint32_t stage = p->local[h].stage;
        if (!wf_size_add(slot_bytes[stage], ALIGN - (slot_bytes[stage] != 0), &out[stage]))
            return false;
        out[stage] = out[stage] / ALIGN * ALIGN;
        largest = wf_size_max(largest, out[stage]);
    }
    return wf_size_mul(largest, p->place->n_micros, &total) &&
           wf_size_mul(total, p->n_local, &total);
}

static enum weft_status color_slots(struct weft_program *p, const size_t *slot_bytes,
                                    struct weft_error *err)
{
    size_t unused, *bytes = NULL;
    bool ok;
    if (slot_bytes == NULL) {
        ok = try_place(p, NULL, false, &unused);
    } else {
        bytes = calloc(p->place->n_stages, sizeof *bytes);
        ok = bytes != NULL && round_slots(p, slot_bytes, bytes) && place_best(p, bytes);
    }
    free(bytes);
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
        if (weft_act_has_micro(row.at[i].kind))
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
        st = WEFT_FAIL(err, WEFT_SCHEDULE,
                       "the schedule cannot run: %s (weft check shows all findings)",
                       report.findings[0].text);
    weft_verify_result_release(&report);
    return st;
}

static enum weft_status build(struct weft_program *p, const struct weft_schedule *s,
                              const size_t *slot_bytes, struct weft_error *err)
{
    if (p->rank >= weft_schedule_placement(s)->n_ranks)
        return WEFT_FAIL(err, WEFT_USAGE, "rank %u does not exist; the schedule has %u ranks",
                         p->rank, weft_schedule_placement(s)->n_ranks);
    WEFT_TRY(verify_schedule(s, err));
    if (!weft_schedule_is_lowered(s))
        WEFT_TRY(weft_schedule_lower(s, WEFT_LOWERING_LATE, &p->lowered, err));
    p->schedule = p->lowered != NULL ? p->lowered : s;
    p->place = weft_schedule_placement(p->schedule);
    WEFT_TRY(list_local_stages(p, err));
    WEFT_TRY(count(p, err));
    return color_slots(p, slot_bytes, err);
}

enum weft_status weft_program_new(const struct weft_schedule *s, uint32_t rank,
                                  const size_t *slot_bytes, struct weft_program **out,
                                  struct weft_error *err)
{
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
    weft_schedule_free(p->lowered);
    free(p->local);
    free(p->local_of);
    free(p->cells);
    free(p);
}

/* -- queries ------------------------------------------------------------------------------- */

const struct weft_schedule *weft_program_schedule(const struct weft_program *p)
{
    return p->schedule;
}

uint32_t weft_program_rank(const struct weft_program *p)
{
    return p->rank;
}

static const struct wf_local_stage *local(const struct weft_program *p, uint32_t stage)
{
    if (stage >= p->place->n_stages || p->local_of[stage] == WF_NOT_LOCAL)
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

uint32_t weft_program_inputs(const struct weft_program *p, uint32_t stage)
{
    const struct wf_local_stage *h = local(p, stage);
    return h == NULL || h->n_in == 0 ? 0 : h->n_in + INPUTS_AHEAD;
}

size_t weft_program_peak(const struct weft_program *p)
{
    return p->peak;
}

size_t weft_program_slot_bytes(const struct weft_program *p)
{
    return p->slot_bytes;
}

size_t weft_program_slot_bound(const struct weft_program *p)
{
    return p->slot_bound;
}

size_t weft_program_slot_offset(const struct weft_program *p, uint32_t stage, uint32_t slot)
{
    const struct wf_local_stage *h = local(p, stage);
    return h == NULL || slot >= h->n_slots ? 0 : h->slot_offset[slot];
}

void weft_program_describe(const struct weft_program *p, uint32_t rank, size_t position,
                           char *out, size_t room)
{
    struct weft_action_span row = weft_schedule_rank(p->schedule, rank);
    char text[WEFT_ACTION_TEXT_MAX] = "the end";
    if (position < row.len)
        weft_action_print(row.at[position], text);
    snprintf(out, room, "action %zu %s", position, text);
}
