/* Compares the traffic of a plan with recordings of the first reference system and with a
 * direct implementation of its rules, based on the cache and sorted events. */
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "planning/sim/tick_order.h"
#include "sched/lines.h"
#include "weft/cache.h"
#include "weft/timing.h"

static uint64_t number(const struct lines *l, int field)
{
    return strtoull(l->fields[field], NULL, 10);
}

/* -- recorded plans ------------------------------------------------------------------------ */

static struct weft_ref_traffic_settings settings_of(const struct lines *l)
{
    const char *how = l->fields[5];
    return (struct weft_ref_traffic_settings){
        .mode = how[0] == 'a' ? WEFT_REF_TRAFFIC_ACTIVATION_TENSOR
                              : WEFT_REF_TRAFFIC_BLOCK_RESIDUAL_CACHE,
        .cache = {how[1] == '1',
                  how[2] == 'r' ? WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES
                                : WEFT_CACHE_POLICY_DISABLED,
                  how[3] == '1', lines_count(l, 6)},
        .layers_per_block = lines_count(l, 7),
        .payload_bytes = number(l, 8)};
}

static void expect_report(const struct lines *l, const struct weft_ref_traffic *c)
{
    uint32_t bits;
    memcpy(&bits, &c->cache_hit_rate, sizeof bits);
    const size_t got[] = {c->cache.raw_payload_bytes_requested,
                          c->cache.payload_bytes_transmitted,
                          c->cache.cache_hits,
                          c->cache.cache_misses,
                          c->cache.resend_count_avoided,
                          c->cache.backward_reuse_hits,
                          c->cache.invalidated_entries,
                          c->forward_transfer_requests,
                          c->backward_transfer_requests,
                          c->bytes_saved,
                          bits};

    for (int i = 0; i < (int)WEFT_LEN(got); i++)
        if (number(l, 9 + i) != got[i])
            fail_line(l, "figure %d is %zu, not %s", i, got[i], l->fields[9 + i]);

    double sent[64];
    assert_int_equal(lines_list(l, 20, sent, 64), c->n_ranks);
    for (uint32_t r = 0; r < c->n_ranks; r++)
        if (sent[r] != (double)c->stage_transmitted_bytes[r])
            fail_line(l, "rank %u sends %zu", r, c->stage_transmitted_bytes[r]);
}

static void check_plans(void **state)
{
    struct lines l;
    int plans = 0, refused = 0, traces = 0;
    (void)state;

    for (lines_open(&l, "cache_plans.txt"); lines_next(&l);) {
        struct weft_gen_params params = {.ranks = lines_count(&l, 2),
                                         .chunks = lines_count(&l, 3),
                                         .micros = lines_count(&l, 4)};
        struct weft_ref_traffic_settings settings = settings_of(&l);
        struct weft_ref_traffic c;
        struct weft_partition p;
        struct weft_schedule *s = NULL;
        const char *name = l.fields[0][0] == 'g' ? "greedy-gpipe" : "greedy-1f1b";

        assert_int_equal(weft_schedule_generate(name, &params, &s, NULL), WEFT_OK);
        assert_int_equal(weft_partition_init_even(&p, lines_count(&l, 1),
                                                  params.ranks * params.chunks, NULL),
                         WEFT_OK);

        enum weft_status st = weft_ref_traffic_compute(s, &p, &settings, &c, NULL);
        if (strcmp(l.fields[9], "err") == 0) {
            assert_int_equal(st, WEFT_USAGE);
            refused++;
        } else {
            assert_int_equal(st, WEFT_OK);
            assert_null(c.trace);
            expect_report(&l, &c);
            weft_ref_traffic_release(&c);

            settings.trace = true;
            assert_int_equal(weft_ref_traffic_compute(s, &p, &settings, &c, NULL), WEFT_OK);
            expect_report(&l, &c);
            assert_int_equal(strlen(c.trace), c.n_events);
            if (l.fields[21][0] != '-' || l.fields[21][1] != '\0') {
                if (strtoull(l.fields[21], NULL, 16) != fnv_add(FNV_START, c.trace, c.n_events))
                    fail_line(&l, "other trace: %s", c.trace);
                traces++;
            }
            weft_ref_traffic_release(&c);
            plans++;
        }

        weft_partition_release(&p);
        weft_schedule_free(s);
    }

    assert_in_range(plans, 990, 100000);
    assert_in_range(traces, 510, 100000);
    assert_in_range(refused, 40, 100000);
}

