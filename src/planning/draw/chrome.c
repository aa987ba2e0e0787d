/* Writes Chrome trace events, which Perfetto can open.
 * Each rank is a process.  The lanes of a rank are threads.  A lane whose events overlap has
 * several threads.  Arrows connect each send with its receive.  In a trace without messages,
 * arrows connect each producing action with its consumer on another rank.  Times are in
 * microseconds.  One abstract time unit is written as one microsecond. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "planning/draw/axis.h"
#include "planning/draw/formats_priv.h"
#include "planning/draw/rows_priv.h"

struct chrome {
    struct wf_json j;
    const struct weft_trace *t; /* borrowed */
    double us_per_unit;         /* microseconds per time unit of the trace */
    uint64_t first_pid, next_flow;
    bool several; /* true if there are several traces */
};

/* -- events -------------------------------------------------------------------------------- */

static void begin_event(struct chrome *c, const char *ph, uint32_t rank)
{
    wf_json_begin(&c->j, NULL, '{');
    wf_json_string(&c->j, "ph", ph);
    wf_json_uint(&c->j, "pid", c->first_pid + rank);
}

static void end_event(struct chrome *c)
{
    wf_json_end(&c->j, '}');
    fputc('\n', c->j.out);
}

static void put_meta(struct chrome *c, uint32_t rank, uint64_t tid, const char *what,
                     const char *name)
{
    begin_event(c, "M", rank);
    wf_json_uint(&c->j, "tid", tid);
    wf_json_string(&c->j, "name", what);
    wf_json_begin(&c->j, "args", '{');
    if (name != NULL)
        wf_json_string(&c->j, "name", name);
    else
        wf_json_uint(&c->j, "sort_index", tid == 0 ? c->first_pid + rank : tid);
    wf_json_end(&c->j, '}');
    end_event(c);
}

enum { TIDS_PER_LANE = 100 };

static uint64_t tid_of(enum weft_lane lane, unsigned slot)
{
    return 1 + (uint64_t)lane * TIDS_PER_LANE + slot;
}

static void put_names(struct chrome *c, uint32_t rank, const unsigned slots[WEFT_LANE_COUNT])
{
    char name[WEFT_TRACE_NAME + 32];
    snprintf(name, sizeof name, "%s%srank %u", c->several ? c->t->name : "",
             c->several && c->t->name[0] != '\0' ? ": " : "", rank);
    put_meta(c, rank, 0, "process_name", name);
    put_meta(c, rank, 0, "process_sort_index", NULL);
    for (int lane = 0; lane < WEFT_LANE_COUNT; lane++)
        for (unsigned slot = 0; slot < slots[lane]; slot++) {
            snprintf(name, sizeof name, slot == 0 ? "%s" : "%s %u",
                     weft_lane_name((enum weft_lane)lane), slot + 1);
            put_meta(c, rank, tid_of((enum weft_lane)lane, slot), "thread_name", name);
            put_meta(c, rank, tid_of((enum weft_lane)lane, slot), "thread_sort_index", NULL);
        }
}

static void put_slice(struct chrome *c, const struct weft_trace_event *e, uint64_t tid)
{
    char name[2 * WEFT_ACTION_TEXT_MAX + 4], second[WEFT_ACTION_TEXT_MAX];
    size_t n = weft_action_print(e->action, name);
    if (e->action.paired) {
        weft_action_print(e->partner, second);
        snprintf(name + n, sizeof name - n, " & %s", second);
    }

    begin_event(c, "X", e->rank);
    wf_json_uint(&c->j, "tid", tid);
    wf_json_number(&c->j, "ts", e->start * c->us_per_unit);
    wf_json_number(&c->j, "dur", e->length * c->us_per_unit);
    wf_json_string(&c->j, "name", name);
    wf_json_string(&c->j, "cat", e->action.paired ? "pair" : weft_act_name(e->action.kind));

    wf_json_begin(&c->j, "args", '{');
    wf_json_uint(&c->j, "stage", e->action.stage);
    wf_json_uint(&c->j, "chunk", weft_trace_chunk(c->t, e->rank, e->action.stage));
    if (weft_act_has_micro(e->action.kind))
        wf_json_uint(&c->j, "micro", e->action.micro);
    if (e->bytes != 0)
        wf_json_uint(&c->j, "bytes", e->bytes);
    if (e->peer != WEFT_NO_RANK)
        wf_json_uint(&c->j, "peer", e->peer);

    wf_json_end(&c->j, '}');
    end_event(c);
}

