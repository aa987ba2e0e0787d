/* Reads one file of torch.profiler.  The text is scanned once: annotations, receives and the
 * starts of operators are kept, everything else is skipped.  The actions that remain are small. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/printable.h"
#include "planning/sched/action_parse.h"
#include "planning/trace/grow.h"
#include "planning/trace/json_scan.h"
#include "planning/trace/kineto_priv.h"

/* The time of an operator or a receive. */
struct interval {
    uint64_t thread;
    int64_t start, end;
};

struct intervals {
    struct interval *at; /* owned */
    size_t n, cap;
};

struct file_reader {
    struct wf_scan scan;
    struct wf_kineto_file *file; /* borrowed */
    struct intervals operators;  /* aten:: operators; `end` is not used */
    struct intervals receives;
    struct wf_kineto_file gpu; /* owned: the annotations of kernels */
    uint32_t rank;
    bool has_events;
};

/* The fields of an entry of traceEvents.  Missing ones are empty. */
struct raw_event {
    struct wf_scan_text ph, cat, name, ts, dur, pid, tid;
};

/* -- what is kept --------------------------------------------------------------------------- */

static enum weft_status fail_memory(struct file_reader *r)
{
    return WEFT_FAIL(r->scan.err, WEFT_NOMEM, "%.80s: no memory for the profile",
                     r->scan.source);
}

static enum weft_status push_interval(struct file_reader *r, struct intervals *list,
                                      struct interval i)
{
    struct interval *at = wf_array_grow(list->at, &list->cap, list->n, sizeof *at);
    if (at == NULL)
        return fail_memory(r);
    list->at = at;
    list->at[list->n++] = i;
    return WEFT_OK;
}

static enum weft_lane lane_of(unsigned kind)
{
    if (weft_act_is_compute(kind))
        return WEFT_LANE_COMPUTE;
    if (kind == WEFT_ACT_SEND_F || kind == WEFT_ACT_SEND_B)
        return WEFT_LANE_SEND;
    return weft_act_is_message(kind) ? WEFT_LANE_RECV : WEFT_LANE_COLLECTIVE;
}

/* Parses the cell of an annotation.  0WAIT_SEND_F3 is an event of the lane wait with the action
 * 0SEND_F3.  Returns false if the text is not an action. */
static bool parse_cell(struct wf_scan_text cell, struct wf_kineto_action *out)
{
    static const char wait[] = "WAIT_";
    char text[3 * WEFT_ACTION_TEXT_MAX];
    struct weft_action a[2];
    size_t digits = 0, n = sizeof wait - 1;
    if (cell.len >= sizeof text)
        return false;
    while (digits < cell.len && cell.at[digits] >= '0' && cell.at[digits] <= '9')
        digits++;
    bool waits = cell.len - digits > n && memcmp(cell.at + digits, wait, n) == 0;

    memcpy(text, cell.at, digits);
    memcpy(text + digits, cell.at + digits + (waits ? n : 0),
           cell.len - digits - (waits ? n : 0));
    const char *end = text + cell.len - (waits ? n : 0);
    struct wf_cursor c = {.source = "", .at = text, .end = end, .line_start = text, .line = 1};
    if (wf_action_parse(&c, a, NULL) != WEFT_OK || c.at != end)
        return false;

    out->action = a[0];
    out->partner = a[1];
    out->lane = waits ? WEFT_LANE_WAIT : lane_of(a[0].kind);
    return !waits || a[0].kind == WEFT_ACT_SEND_F || a[0].kind == WEFT_ACT_SEND_B ||
           a[0].kind == WEFT_ACT_REDUCE_GRAD;
}

static enum weft_status push_action(struct file_reader *r, struct wf_kineto_file *f,
                                    struct wf_scan_text cell, struct interval when)
{
    struct wf_kineto_action a = {
        .start = when.start, .work = when.start, .end = when.end, .thread = when.thread};
    if (!parse_cell(cell, &a))
        return WEFT_OK;
    struct wf_kineto_action *at = wf_array_grow(f->at, &f->cap, f->n, sizeof *at);
    if (at == NULL)
        return fail_memory(r);
    f->at = at;
    f->at[f->n++] = a;
    return WEFT_OK;
}

