/* Compares orders, times and peaks with the output of the systems that the
 * schedules come from. */
#include "lines.h"
#include "weft/weft.h"

/* Hashes the rows, with blanks between cells and newlines between rows. */
static uint64_t hash_rows(const struct weft_schedule *s)
{
    uint64_t h = FNV_START;
    for (uint32_t r = 0; r < weft_schedule_placement(s)->n_ranks; r++) {
        char *row = NULL;
        assert_int_equal(weft_schedule_print_rank(s, r, " ", &row, NULL), WEFT_OK);
        h = fnv_add(fnv_add(h, "\n", r > 0), row, strlen(row));
        free(row);
    }
    return h;
}

static void expect_hash(const struct lines *l, int field, uint64_t got, const char *what)
{
    if (strcmp(l->fields[field], "-") != 0 && strtoull(l->fields[field], NULL, 16) != got)
        fail_line(l, "%s P=%s V=%s M=%s: other %s", l->fields[0], l->fields[1], l->fields[2],
                  l->fields[3], what);
}

static void expect_number(const struct lines *l, int field, double got, const char *what)
{
    if (lines_number(l, field) >= 0 && lines_number(l, field) != got)
        fail_line(l, "%s P=%s V=%s M=%s: %s is %g, not %s", l->fields[0], l->fields[1],
                  l->fields[2], l->fields[3], what, got, l->fields[field]);
}

static void expect_peaks(const struct lines *l, int field, const double *got)
{
    double want[64];
    size_t n = lines_list(l, field, want, 64);
    for (size_t i = 0; i < n; i++)
        if (want[i] != got[i])
            fail_line(l, "%s P=%s M=%s: rank %zu peaks at %g, not %g", l->fields[0],
                      l->fields[1], l->fields[3], i, got[i], want[i]);
}

/* Hashes the start times of all cells; an overlapped pair is one cell. */
static uint64_t hash_starts(const struct weft_schedule *s, const struct weft_metrics *m)
{
    uint64_t h = FNV_START;
    char number[40];
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(s, r);
        const double *start = m->start + weft_schedule_offset(s, r);
        h = fnv_add(h, "\n", r > 0);
        for (size_t i = 0; i < row.len; i += row.at[i].paired ? 2 : 1) {
            snprintf(number, sizeof number, "%s%.17g", i > 0 ? " " : "", start[i]);
            h = fnv_add(h, number, strlen(number));
        }
    }
    return h;
}

static struct weft_schedule *make_line(const struct lines *l, struct weft_gen_params params)
{
    struct weft_schedule *s = NULL;
    struct weft_error err;
    params.ranks = lines_count(l, 1);
    params.chunks = lines_count(l, 2);
    params.micros = lines_count(l, 3);
    if (weft_schedule_generate(l->fields[0], &params, &s, &err) != WEFT_OK)
        fail_line(l, "%s", err.msg);
    return s;
}

static void check_orders(void **state)
{
    struct lines l;
    int n = 0;
    (void)state;

    for (lines_open(&l, "golden_orders.txt"); lines_next(&l); n++) {
        double v[9];
        for (int i = 0; i < 8; i++)
            v[i] = lines_number(&l, 6 + i);
        struct weft_cost cost = {
            .f = {&v[0], 1}, .i = {&v[1], 1}, .w = {&v[2], 1}, .hop = v[4]};
        if (v[3] >= 0)
            cost.fb = (struct weft_values){&v[3], 1};
        struct weft_memory_cost memory = {.f = {&v[5], 1}, .i = {&v[6], 1}, .w = {&v[7], 1}};

        struct weft_schedule *s =
            make_line(&l, (struct weft_gen_params){.group = lines_count(&l, 4),
                                                   .pipes = lines_count(&l, 5)});
        struct weft_metrics m;
        assert_int_equal(weft_metrics_init(&m, s, &cost, &memory, NULL), WEFT_OK);

        expect_hash(&l, 17, hash_rows(s), "order");
        expect_hash(&l, 18, hash_starts(s, &m), "start times");
        expect_number(&l, 14, m.makespan, "makespan");
        expect_number(&l, 15, m.span, "span");
        expect_peaks(&l, 16, m.peak_mem);

        weft_metrics_release(&m);
        weft_schedule_free(s);
    }

    assert_in_range(n, 480, 100000);
}