/* -- arrows -------------------------------------------------------------------------------- */

/* One endpoint of an arrow.  Both endpoints of an arrow have the same key: the direction,
 * the consumer's stage and the micro. */
struct arrow_endpoint {
    uint64_t key;
    double start;
    size_t event;
    uint64_t tid;
};

struct arrows {
    struct arrow_endpoint *from, *to; /* owned: at most two endpoints per event */
    size_t n_from, n_to;
    bool messages;
};

static uint64_t key_of(bool back, int64_t stage, uint32_t micro)
{
    return (uint64_t)back << 63 | (uint64_t)stage << 32 | micro;
}

static void add_endpoints(const struct chrome *c, struct arrows *a, struct weft_action action,
                          size_t event, uint64_t tid)
{
    unsigned kind = action.kind;
    bool back = kind == WEFT_ACT_SEND_B || kind == WEFT_ACT_RECV_B || kind == WEFT_ACT_B ||
                kind == WEFT_ACT_I;
    bool makes = kind == WEFT_ACT_SEND_F || kind == WEFT_ACT_SEND_B, needs = !makes;
    if (weft_act_is_message(kind) != a->messages || kind >= WEFT_ACT_REDUCE_GRAD ||
        kind == WEFT_ACT_W || c->t->events[event].lane == WEFT_LANE_WAIT)
        return;
    if (!a->messages)
        makes = needs = true;
    int64_t dependent = back ? (int64_t)action.stage - 1 : (int64_t)action.stage + 1;
    double start = c->t->events[event].start;
    if (makes && dependent >= 0 && dependent < c->t->n_stages)
        a->from[a->n_from++] =
            (struct arrow_endpoint){key_of(back, dependent, action.micro), start, event, tid};
    if (needs)
        a->to[a->n_to++] = (struct arrow_endpoint){key_of(back, action.stage, action.micro),
                                                   start, event, tid};
}

static int compare_endpoints(const void *a, const void *b)
{
    const struct arrow_endpoint *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->event < y->event ? -1 : x->event > y->event;
}

static void put_arrow_endpoint(struct chrome *c, const char *ph,
                               const struct arrow_endpoint *end, double time)
{
    const struct weft_trace_event *e = &c->t->events[end->event];
    begin_event(c, ph, e->rank);
    wf_json_uint(&c->j, "tid", end->tid);
    wf_json_number(&c->j, "ts", time * c->us_per_unit);
    wf_json_uint(&c->j, "id", c->next_flow);
    wf_json_string(&c->j, "name", end->key >> 63 ? "gradient" : "activation");
    wf_json_string(&c->j, "cat", "flow");
    if (*ph == 'f')
        wf_json_string(&c->j, "bp",
                       "e"); /* the arrow ends at the enclosing slice, not at the next slice */
    end_event(c);
}

/* Writes an arrow from the middle of one slice to the middle of another slice.  The arrow
 * never points back in time. */
static void put_arrow(struct chrome *c, const struct arrow_endpoint *from,
                      const struct arrow_endpoint *to)
{
    const struct weft_trace_event *a = &c->t->events[from->event],
                                  *b = &c->t->events[to->event];
    double begin = a->start + a->length / 2, end = b->start + b->length / 2;
    if (end < begin)
        end = fmin(begin, b->start + b->length);
    put_arrow_endpoint(c, "s", from, begin);
    put_arrow_endpoint(c, "f", to, end);
    c->next_flow++;
}

/* Connects the k-th producer with the k-th consumer of each key if they are on different
 * ranks. */
static void put_arrows(struct chrome *c, struct arrows *a)
{
    qsort(a->from, a->n_from, sizeof *a->from, compare_endpoints);
    qsort(a->to, a->n_to, sizeof *a->to, compare_endpoints);
    for (size_t i = 0, k = 0; i < a->n_from && k < a->n_to;) {
        if (a->from[i].key != a->to[k].key) {
            *(a->from[i].key < a->to[k].key ? &i : &k) += 1;
            continue;
        }
        const struct arrow_endpoint *from = &a->from[i++], *to = &a->to[k++];
        if (c->t->events[from->event].rank != c->t->events[to->event].rank)
            put_arrow(c, from, to);
    }
}

