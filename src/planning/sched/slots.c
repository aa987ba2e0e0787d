/* Places the activations of a rank in memory: the slot of a cell is in use from its forward to
 * the end of its backward, and slots that are in use at the same time do not overlap. */
#include "planning/sched/slots.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"

enum { ALIGN = 64 };

/* The list of a rank, and the result. */
struct slot_task {
    struct weft_action_span row;
    bool forward_only; /* F releases its slot itself */
    uint32_t n_micros, n_local;
    const uint32_t *local_of; /* (stages) */
    const size_t *bytes;      /* (stages), rounded */
    size_t *offset;           /* (local, micros) */
};

static size_t cell_of(const struct slot_task *t, struct weft_action a)
{
    return (size_t)t->local_of[a.stage] * t->n_micros + a.micro;
}

/* -- in the order of the list -------------------------------------------------------------- */

struct piece {
    size_t at, bytes, cell;
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

static void arena_free(struct arena *a, size_t cell)
{
    size_t i = 0;
    while (a->at[i].cell != cell)
        i++;
    a->used -= a->at[i].bytes;
    memmove(a->at + i, a->at + i + 1, (a->n - i - 1) * sizeof *a->at);
    a->n--;
}

/* Places slots in the order of the list.  If `shared`, all stages use one arena; otherwise each
 * stage has its own region.  If `size` is not 0, all slots have this size. */
static bool fill_arenas(const struct slot_task *t, bool shared, size_t size, struct arena *a)
{
    for (size_t i = 0; i < t->row.len; i++) {
        struct weft_action act = t->row.at[i];
        if (!weft_act_is_compute(act.kind))
            continue;
        struct arena *in = &a[shared ? 0 : t->local_of[act.stage]];
        size_t cell = cell_of(t, act);
        if (act.kind == WEFT_ACT_B || act.kind == WEFT_ACT_W)
            arena_free(in, cell);
        if (act.kind != WEFT_ACT_F)
            continue;
        struct piece piece = {.bytes = size != 0 ? size : t->bytes[act.stage], .cell = cell};
        if (!arena_alloc(in, &piece))
            return false;
        t->offset[cell] = piece.at;
        if (t->forward_only) /* nothing is kept after a forward */
            arena_free(in, cell);
    }
    return true;
}

/* Places the regions of the stages one after the other. */
static size_t shift_regions(const struct slot_task *t, const struct arena *a)
{
    size_t end = 0;
    for (uint32_t h = 0; h < t->n_local; h++) {
        for (uint32_t m = 0; m < t->n_micros; m++)
            t->offset[(size_t)h * t->n_micros + m] += end;
        end += a[h].end;
    }
    return end;
}

static bool place_in_order(const struct slot_task *t, bool shared, size_t size, size_t *total,
                           size_t *bound)
{
    size_t n = shared ? 1 : t->n_local;
    struct arena *a = calloc(n + 1, sizeof *a);
    bool ok = a != NULL && fill_arenas(t, shared, size, a);
    if (ok) {
        *total = shared ? a[0].end : shift_regions(t, a);
        *bound = a[0].peak_used;
    }
    for (size_t i = 0; a != NULL && i < n; i++)
        free(a[i].at);
    free(a);
    return ok;
}

/* -- by size ------------------------------------------------------------------------------- */

/* The positions of the list between which the slot of a cell is in use. */
struct span {
    size_t begin, end, bytes, at, cell;
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

static size_t list_spans(const struct slot_task *t, struct span *out)
{
    size_t n_cells = (size_t)t->n_local * t->n_micros, n = 0;
    for (size_t i = 0; i < n_cells; i++)
        out[i].bytes = 0;
    for (size_t i = 0; i < t->row.len; i++) {
        struct weft_action a = t->row.at[i];
        if (!weft_act_is_compute(a.kind))
            continue;
        struct span *s = &out[cell_of(t, a)];
        if (a.kind == WEFT_ACT_F)
            *s = (struct span){i, i, t->bytes[a.stage], 0, cell_of(t, a)};
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
static bool place_by_size(const struct slot_task *t, size_t *total)
{
    size_t n_cells = (size_t)t->n_local * t->n_micros;
    struct span *spans = calloc(n_cells + 1, sizeof *spans);
    struct span **scratch = calloc(n_cells + 1, sizeof *scratch);
    bool ok = spans != NULL && scratch != NULL;
    size_t n = ok ? list_spans(t, spans) : 0;
    *total = 0;
    if (ok)
        qsort(spans, n, sizeof *spans, larger_first);
    for (size_t i = 0; ok && i < n; i++) {
        struct span *s = &spans[i];
        s->at = lowest_place(s, spans, i, scratch);
        *total = wf_size_max(*total, s->at + s->bytes);
        t->offset[s->cell] = s->at;
    }
    free(spans);
    free(scratch);
    return ok;
}

/* -- the best of them ---------------------------------------------------------------------- */

enum place_method {
    PLACE_SEPARATE,  /* one region per stage */
    PLACE_FIRST_FIT, /* all stages share memory */
    PLACE_UNIFORM,   /* as if all slots had the size of the largest one */
    PLACE_BY_SIZE,
    N_PLACE_METHODS
};

static bool place_with(const struct slot_task *t, enum place_method method, size_t largest,
                       size_t *total, size_t *bound)
{
    size_t unused;
    switch (method) {
    case PLACE_BY_SIZE:
        return place_by_size(t, total);
    case PLACE_UNIFORM:
        return place_in_order(t, true, largest, total, &unused);
    case PLACE_FIRST_FIT:
        return place_in_order(t, true, 0, total, bound);
    default:
        return place_in_order(t, false, 0, total, &unused);
    }
}

/* Chooses the smallest of several placements.  Sharing memory among stages usually needs less
 * memory than one region per stage, but no method is always the best. */
static bool place_best(const struct slot_task *t, size_t largest, size_t max_by_size,
                       struct wf_slots *out)
{
    enum place_method best = PLACE_SEPARATE;
    out->total = SIZE_MAX;
    for (enum place_method method = PLACE_SEPARATE; method < N_PLACE_METHODS; method++) {
        size_t total;
        if (method == PLACE_BY_SIZE && (size_t)t->n_local * t->n_micros > max_by_size)
            continue;
        if (!place_with(t, method, largest, &total, &out->bound))
            return false;
        if (total < out->total) {
            out->total = total;
            best = method;
        }
    }
    return place_with(t, best, largest, &out->total, &out->bound);
}

/* Numbers the stages of the row, ascending.  Returns their count. */
static uint32_t number_stages(struct weft_action_span row, uint32_t n_stages,
                              uint32_t *local_of)
{
    uint32_t n = 0;
    memset(local_of, 0, n_stages * sizeof *local_of);
    for (size_t i = 0; i < row.len; i++)
        if (weft_act_is_compute(row.at[i].kind))
            local_of[row.at[i].stage] = 1;
    for (uint32_t s = 0; s < n_stages; s++)
        local_of[s] = local_of[s] != 0 ? n++ : UINT32_MAX;
    return n;
}

/* Rounds the slot size of each stage to cache lines and checks that sums cannot overflow, even
 * with all micro-batches in flight and all slots of maximum size.  An empty slot also takes one
 * cache line, because slots are identified by their offset. */
static bool round_slots(const struct slot_task *t, uint32_t n_stages, const size_t *slot_bytes,
                        size_t *out, size_t *largest)
{
    size_t total;
    *largest = 0;
    for (uint32_t s = 0; s < n_stages; s++) {
        if (t->local_of[s] == UINT32_MAX)
            continue;
        if (!wf_size_add(slot_bytes[s], ALIGN - (slot_bytes[s] != 0), &out[s]))
            return false;
        out[s] = out[s] / ALIGN * ALIGN;
        *largest = wf_size_max(*largest, out[s]);
    }
    return wf_size_mul(*largest, t->n_micros, &total) && wf_size_mul(total, t->n_local, &total);
}

enum weft_status wf_slots_init(struct wf_slots *out, const struct weft_schedule *s,
                               uint32_t rank, const size_t *slot_bytes, size_t max_by_size,
                               struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    uint32_t n_stages = place->n_stages, *local_of = malloc(sizeof *local_of * n_stages);
    size_t *bytes = calloc(n_stages, sizeof *bytes), largest = 1;
    struct slot_task t = {.row = weft_schedule_rank(s, rank),
                          .n_micros = place->n_micros,
                          .forward_only = weft_schedule_is_forward_only(s),
                          .local_of = local_of,
                          .bytes = bytes};
    struct wf_slots slots = {0};
    bool ok = local_of != NULL && bytes != NULL;
    if (ok) {
        t.n_local = number_stages(t.row, n_stages, local_of);
        slots.offset = calloc((size_t)t.n_local * t.n_micros + 1, sizeof *slots.offset);
        t.offset = slots.offset;
        ok = slots.offset != NULL;
    }
    if (ok && slot_bytes == NULL)
        ok = place_in_order(&t, false, 1, &slots.total, &slots.bound);
    else if (ok)
        ok = round_slots(&t, n_stages, slot_bytes, bytes, &largest) &&
             place_best(&t, largest, max_by_size, &slots);

    free(local_of);
    free(bytes);
    if (!ok) {
        wf_slots_release(&slots);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the slots of rank %u", rank);
    }
    *out = slots;
    return WEFT_OK;
}

void wf_slots_release(struct wf_slots *slots)
{
    free(slots->offset);
    *slots = (struct wf_slots){0};
}