/* Compares orders and times with PyTorch's tables. */
static void check_pytorch(void **state)
{
    struct lines l;
    int n = 0;
    (void)state;

    for (lines_open(&l, "golden_pytorch.txt"); lines_next(&l); n++) {
        struct weft_schedule *s = make_line(&l, (struct weft_gen_params){0});
        struct weft_metrics m;
        double peaks[64];

        assert_int_equal(weft_metrics_init(&m, s, NULL, NULL, NULL), WEFT_OK);
        for (uint32_t r = 0; r < m.n_ranks; r++)
            peaks[r] = (double)m.peak_activations[r];

        expect_number(&l, 4, m.makespan, "makespan");
        expect_number(&l, 5, (double)m.n_messages, "number of messages");
        expect_peaks(&l, 6, peaks);
        expect_hash(&l, 7, hash_rows(s), "order");
        weft_metrics_release(&m);
        weft_schedule_free(s);
    }

    assert_in_range(n, 520, 100000);
}

/* Compares orders and lowered tables with those of PyTorch 2.13 and 2.15. */
static void check_torch_tables(void **state)
{
    struct lines l;
    int n = 0;
    (void)state;
    for (lines_open(&l, "golden_torch.txt"); lines_next(&l); n++) {
        struct weft_schedule *s = make_line(&l, (struct weft_gen_params){0}), *lowered = NULL;
        expect_hash(&l, 4, hash_rows(s), "order");
        for (int waits = 0; waits < 2; waits++) {
            assert_int_equal(weft_schedule_lower(
                                 s, waits ? WEFT_LOWERING_TORCH_2_15 : WEFT_LOWERING_TORCH_2_10,
                                 &lowered, NULL),
                             WEFT_OK);
            expect_hash(&l, 5 + waits, hash_rows(lowered),
                        waits ? "table for PyTorch 2.15" : "table for PyTorch 2.13");
            weft_schedule_free(lowered);
        }
        weft_schedule_free(s);
    }
    assert_in_range(n, 900, 100000);
}

static void check_ranks(void **state)
{
    struct lines l;
    int n = 0;
    (void)state;

    for (lines_open(&l, "golden_ranks.txt"); lines_next(&l); n++) {
        struct weft_schedule *s = make_line(&l, (struct weft_gen_params){0});
        char *row = NULL;

        assert_int_equal(weft_schedule_print_rank(s, lines_count(&l, 4), " ", &row, NULL),
                         WEFT_OK);
        expect_hash(&l, 5, fnv_add(FNV_START, row, strlen(row)), "order of a rank");
        free(row);

        if (l.n > 6) {
            struct weft_metrics m;
            uint64_t bits;
            assert_int_equal(weft_metrics_init(&m, s, NULL, NULL, NULL), WEFT_OK);
            memcpy(&bits, &m.bubble_ratio, sizeof bits);
            expect_hash(&l, 6, bits, "ratio (P - 1) / M");
            weft_metrics_release(&m);
        }

        weft_schedule_free(s);
    }

    assert_in_range(n, 450, 100000);
}

/* Checks Megatron's order with a given group size: the same time, or an error
 * if it deadlocks. */
static void check_groups(void **state)
{
    struct lines l;
    int n_rejected = 0, n_generated = 0;
    (void)state;

    for (lines_open(&l, "golden_groups.txt"); lines_next(&l);) {
        struct weft_gen_params params = {.ranks = lines_count(&l, 0),
                                         .chunks = lines_count(&l, 1),
                                         .micros = lines_count(&l, 2),
                                         .group = lines_count(&l, 3)};
        struct weft_schedule *s = NULL;
        struct weft_error err = {0};

        enum weft_status st = weft_schedule_generate("interleaved-1f1b", &params, &s, &err);
        if (strcmp(l.fields[4], "-") == 0) {
            n_rejected++;
            if (st != WEFT_USAGE || strstr(err.msg, "deadlocks") == NULL)
                fail_line(&l, "a deadlock was not rejected: %s", err.msg);
            continue;
        }

        struct weft_metrics m;
        n_generated++;
        if (st != WEFT_OK)
            fail_line(&l, "%s", err.msg);
        assert_int_equal(weft_metrics_init(&m, s, NULL, NULL, NULL), WEFT_OK);

        if (m.makespan != lines_number(&l, 4))
            fail_line(&l, "makespan %g, not %s", m.makespan, l.fields[4]);

        weft_metrics_release(&m);
        weft_schedule_free(s);
    }

    assert_in_range(n_rejected, 290, 100000);
    assert_in_range(n_generated, 500, 100000);
}

static const double one_tick = 1;

static uint64_t hash_events(const struct weft_event *events, size_t n)
{
    uint64_t h = FNV_START;
    for (size_t i = 0; i < n; i++) {
        uint32_t fields[] = {(uint32_t)events[i].start, events[i].rank,  events[i].stage,
                             events[i].chunk,           events[i].micro, events[i].kind};
        for (size_t k = 0; k < 6; k++)
            for (int byte = 0; byte < 4; byte++) {
                unsigned char b = (unsigned char)(fields[k] >> 8 * byte);
                h = fnv_add(h, &b, 1);
            }
    }
    return h;
}