/* -- the file ------------------------------------------------------------------------------ */

static void put_slices(struct chrome *c, struct arrows *a)
{
    struct wf_lane_slots open = {.n = 0};
    for (size_t i = 0; i < c->t->n_events; i++) {
        const struct weft_trace_event *e = &c->t->events[i];
        if (i == 0 || e->rank != e[-1].rank || e->lane != e[-1].lane)
            open.n = 0;
        unsigned slot =
            e->lane == WEFT_LANE_COMPUTE ? 0 : wf_lane_slots_find(&open, e, WF_MAX_SLOTS);
        uint64_t tid = tid_of(e->lane, slot);
        put_slice(c, e, tid);
        add_endpoints(c, a, e->action, i, tid);
        if (e->action.paired)
            add_endpoints(c, a, e->partner, i, tid);
    }
}

static enum weft_status put_trace(struct chrome *c, struct weft_error *err)
{
    const struct weft_trace *t = c->t;
    struct arrows a = {0};
    unsigned slots[WEFT_LANE_COUNT];

    wf_lane_slots_count(t, slots, WF_MAX_SLOTS);
    a.from = malloc(sizeof *a.from * (2 * t->n_events + 1));
    a.to = malloc(sizeof *a.to * (2 * t->n_events + 1));
    if (a.from == NULL || a.to == NULL) {
        free(a.from);
        free(a.to);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the arrows of %zu events",
                         t->n_events);
    }

    for (size_t i = 0; i < t->n_events; i++)
        a.messages = a.messages || (weft_act_is_message(t->events[i].action.kind) &&
                                    t->events[i].lane != WEFT_LANE_WAIT);
    for (uint32_t r = 0; r < t->n_ranks; r++)
        put_names(c, r, slots);
    put_slices(c, &a);
    put_arrows(c, &a);

    for (size_t i = 0; i < t->n_memory; i++) {
        begin_event(c, "C", t->memory[i].rank);
        wf_json_number(&c->j, "ts", t->memory[i].time * c->us_per_unit);
        wf_json_string(&c->j, "name", "memory");
        wf_json_begin(&c->j, "args", '{');
        wf_json_number(&c->j, "amount", t->memory[i].amount);
        wf_json_end(&c->j, '}');
        end_event(c);
    }

    free(a.from);
    free(a.to);
    return WEFT_OK;
}

enum weft_status wf_write_chrome(FILE *out, const struct weft_trace *traces, size_t n,
                                 const struct weft_draw_options *options,
                                 struct weft_error *err)
{
    struct chrome c = {.j = {.out = out}, .several = n > 1};
    struct wf_axis axis;
    struct wf_text title = {0};
    WEFT_TRY(wf_axis_init(&axis, traces, n, options->unit_seconds, err));
    wf_draw_sanitize(&title, options->title != NULL ? options->title : traces[0].name);
    enum weft_status st =
        title.failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a title") : WEFT_OK;
    bool real = axis.unit[0] != '\0';

    wf_json_begin(&c.j, NULL, '{');
    wf_json_string(&c.j, "displayTimeUnit", "ns");
    wf_json_begin(&c.j, "otherData", '{');
    wf_json_string(&c.j, "title", title.at != NULL ? title.at : "");
    wf_json_string(&c.j, "time", real ? "microseconds" : "an abstract unit as a microsecond");
    wf_json_end(&c.j, '}');

    wf_json_begin(&c.j, "traceEvents", '[');
    fputc('\n', out);
    for (size_t i = 0; st == WEFT_OK && i < n; i++) {
        c.t = &traces[i];
        c.us_per_unit = axis.factor[i] * (real ? 1e6 : 1);
        st = put_trace(&c, err);
        c.first_pid += traces[i].n_ranks;
    }

    wf_json_end(&c.j, ']');
    wf_json_end(&c.j, '}');
    fputc('\n', out);

    wf_text_release(&title);
    wf_axis_release(&axis);
    return st;
}