/* -- the rules, directly ------------------------------------------------------------------- */

static const double one_tick = 1;

static void plain_event(const struct weft_schedule *s, const struct weft_partition *p,
                        const struct weft_ref_traffic_settings *settings,
                        const struct weft_event *e, struct weft_cache *cache,
                        struct weft_ref_traffic *out, char *letter)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    bool forward = e->kind == WEFT_ACT_F;
    int64_t lower = forward ? e->stage : (int64_t)e->stage - 1;
    struct weft_cache_access got;

    *letter = '-';
    if (e->kind == WEFT_ACT_W || lower < 0 || lower + 1 >= place->n_stages)
        return;

    uint32_t source = weft_placement_rank(place, (uint32_t)lower, e->micro);
    uint32_t dest = weft_placement_rank(place, (uint32_t)lower + 1, e->micro);
    if (source == dest)
        return;

    struct weft_cache_key key = {
        source, dest, (p->at[lower].end_layer - 1) / settings->layers_per_block, e->micro, 0};
    size_t bytes = settings->payload_bytes;
    *(forward ? &out->forward_transfer_requests : &out->backward_transfer_requests) += 1;

    if (settings->mode == WEFT_REF_TRAFFIC_ACTIVATION_TENSOR) {
        if (!forward) {
            key.source = dest;
            key.destination = source;
        }
        assert_int_equal(weft_cache_access_bypass(cache, &key, bytes, &got, NULL), WEFT_OK);
    } else if (forward) {
        assert_int_equal(weft_cache_access_forward(cache, &key, bytes, &got, NULL), WEFT_OK);
    } else {
        assert_int_equal(weft_cache_access_backward(cache, &key, bytes, &got, NULL), WEFT_OK);
    }

    out->stage_transmitted_bytes[key.source] += got.transmitted_bytes;
    *letter = "hmb"[got.result];
}