/* Returns true for gloo:recv, nccl:recv and the receives of other backends. */
static bool is_receive(struct wf_scan_text name)
{
    const char *colon = name.at == NULL ? NULL : memchr(name.at, ':', name.len);
    return colon != NULL &&
           wf_scan_begins((struct wf_scan_text){colon, (size_t)(name.at + name.len - colon)},
                          ":recv");
}

static enum weft_status read_times(struct file_reader *r, const struct raw_event *e,
                                   struct interval *out)
{
    int64_t length = 0;
    out->thread = wf_hash(wf_hash(0, e->pid.at, e->pid.len), e->tid.at, e->tid.len);
    bool ok = wf_scan_decimal(e->ts, 3, &out->start) &&
              (e->dur.len == 0 || wf_scan_decimal(e->dur, 3, &length)) && length >= 0 &&
              !__builtin_add_overflow(out->start, length, &out->end);
    if (ok)
        return WEFT_OK;
    char name[32];
    wf_printable_copy(name, sizeof name, e->name.at, e->name.len);
    return WEFT_FAIL(r->scan.err, WEFT_DATA,
                     "%.80s: byte %zu: the times of %s are not numbers in range",
                     r->scan.source, (size_t)(e->name.at - r->scan.begin) + 1, name);
}

static enum weft_status keep_event(struct file_reader *r, const struct raw_event *e)
{
    struct interval when;
    bool annotation = wf_scan_is(e->cat, "user_annotation");
    bool kernels = wf_scan_is(e->cat, "gpu_user_annotation");
    bool action = wf_scan_begins(e->name, "PP:");
    bool operator= wf_scan_is(e->cat, "cpu_op") && wf_scan_begins(e->name, "aten::");
    bool receive = annotation && is_receive(e->name);
    if (!wf_scan_is(e->ph, "X") || !(operator|| receive ||(action && (annotation || kernels))))
        return WEFT_OK;

    WEFT_TRY(read_times(r, e, &when));
    if (operator)
        return push_interval(r, &r->operators, when);
    if (receive)
        return push_interval(r, &r->receives, when);
    struct wf_scan_text cell = {e->name.at + 3, e->name.len - 3};
    return push_action(r, kernels ? &r->gpu : r->file, cell, when);
}

/* -- the text ------------------------------------------------------------------------------- */

/* Returns the field of an event that a key names, or NULL if the key is not needed. */
static struct wf_scan_text *find_field(struct raw_event *e, struct wf_scan_text key)
{
    const struct {
        const char *name;
        struct wf_scan_text *field;
    } fields[] = {{"ph", &e->ph},   {"cat", &e->cat}, {"name", &e->name}, {"ts", &e->ts},
                  {"dur", &e->dur}, {"pid", &e->pid}, {"tid", &e->tid}};
    for (size_t i = 0; i < WEFT_LEN(fields); i++)
        if (wf_scan_is(key, fields[i].name))
            return fields[i].field;
    return NULL;
}

static enum weft_status read_event(struct file_reader *r)
{
    struct raw_event e = {.ph = {NULL, 0}};
    struct wf_scan_text key, ignored;
    bool more;
    WEFT_TRY(wf_scan_begin(&r->scan, '{', &more));
    while (more) {
        WEFT_TRY(wf_scan_key(&r->scan, &key));
        struct wf_scan_text *field = find_field(&e, key);
        WEFT_TRY(wf_scan_atom(&r->scan, field != NULL ? field : &ignored));
        WEFT_TRY(wf_scan_next(&r->scan, '}', &more));
    }
    return keep_event(r, &e);
}

static enum weft_status read_events(struct file_reader *r)
{
    bool more;
    r->has_events = true;
    WEFT_TRY(wf_scan_begin(&r->scan, '[', &more));
    while (more) {
        WEFT_TRY(read_event(r));
        WEFT_TRY(wf_scan_next(&r->scan, ']', &more));
    }
    return WEFT_OK;
}

static enum weft_status fail_value(struct file_reader *r, const char *key)
{
    return WEFT_FAIL(r->scan.err, WEFT_DATA,
                     "%.80s: byte %zu: %s is not a whole number in range", r->scan.source,
                     (size_t)(r->scan.at - r->scan.begin) + 1, key);
}