static void expect_summary(const struct lines *l, const struct weft_schedule *s,
                           const struct weft_metrics *m)
{
    char want[300], got[300];
    snprintf(want, sizeof want,
             "schedule=%s physical_stages=%s virtual_stages_per_rank=%s "
             "total_virtual_stages=%u microbatches=%s total_ticks=%s bubble_fraction=%s",
             strcmp(l->fields[0], "greedy-gpipe") == 0 ? "Gpipe" : "Interleaved1f1b",
             l->fields[1], l->fields[2], lines_count(l, 1) * lines_count(l, 2), l->fields[3],
             l->fields[5], l->fields[10]);
    assert_int_equal(weft_reference_summary(s, m, got, sizeof got, NULL), WEFT_OK);
    if (strcmp(got, want) != 0)
        fail_line(l, "summary\n%s\n%s", got, want);
}

/* Compares plans with the first reference system: every event, and the metrics bit by bit. */
static void check_plans(void **state)
{
    struct weft_cost ticks = {.b = {&one_tick, 1}};
    struct lines l;
    int n = 0;
    (void)state;

    for (lines_open(&l, "golden_plans.txt"); lines_next(&l); n++) {
        struct weft_schedule *s = make_line(&l, (struct weft_gen_params){0});
        struct weft_metrics m;
        struct weft_event *events = NULL;
        size_t n_events = 0;

        assert_int_equal(weft_metrics_init(&m, s, &ticks, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_event_list(s, &m, &events, &n_events, NULL), WEFT_OK);

        float bubble = weft_reference_bubble(&m);
        uint32_t bits;
        memcpy(&bits, &bubble, sizeof bits);

        expect_number(&l, 5, m.makespan, "number of ticks");
        expect_number(&l, 6, (double)n_events, "number of events");
        expect_number(&l, 7, bits, "bubble");
        expect_hash(&l, 8, hash_events(events, n_events), "events");
        expect_peaks(&l, 9, m.busy);
        expect_summary(&l, s, &m);

        free(events);
        weft_metrics_release(&m);
        weft_schedule_free(s);
    }

    assert_in_range(n, 390, 100000);
}

static struct workload_case {
    uint32_t ranks, chunks, rank;
    const char *stages, *forward,
        *backward; /* NULL: an error, where the system returns nothing */
} workloads[] = {
    {2, 2, 0, "0 2", "0 1 3 5 7 11 17 24", "9 13 15 19 22 26 29 31"},
    {2, 2, 2, NULL, NULL, NULL},
    {4, 1, 0, "0", "0 1 3 6", "18 23 28 31"},
    {4, 1, 1, "1", "2 4 7 10", "15 21 26 30"},
    {4, 1, 2, "2", "5 8 11 16", "13 19 24 29"},
    {4, 1, 3, "3", "9 14 20 25", "12 17 22 27"},
    {4, 1, 4, NULL, NULL, NULL},
};

static void expect_list(const char *want, const size_t *got, size_t n)
{
    char text[200] = "";
    for (size_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%zu", i > 0 ? " " : "",
                 got[i]);
    assert_string_equal(text, want);
}

static void check_workloads(void **state)
{
    struct weft_cost ticks = {.b = {&one_tick, 1}};
    (void)state;

    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++) {
        const struct workload_case *c = &workloads[i];
        struct weft_gen_params params = {.ranks = c->ranks, .chunks = c->chunks, .micros = 4};
        struct weft_schedule *s = NULL;
        struct weft_metrics m;
        struct weft_event *events = NULL;
        struct weft_workload w;
        struct weft_error err;
        size_t n = 0;

        assert_int_equal(weft_schedule_generate("greedy-1f1b", &params, &s, NULL), WEFT_OK);
        assert_int_equal(weft_metrics_init(&m, s, &ticks, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_event_list(s, &m, &events, &n, NULL), WEFT_OK);
        enum weft_status st = weft_workload_init(&w, s, events, n, c->rank, &err);

        if (c->stages == NULL) {
            assert_int_equal(st, WEFT_USAGE);
            assert_non_null(strstr(err.msg, "is out of range"));
        } else {
            size_t stages[8];
            assert_int_equal(st, WEFT_OK);
            for (size_t k = 0; k < w.n_stages; k++)
                stages[k] = w.stages[k];
            expect_list(c->stages, stages, w.n_stages);
            expect_list(c->forward, w.forward, w.n_forward);
            expect_list(c->backward, w.backward, w.n_backward);
            weft_workload_release(&w);
        }

        free(events);
        weft_metrics_release(&m);
        weft_schedule_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_orders),       cmocka_unit_test(check_pytorch),
        cmocka_unit_test(check_torch_tables), cmocka_unit_test(check_ranks),
        cmocka_unit_test(check_groups),       cmocka_unit_test(check_plans),
        cmocka_unit_test(check_workloads),
    };
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL) != 0;
}