static void compare(const struct weft_schedule *s, const struct weft_partition *p,
                    const struct weft_ref_traffic_settings *settings)
{
    struct weft_cost ticks = {.b = {&one_tick, 1}};
    struct weft_ref_traffic got;
    struct weft_metrics m;
    struct weft_event *events = NULL;
    struct weft_cache *cache = NULL;
    size_t n = 0, sent[64] = {0};
    struct weft_ref_traffic want = {.stage_transmitted_bytes = sent};

    assert_int_equal(weft_ref_traffic_compute(s, p, settings, &got, NULL), WEFT_OK);
    assert_int_equal(weft_metrics_init(&m, s, &ticks, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_event_list(s, &m, &events, &n, NULL), WEFT_OK);
    assert_int_equal(weft_cache_new(&settings->cache, &cache, NULL), WEFT_OK);
    assert_int_equal(got.n_events, n);

    for (size_t i = 0; i < n; i++) {
        char letter;
        plain_event(s, p, settings, &events[i], cache, &want, &letter);
        if (settings->trace)
            assert_int_equal(got.trace[i], letter);
    }

    assert_memory_equal(&got.cache, weft_cache_stats(cache), sizeof got.cache);
    assert_int_equal(got.forward_transfer_requests, want.forward_transfer_requests);
    assert_int_equal(got.backward_transfer_requests, want.backward_transfer_requests);
    assert_memory_equal(got.stage_transmitted_bytes, sent, sizeof(size_t) * got.n_ranks);

    weft_cache_free(cache);
    free(events);
    weft_metrics_release(&m);
    weft_ref_traffic_release(&got);
}

/* Compares all schedules: one or two directions, split backwards, pairs, with
 * and without messages. */
static void check_every_schedule(void **state)
{
    size_t n = 0, compared = 0;
    const struct weft_generator *all = weft_generator_list(&n);
    (void)state;

    for (size_t g = 0; g < n; g++) {
        struct weft_gen_params params = {
            .ranks = 4, .micros = 8, .chunks = all[g].default_chunks};
        struct weft_schedule *s = NULL, *lowered = NULL;
        struct weft_partition p;

        if (weft_schedule_generate(all[g].name, &params, &s, NULL) != WEFT_OK)
            continue;

        uint32_t stages = weft_schedule_placement(s)->n_stages;
        assert_int_equal(weft_schedule_lower(s, WEFT_LOWERING_WEFT, &lowered, NULL), WEFT_OK);
        assert_int_equal(weft_partition_init_even(&p, stages + 3, stages, NULL), WEFT_OK);

        for (uint32_t k = 0; k < 2 * 2 * 2 * 6; k++) {
            struct weft_ref_traffic_settings settings = {
                .mode = k & 1 ? WEFT_REF_TRAFFIC_BLOCK_RESIDUAL_CACHE
                              : WEFT_REF_TRAFFIC_ACTIVATION_TENSOR,
                .cache = {true, WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES, (k & 2) != 0,
                          k >> 3},
                .layers_per_block = k & 4 ? 100 : 2,
                .payload_bytes = 10,
                .trace = k % 3 == 0};
            compare(s, &p, &settings);
            compare(lowered, &p, &settings);
            compared++;
        }

        weft_partition_release(&p);
        weft_schedule_free(lowered);
        weft_schedule_free(s);
    }

    assert_in_range(compared, 15 * 48, 100000);
}

/* Uses more keys than a word has bits, and more ranks than a group. */
static void check_wide(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 12; k++) {
        struct weft_gen_params params = {.ranks = 17 + 9 * (k % 3), .micros = 50, .chunks = 5};
        struct weft_schedule *s = NULL;
        struct weft_partition p;
        uint32_t stages = params.ranks * params.chunks;
        struct weft_ref_traffic_settings settings = {
            .mode = WEFT_REF_TRAFFIC_BLOCK_RESIDUAL_CACHE,
            .cache = {true, WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES, true, 1 + 7 * k},
            .layers_per_block = 1,
            .payload_bytes = 3};
        assert_int_equal(
            weft_schedule_generate(k & 1 ? "greedy-gpipe" : "greedy-1f1b", &params, &s, NULL),
            WEFT_OK);
        assert_int_equal(weft_partition_init_even(&p, stages, stages, NULL), WEFT_OK);
        compare(s, &p, &settings);
        weft_partition_release(&p);
        weft_schedule_free(s);
    }
}

/* -- the order of ticks -------------------------------------------------------------------- */