/* Reads distributedInfo.  A profile of a single process has none. */
static enum weft_status read_distributed(struct file_reader *r)
{
    struct wf_scan_text key, value;
    int64_t rank;
    bool more;
    if (wf_scan_peek(&r->scan) != '{')
        return wf_scan_skip(&r->scan);
    WEFT_TRY(wf_scan_begin(&r->scan, '{', &more));
    while (more) {
        WEFT_TRY(wf_scan_key(&r->scan, &key));
        WEFT_TRY(wf_scan_atom(&r->scan, &value));
        if (wf_scan_is(key, "rank")) {
            if (!wf_scan_decimal(value, 0, &rank) || rank < 0 || rank >= WEFT_NO_RANK)
                return fail_value(r, "distributedInfo.rank");
            r->rank = (uint32_t)rank;
        }
        WEFT_TRY(wf_scan_next(&r->scan, '}', &more));
    }
    return WEFT_OK;
}

static enum weft_status read_top(struct file_reader *r)
{
    struct wf_scan_text key, value;
    bool more;
    WEFT_TRY(wf_scan_begin(&r->scan, '{', &more));
    while (more) {
        WEFT_TRY(wf_scan_key(&r->scan, &key));
        if (wf_scan_is(key, "traceEvents")) {
            WEFT_TRY(read_events(r));
        } else if (wf_scan_is(key, "distributedInfo")) {
            WEFT_TRY(read_distributed(r));
        } else {
            WEFT_TRY(wf_scan_atom(&r->scan, &value));
            if (wf_scan_is(key, "baseTimeNanoseconds") &&
                !wf_scan_decimal(value, 0, &r->file->base_ns))
                return fail_value(r, "baseTimeNanoseconds");
        }
        WEFT_TRY(wf_scan_next(&r->scan, '}', &more));
    }
    return wf_scan_end(&r->scan);
}

/* -- waits ---------------------------------------------------------------------------------- */