/* Checks that the order is that of the sorted events.  Returns whether it is complete. */
static bool follows_events(const struct weft_schedule *s)
{
    struct weft_cost ticks = {.b = {&one_tick, 1}};
    struct weft_metrics m;
    struct weft_event *events = NULL;
    struct wf_ticks t;
    size_t n = 0, at = 0;

    assert_int_equal(weft_metrics_init(&m, s, &ticks, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_event_list(s, &m, &events, &n, NULL), WEFT_OK);
    assert_int_equal(wf_ticks_init(&t, s, NULL), WEFT_OK);

    while (wf_ticks_next(&t))
        for (size_t i = 0; i < t.n_now; i++, at++) {
            assert_true(at < n);
            assert_int_equal(t.now[i].slot,
                             wf_tick_slot_index(events[at].kind, events[at].stage));
            assert_int_equal(t.now[i].micro, events[at].micro);
            wf_ticks_finish(&t, t.now[i]);
        }

    bool complete = wf_ticks_complete(&t);
    assert_int_equal(complete, at == n);

    wf_ticks_release(&t);
    free(events);
    weft_metrics_release(&m);
    return complete;
}

static void check_order(void **state)
{
    static const char *const names[] = {
        "greedy-1f1b", "greedy-gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "zb-v", "wave"};
    static const char pair[] = "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n";
    struct weft_schedule *s = NULL;

    (void)state;
    for (size_t i = 0; i < WEFT_LEN(names); i++)
        for (uint32_t ranks = 2; ranks <= 74; ranks = 2 * ranks + (ranks < 10)) {
            const struct weft_generator *g = weft_generator_find(names[i]);
            struct weft_gen_params params = {
                .ranks = ranks, .micros = 2 * ranks + 2, .chunks = g->default_chunks};
            if (weft_schedule_generate(names[i], &params, &s, NULL) == WEFT_OK)
                assert_true(follows_events(s));
            weft_schedule_free(s);
            s = NULL;
        }
    assert_int_equal(weft_schedule_parse(pair, sizeof pair - 1, "pair", &s, NULL), WEFT_OK);
    struct wf_ticks t;
    assert_int_equal(wf_ticks_init(&t, s, NULL), WEFT_OK);
    while (wf_ticks_next(&t))
        for (size_t i = 0; i < t.n_now; i++)
            wf_ticks_finish(&t, t.now[i]);

    assert_false(wf_ticks_complete(&t));
    wf_ticks_release(&t);
    weft_schedule_free(s);
}

static void add_shuffled(struct wf_text *text, uint64_t seed, uint32_t rank, char kind)
{
    enum { MICROS = 6 };
    uint32_t order[MICROS];
    for (uint32_t i = 0; i < MICROS; i++) {
        uint32_t k = wf_random_below(seed, rank * 2 + (kind == 'F'), i, i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    for (uint32_t i = 0; i < MICROS; i++)
        wf_text_addf(text, "%u%c%u%s", rank, kind, order[i],
                     kind == 'B' && i + 1 == MICROS ? "\n" : ",");
}

/* Compares schedules with all forwards, then all backwards, in a different order on each rank.
 * They always run, but micros are not in order. */
static void check_shuffled(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        uint32_t ranks = 2 + (uint32_t)seed % 3;
        struct wf_text text = {0};
        struct weft_schedule *s = NULL;
        struct weft_partition p;

        for (uint32_t r = 0; r < ranks; r++) {
            add_shuffled(&text, seed, r, 'F');
            add_shuffled(&text, seed, r, 'B');
        }

        struct weft_ref_traffic_settings settings = {
            .mode = WEFT_REF_TRAFFIC_BLOCK_RESIDUAL_CACHE,
            .cache = {true, WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES, true, 1 + seed % 6},
            .layers_per_block = 1,
            .payload_bytes = 7,
            .trace = true};
        assert_int_equal(weft_schedule_parse(text.at, text.len, "shuffled", &s, NULL), WEFT_OK);
        assert_int_equal(weft_partition_init_even(&p, ranks, ranks, NULL), WEFT_OK);

        compare(s, &p, &settings);

        weft_partition_release(&p);
        weft_schedule_free(s);
        wf_text_release(&text);
    }
}

/* -- rejected input ------------------------------------------------------------------------ */

static void check_refused(void **state)
{
    struct weft_gen_params params = {.ranks = 4, .micros = 8, .chunks = 1};
    struct weft_ref_traffic_settings settings = {.mode = WEFT_REF_TRAFFIC_BLOCK_RESIDUAL_CACHE,
                                                 .cache = weft_cache_defaults(),
                                                 .layers_per_block = 1,
                                                 .payload_bytes = 16};
    const uint32_t counts[] = {2, 0, 3, 1};
    struct weft_schedule *s = NULL;
    struct weft_partition p, empty, few;
    struct weft_ref_traffic c;
    struct weft_error err;
    (void)state;
    assert_int_equal(weft_schedule_generate("greedy-1f1b", &params, &s, NULL), WEFT_OK);
    assert_int_equal(weft_partition_init_even(&p, 8, 4, NULL), WEFT_OK);
    assert_int_equal(weft_partition_init_even(&few, 8, 3, NULL), WEFT_OK);
    assert_int_equal(weft_partition_init_counts(&empty, counts, 4, NULL), WEFT_OK);
    assert_int_equal(weft_ref_traffic_compute(s, &empty, &settings, &c, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "stage 1"));
    assert_int_equal(weft_ref_traffic_compute(s, &few, &settings, &c, &err), WEFT_USAGE);
    /* 8 micros over 3 transitions in both directions. */
    settings.payload_bytes = SIZE_MAX / 48;
    assert_int_equal(weft_ref_traffic_compute(s, &p, &settings, &c, &err), WEFT_OK);
    weft_ref_traffic_release(&c);
    settings.payload_bytes++;
    assert_int_equal(weft_ref_traffic_compute(s, &p, &settings, &c, &err), WEFT_NUMERIC);
    weft_partition_release(&p);
    weft_partition_release(&few);
    weft_partition_release(&empty);
    weft_schedule_free(s);

    static const char dead[] = "0B0,0F0\n1F0,1B0\n";
    settings.payload_bytes = 1;
    settings.cache.enabled = true;
    settings.cache.policy = WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES;
    assert_int_equal(weft_schedule_parse(dead, sizeof dead - 1, "dead", &s, NULL), WEFT_OK);
    assert_int_equal(weft_partition_init_even(&p, 2, 2, NULL), WEFT_OK);
    assert_int_equal(weft_ref_traffic_compute(s, &p, &settings, &c, &err), WEFT_SCHEDULE);
    weft_partition_release(&p);
    weft_schedule_free(s);
}

/* -- speed --------------------------------------------------------------------------------- */

static double ns_per_event(const char *name, uint32_t micros, size_t inflight, bool reuse)
{
    struct weft_gen_params params = {.ranks = 8, .micros = micros, .chunks = 4};
    struct weft_ref_traffic_settings settings = {
        .mode = inflight == 0 ? WEFT_REF_TRAFFIC_ACTIVATION_TENSOR
                              : WEFT_REF_TRAFFIC_BLOCK_RESIDUAL_CACHE,
        .cache = {true, WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES, reuse, inflight},
        .layers_per_block = 2,
        .payload_bytes = 1024};
    struct weft_schedule *s = NULL;
    struct weft_partition p;
    double best = 1e30;

    assert_int_equal(weft_schedule_generate(name, &params, &s, NULL), WEFT_OK);
    assert_int_equal(weft_partition_init_even(&p, 64, 32, NULL), WEFT_OK);

    for (int i = 0; i < 9; i++) {
        struct weft_ref_traffic c;
        int64_t ns = wf_clock_cpu_ns();
        assert_int_equal(weft_ref_traffic_compute(s, &p, &settings, &c, NULL), WEFT_OK);
        double each = (double)(wf_clock_cpu_ns() - ns) / (double)c.n_events;
        best = each < best ? each : best;
        weft_ref_traffic_release(&c);
    }

    weft_partition_release(&p);
    weft_schedule_free(s);
    return best;
}

/* With 32 times the micros, the reference system takes 15 times longer per event.  Here
 * the limit is three times, because a larger plan exceeds the caches.  The printed
 * figures are informative. */
static void check_speed(void **state)
{
    const size_t inflight[] = {0, 1, 8, 32, 64, 256, 511, 512};
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(inflight); i++)
        print_message("8x4x512, %3zu in flight: %5.2f ns/event 1f1b, %5.2f gpipe\n",
                      inflight[i], ns_per_event("greedy-1f1b", 512, inflight[i], true),
                      ns_per_event("greedy-gpipe", 512, inflight[i], true));
    print_message("8x4x512, no reuse, M:    %5.2f ns/event 1f1b, %5.2f gpipe\n",
                  ns_per_event("greedy-1f1b", 512, 512, false),
                  ns_per_event("greedy-gpipe", 512, 512, false));
    double small = ns_per_event("greedy-gpipe", 64, 63, true);
    double large = ns_per_event("greedy-gpipe", 2048, 2047, true);
    print_message("gpipe, M - 1 in flight: %.2f ns/event at M = 64, %.2f at 2048\n", small,
                  large);
    assert_true(large < 3 * small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_plans), cmocka_unit_test(check_every_schedule),
        cmocka_unit_test(check_wide),  cmocka_unit_test(check_refused),
        cmocka_unit_test(check_order), cmocka_unit_test(check_shuffled),
        cmocka_unit_test(check_speed),
    };
    return cmocka_run_group_tests_name("cache plan", tests, NULL, NULL) != 0;
}