static int compare_numbers(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_starts(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return compare_numbers(x->start, y->start);
}

static int compare_ends(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return compare_numbers(x->end, y->end);
}

/* Returns the index of the first interval that is not less than `key` or, if `after` is true, of
 * the first that is greater. */
static size_t find_first(const struct intervals *list, struct interval key, bool after,
                         int (*compare)(const void *, const void *))
{
    size_t begin = 0, end = list->n;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (compare(&list->at[middle], &key) < (after ? 1 : 0))
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

static void sort_intervals(struct intervals *list, int (*compare)(const void *, const void *))
{
    size_t i = 1;
    while (i < list->n && compare(&list->at[i - 1], &list->at[i]) <= 0)
        i++;
    if (i < list->n) /* profiles are usually sorted */
        qsort(list->at, list->n, sizeof *list->at, compare);
}

/* Computes the maxima of the ends of ranges: at[n + i] is the end of interval i, and every other
 * element is the maximum of two elements.  With nested actions, the ranges together may be much
 * longer than the file. */
static int64_t *new_maxima(const struct intervals *list)
{
    int64_t *at = malloc(sizeof *at * (2 * list->n + 1));
    if (at == NULL)
        return NULL;
    for (size_t i = 0; i < list->n; i++)
        at[list->n + i] = list->at[i].end;
    for (size_t i = list->n; i-- > 1;)
        at[i] = at[2 * i] > at[2 * i + 1] ? at[2 * i] : at[2 * i + 1];
    return at;
}

/* Returns the largest end of the intervals begin .. end - 1, and at least `least`. */
static int64_t find_maximum(const int64_t *maxima, size_t n, size_t begin, size_t end,
                            int64_t least)
{
    for (begin += n, end += n; begin < end; begin /= 2, end /= 2) {
        if (begin % 2 == 1) {
            least = maxima[begin] > least ? maxima[begin] : least;
            begin++;
        }
        if (end % 2 == 1) {
            end--;
            least = maxima[end] > least ? maxima[end] : least;
        }
    }
    return least;
}

/* Extends each RECV from its posting to the end of the receive that it posts. */
static enum weft_status extend_receives(struct file_reader *r)
{
    struct intervals *list = &r->receives;
    if (list->n == 0)
        return WEFT_OK;
    sort_intervals(list, compare_starts);
    int64_t *maxima = new_maxima(list);
    if (maxima == NULL)
        return fail_memory(r);

    for (size_t i = 0; i < r->file->n; i++) {
        struct wf_kineto_action *a = &r->file->at[i];
        const struct interval from = {a->thread, a->start, 0}, to = {a->thread, a->end, 0};
        if (a->lane != WEFT_LANE_RECV)
            continue;
        a->end = find_maximum(maxima, list->n, find_first(list, from, false, compare_starts),
                              find_first(list, to, true, compare_starts), a->end);
    }
    free(maxima);
    return WEFT_OK;
}

/* Returns the end of the last receive that ends inside an action, or of the first one for a pair,
 * whose second half waits after the work of the first.  Without a receive, returns the start of
 * the action. */
static int64_t receive_end(const struct intervals *list, const struct wf_kineto_action *a)
{
    const struct interval from = {a->thread, 0, a->start}, to = {a->thread, 0, a->end};
    size_t begin = find_first(list, from, false, compare_ends);
    size_t end = find_first(list, to, true, compare_ends);
    if (begin >= end)
        return a->start;
    return list->at[a->action.paired ? begin : end - 1].end;
}

/* Finds the start of the work of each compute action: its first operator after the receive for
 * which it waits.  Operators before that prepare the stage, such as those that gather sharded
 * parameters.  A pair starts with its first operator. */
static void separate_waits(struct file_reader *r)
{
    const struct intervals *list = &r->operators;
    sort_intervals(&r->operators, compare_starts);
    sort_intervals(&r->receives, compare_ends);
    for (size_t i = 0; i < r->file->n; i++) {
        struct wf_kineto_action *a = &r->file->at[i];
        if (a->lane != WEFT_LANE_COMPUTE)
            continue;
        a->work = receive_end(&r->receives, a);
        int64_t from = a->action.paired ? a->start : a->work;
        size_t k =
            find_first(list, (struct interval){a->thread, from, 0}, false, compare_starts);
        if (k < list->n && list->at[k].thread == a->thread && list->at[k].start <= a->end)
            a->work = list->at[k].start;
    }
}

/* -- steps ---------------------------------------------------------------------------------- */

static uint64_t action_number(struct weft_action a)
{
    return (uint64_t)a.kind << 56 | (uint64_t)a.stage << 32 | a.micro;
}

/* Orders actions by lane, action and partner. */
static int compare_actions(const struct wf_kineto_action *a, const struct wf_kineto_action *b)
{
    const uint64_t x[] = {a->lane, action_number(a->action), a->action.paired,
                          action_number(a->partner)};
    const uint64_t y[] = {b->lane, action_number(b->action), b->action.paired,
                          action_number(b->partner)};
    for (size_t i = 0; i < WEFT_LEN(x); i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static int compare_by_action(const void *a, const void *b)
{
    const struct wf_kineto_action *x = a, *y = b;
    int order = compare_actions(x, y);
    return order != 0             ? order
           : x->start != y->start ? compare_numbers(x->start, y->start)
                                  : compare_numbers(x->end, y->end);
}

/* Sorts the actions by action and start, and numbers the occurrences of each action. */
static enum weft_status number_steps(struct file_reader *r, struct wf_kineto_file *f)
{
    if (f->n == 0)
        return WEFT_OK;
    f->first = malloc(sizeof *f->first * f->n);
    if (f->first == NULL)
        return fail_memory(r);
    qsort(f->at, f->n, sizeof *f->at, compare_by_action);
    f->n_steps = UINT32_MAX;
    for (size_t i = 0; i < f->n; i++) {
        bool again = i > 0 && compare_actions(&f->at[i - 1], &f->at[i]) == 0;
        bool last = i + 1 == f->n || compare_actions(&f->at[i], &f->at[i + 1]) != 0;
        f->at[i].step = again ? f->at[i - 1].step + 1 : 0;
        if (!again)
            f->first[f->n_distinct++] = i;
        if (last && f->at[i].step < f->n_steps)
            f->n_steps = f->at[i].step + 1;
    }
    return WEFT_OK;
}

/* Gives each action the times of its kernels: the longest annotation of the same action that
 * starts after it and before its next occurrence.  There is one annotation per stream, and
 * kernels start after the call that launches them. */
static void match_kernels(struct wf_kineto_file *f, const struct wf_kineto_file *gpu)
{
    size_t k = 0;
    for (size_t i = 0; i < f->n; i++) {
        struct wf_kineto_action *a = &f->at[i];
        bool last = i + 1 == f->n || f->at[i + 1].step == 0;
        while (k < gpu->n && compare_by_action(&gpu->at[k], a) < 0)
            k++;
        for (; k < gpu->n && compare_actions(&gpu->at[k], a) == 0 &&
               (last || gpu->at[k].start < a[1].start);
             k++)
            if (gpu->at[k].end - gpu->at[k].start > a->gpu_end - a->gpu_start) {
                a->gpu_start = gpu->at[k].start;
                a->gpu_end = gpu->at[k].end;
            }
    }
}

/* Returns an occurrence of a compute action, or NULL if the file does not have the action. */
static const struct wf_kineto_action *find_action(const struct wf_kineto_file *f,
                                                  struct weft_action action, uint32_t step)
{
    const struct wf_kineto_action key = {.action = action, .lane = WEFT_LANE_COMPUTE};
    size_t begin = 0, end = f->n_distinct;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (compare_actions(&f->at[f->first[middle]], &key) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    bool found = begin < f->n_distinct && compare_actions(&f->at[f->first[begin]], &key) == 0;
    return found ? &f->at[f->first[begin] + step] : NULL;
}

bool wf_kineto_step_in_order(const struct wf_kineto_file *f, uint32_t step)
{
    for (size_t i = 0; i < f->n_distinct; i++) {
        const struct wf_kineto_action *a = &f->at[f->first[i] + step];
        if (a->lane != WEFT_LANE_COMPUTE || a->action.kind == WEFT_ACT_F || a->action.paired)
            continue;
        struct weft_action forward = a->action;
        forward.kind = WEFT_ACT_F;
        const struct wf_kineto_action *first = find_action(f, forward, step);
        if (first != NULL && first->start > a->start)
            return false;
    }
    return true;
}

/* -- one file ------------------------------------------------------------------------------- */

static enum weft_status finish_file(struct file_reader *r)
{
    struct wf_kineto_file *f = r->file;
    if (!r->has_events)
        return WEFT_FAIL(r->scan.err, WEFT_DATA,
                         "%.80s: not a profile of PyTorch: it has no traceEvents",
                         r->scan.source);
    if (f->n == 0) { /* only the GPU was profiled */
        struct wf_kineto_file none = *f;
        *f = r->gpu;
        memcpy(f->source, none.source, sizeof f->source);
        f->base_ns = none.base_ns;
        r->gpu = (struct wf_kineto_file){.at = none.at};
    }
    if (f->n == 0)
        return WEFT_FAIL(r->scan.err, WEFT_DATA,
                         "%.80s: no annotations such as PP:0F0; the schedules of PyTorch that "
                         "run from a table write them, Schedule1F1B and ScheduleGPipe do not",
                         r->scan.source);
    WEFT_TRY(extend_receives(r));
    separate_waits(r);
    WEFT_TRY(number_steps(r, f));
    WEFT_TRY(number_steps(r, &r->gpu));
    match_kernels(f, &r->gpu);
    return WEFT_OK;
}

void wf_kineto_file_release(struct wf_kineto_file *f)
{
    free(f->at);
    free(f->first);
    *f = (struct wf_kineto_file){0};
}

enum weft_status wf_kineto_read(const char *text, size_t len, const char *source,
                                struct wf_kineto_file *out, uint32_t *file_rank,
                                struct weft_error *err)
{
    struct wf_kineto_file file = {.rank = WEFT_NO_RANK};
    struct file_reader r = {
        .scan = {source, text, text, text + len, err}, .file = &file, .rank = WEFT_NO_RANK};
    wf_printable_copy(file.source, sizeof file.source, source, strlen(source));
    enum weft_status st = read_top(&r);
    if (st == WEFT_OK)
        st = finish_file(&r);
    free(r.operators.at);
    free(r.receives.at);
    wf_kineto_file_release(&r.gpu);
    if (st == WEFT_OK) {
        *out = file;
        *file_rank = r.rank;
    } else {
        wf_kineto_file_release(&file);
    }
    return st;
}
