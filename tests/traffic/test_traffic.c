/* Compares the table of blocks with recorded tables, closed forms, and a slow direct count. */
#include "base/error.h"
#include "base/random.h"
#include "sched/lines.h"
#include "weft/traffic.h"

static const enum weft_block_cache caches[] = {WEFT_BLOCK_CACHE_OFF, WEFT_BLOCK_CACHE_RECEIVED,
                                               WEFT_BLOCK_CACHE_FULL};

enum { MAX_ITEMS = 160 };

/* Returns a placement with stage s on rank s mod P. */
static struct weft_placement loop(uint32_t ranks, uint32_t chunks, uint32_t rank_of[MAX_ITEMS])
{
    assert_in_range(ranks * chunks, 1, MAX_ITEMS);
    for (uint32_t s = 0; s < ranks * chunks; s++)
        rank_of[s] = s % ranks;
    return (struct weft_placement){ranks, ranks * chunks, 1, 1, rank_of, NULL};
}

static struct weft_traffic *make(const struct weft_placement *p, const uint32_t *finished_by,
                                 uint32_t n, enum weft_block_cache cache)
{
    struct weft_traffic *t = NULL;
    struct weft_error err = {0};
    assert_int_equal(weft_traffic_new(p, finished_by, n, cache, &t, &err), WEFT_OK);
    assert_int_equal(weft_traffic_verify(t, &err), WEFT_OK);
    for (uint32_t pipe = 0; pipe < p->n_pipes; pipe++) {
        struct weft_traffic_count c = weft_traffic_count(t, pipe);
        assert_int_equal(c.wanted, c.sent + c.handed + c.hits_received + c.hits_made);
    }
    return t;
}

/* -- recorded tables ----------------------------------------------------------------------- */

struct recorded {
    uint32_t ranks, chunks, n_blocks, finished_by[MAX_ITEMS], rank_of[MAX_ITEMS];
    size_t want[3];
    struct weft_traffic *tables[3];
};

/* If layers are given, the blocks follow from them and an even partition. */
static void expect_same_blocks(const struct lines *l, const struct recorded *r)
{
    struct weft_partition p;
    uint32_t *finished_by = NULL, n = 0, layers = lines_count(l, 3);
    if (layers == 0)
        return;
    assert_int_equal(weft_partition_init_even(&p, layers, r->ranks * r->chunks, NULL), WEFT_OK);
    assert_int_equal(weft_residual_blocks(&p, lines_count(l, 4), &finished_by, &n, NULL),
                     WEFT_OK);
    assert_int_equal(n, r->n_blocks);
    assert_memory_equal(finished_by, r->finished_by, sizeof *finished_by * n);
    free(finished_by);
    weft_partition_release(&p);
}

static void read_case(const struct lines *l, struct recorded *r)
{
    double list[MAX_ITEMS];
    *r = (struct recorded){.ranks = lines_count(l, 1), .chunks = lines_count(l, 2)};
    r->n_blocks = (uint32_t)lines_list(l, 5, list, MAX_ITEMS);
    for (uint32_t b = 0; b < r->n_blocks; b++)
        r->finished_by[b] = (uint32_t)list[b];
    expect_same_blocks(l, r);
    struct weft_placement p = loop(r->ranks, r->chunks, r->rank_of);
    for (int k = 0; k < 3; k++) {
        r->tables[k] = make(&p, r->finished_by, r->n_blocks, caches[k]);
        size_t sent = weft_traffic_count(r->tables[k], 0).sent;
        if (sent != lines_count(l, 6 + k))
            fail_line(l, "%s: %zu sends", weft_block_cache_name(caches[k]), sent);
    }
}

static void expect_hop(const struct lines *l, const struct recorded *r)
{
    uint32_t stage = lines_count(l, 1);
    if (weft_traffic_sends(r->tables[0], 0, stage).len != lines_count(l, 2))
        fail_line(l, "stage %u sends another number of blocks without a cache", stage);
    for (int k = 1; k < 3; k++) {
        double want[MAX_ITEMS];
        struct weft_block_span got = weft_traffic_sends(r->tables[k], 0, stage);
        size_t n = l->fields[2 + k][0] == '-' ? 0 : lines_list(l, 2 + k, want, MAX_ITEMS);
        if (got.len != n)
            fail_line(l, "stage %u sends %zu blocks, not %zu", stage, got.len, n);
        for (size_t i = 0; i < n; i++)
            if (got.at[i] != (uint32_t)want[i])
                fail_line(l, "stage %u sends block %u", stage, got.at[i]);
    }
}

static void check_recorded(void **state)
{
    struct recorded r = {0};
    struct lines l;
    int cases = 0, hops = 0;
    (void)state;
    for (lines_open(&l, "traffic_blocks.txt"); lines_next(&l);) {
        if (strcmp(l.fields[0], "hop") == 0) {
            expect_hop(&l, &r);
            hops++;
            continue;
        }
        for (int k = 0; k < 3; k++)
            weft_traffic_free(r.tables[k]);
        read_case(&l, &r);
        cases++;
    }
    for (int k = 0; k < 3; k++)
        weft_traffic_free(r.tables[k]);
    assert_int_equal(cases, 14);
    assert_int_equal(hops, 235);
}

/* -- closed forms -------------------------------------------------------------------------- */

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* With one block per stage, the number of sends is C(C-1)/2 without a cache, P(P-1)/2 +
 * (V-1)P^2 by the paper's Eq. 8, and at minimum the sum of min(P-1, C-1-j), which is P(P-1)/2 +
 * (V-1)P(P-1). */
static void check_closed_forms(void **state)
{
    (void)state;
    for (size_t P = 1; P <= 16; P++)
        for (size_t V = 1; V <= 6; V++) {
            uint32_t rank_of[MAX_ITEMS], finished_by[MAX_ITEMS];
            size_t C = P * V, sent[3], minimum = 0;
            struct weft_placement p = loop((uint32_t)P, (uint32_t)V, rank_of);

            for (uint32_t s = 0; s < C; s++) {
                finished_by[s] = s;
                minimum += min_size(P - 1, C - 1 - s);
            }

            for (int k = 0; k < 3; k++) {
                struct weft_traffic *t = make(&p, finished_by, (uint32_t)C, caches[k]);
                struct weft_traffic_count c = weft_traffic_count(t, 0);
                assert_int_equal(c.wanted, C * (C - 1) / 2);
                assert_int_equal(c.hops, P == 1 ? 0 : C - 1);
                assert_int_equal(c.handed, P == 1 ? c.wanted : 0);
                sent[k] = c.sent;
                weft_traffic_free(t);
            }

            assert_int_equal(sent[0], P == 1 ? 0 : C * (C - 1) / 2);
            assert_int_equal(sent[1], P == 1 ? 0 : P * (P - 1) / 2 + (V - 1) * P * P);
            assert_int_equal(sent[2], minimum);
            assert_int_equal(sent[2], P * (P - 1) / 2 + (V - 1) * P * (P - 1));
        }
}

/* -- any placement ------------------------------------------------------------------------- */

/* Keeps the blocks of each rank as sets and derives the list of every hop from them. */
static void compare_with_sets(const struct weft_traffic *t, const uint32_t *finished_by,
                              uint32_t pipe)
{
    const struct weft_placement *p = weft_traffic_placement(t);
    const uint32_t *rank_of = p->rank_of + (size_t)pipe * p->n_stages;
    enum weft_block_cache cache = weft_traffic_cache(t);
    static bool has[16][MAX_ITEMS];

    memset(has, 0, sizeof has);
    for (uint32_t s = 0; s < p->n_stages; s++) {
        uint32_t rank = rank_of[s];
        struct weft_block_span got = weft_traffic_receives(t, pipe, s);
        size_t n = 0;
        for (uint32_t b = 0; b < weft_traffic_n_blocks(t) && s > 0; b++) {
            bool finished = finished_by[b] < s, local = rank_of[s - 1] == rank;
            if (finished && !local && !has[rank][b]) {
                assert_true(n < got.len && got.at[n] == b);
                n++;
            }
            if (finished && cache != WEFT_BLOCK_CACHE_OFF)
                has[rank][b] = true;
        }
        assert_int_equal(n, got.len);
        for (uint32_t b = 0; b < weft_traffic_n_blocks(t); b++)
            if (finished_by[b] == s && cache == WEFT_BLOCK_CACHE_FULL)
                has[rank][b] = true;
    }
}

/* With the full cache each rank receives a block once, so it has one source per rank. */
static void expect_one_source(const struct weft_traffic *t, uint32_t pipe)
{
    const struct weft_placement *p = weft_traffic_placement(t);
    for (uint32_t s = 0; s < p->n_stages; s++)
        for (uint32_t b = 0; b < weft_traffic_n_blocks(t); b++) {
            uint32_t rank = p->rank_of[(size_t)pipe * p->n_stages + s];
            uint32_t from = weft_traffic_source(t, pipe, s, b);
            if (from != WEFT_NO_STAGE)
                assert_int_equal(from, weft_traffic_rank_source(t, pipe, rank, b));
        }
}

static uint32_t roll(uint64_t seed, uint64_t *position, uint32_t n)
{
    return wf_random_below(seed, 3, (*position)++, n);
}

static void check_any_placement(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        uint64_t at = 0;
        uint32_t ranks = 1 + roll(seed, &at, 6), stages = 1 + roll(seed, &at, 20);
        uint32_t pipes = 1 + roll(seed, &at, 3), blocks = roll(seed, &at, 12);
        uint32_t rank_of[3 * 20], finished_by[12];
        uint16_t pipe_of[8];

        for (uint32_t i = 0; i < pipes * stages; i++)
            rank_of[i] = roll(seed, &at, ranks);
        for (uint32_t m = 0; m < 8; m++)
            pipe_of[m] = (uint16_t)roll(seed, &at, pipes);
        for (uint32_t b = 0; b < blocks; b++)
            finished_by[b] = roll(seed, &at, stages);

        for (uint32_t b = 1; b < blocks; b++) /* ascending */
            for (uint32_t k = b; k > 0 && finished_by[k] < finished_by[k - 1]; k--) {
                uint32_t swap = finished_by[k];
                finished_by[k] = finished_by[k - 1];
                finished_by[k - 1] = swap;
            }

        struct weft_placement p = {ranks, stages, 8, pipes, rank_of, pipe_of};
        size_t sent[3] = {0, 0, 0};
        for (int k = 0; k < 3; k++) {
            struct weft_traffic *t = make(&p, finished_by, blocks, caches[k]);
            for (uint32_t pipe = 0; pipe < pipes; pipe++) {
                compare_with_sets(t, finished_by, pipe);
                sent[k] += weft_traffic_count(t, pipe).sent;
                if (caches[k] == WEFT_BLOCK_CACHE_FULL)
                    expect_one_source(t, pipe);
            }

            weft_traffic_free(t);
        }

        assert_true(sent[2] <= sent[1] && sent[1] <= sent[0]);
    }
}

/* -- sums ---------------------------------------------------------------------------------- */

/* Adds up the traffic of all forwards and backwards of the schedule between ranks. */
static void sum_by_actions(const struct weft_traffic *t, const struct weft_schedule *s,
                           struct weft_payload payload, struct weft_traffic_link *links,
                           uint32_t ranks)
{
    const struct weft_placement *p = weft_schedule_placement(s);

    for (uint32_t r = 0; r < ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(s, r);
        for (size_t i = 0; i < row.len; i++) {
            struct weft_action a = row.at[i];
            bool forward = a.kind == WEFT_ACT_F;
            uint32_t pipe = weft_placement_pipe(p, a.micro);
            int64_t peer = forward ? (int64_t)a.stage + 1 : (int64_t)a.stage - 1;
            if (a.kind == WEFT_ACT_W || peer < 0 || peer >= p->n_stages)
                continue;
            uint32_t to = weft_placement_rank(p, (uint32_t)peer, a.micro);
            struct weft_traffic_link *l = &links[r * ranks + to];
            if (to == r)
                continue;
            size_t n = weft_traffic_sends(t, pipe, forward ? a.stage : (uint32_t)peer).len;
            l->activations += forward;
            l->gradients += !forward;
            l->blocks += forward ? n : 0;
            l->block_gradients += forward ? 0 : n;
            l->forward_bytes += forward ? (1 + n) * payload.bytes : 0;
            l->backward_bytes += forward ? 0 : payload.bytes + n * payload.gradient_bytes;
        }
    }
}

static void expect_step(const struct weft_traffic *t, const struct weft_schedule *s)
{
    enum { RANKS = 4 };
    struct weft_payload payload = {100, 8 * 25};
    struct weft_traffic_link want[RANKS * RANKS] = {{0}};
    struct weft_traffic_step step;
    size_t next = 0, forward = 0, backward = 0;

    sum_by_actions(t, s, payload, want, RANKS);
    assert_int_equal(weft_traffic_step_init(&step, t, payload, NULL), WEFT_OK);
    for (uint32_t i = 0; i < RANKS * RANKS; i++) {
        want[i].from = i / RANKS;
        want[i].to = i % RANKS;
        if (want[i].activations + want[i].gradients == 0)
            continue;
        assert_true(next < step.n_links);
        assert_memory_equal(&step.links[next], &want[i], sizeof want[i]);
        forward += want[i].forward_bytes;
        backward += want[i].backward_bytes;
        next++;
    }
    assert_int_equal(next, step.n_links);
    assert_int_equal(step.forward_bytes, forward);
    assert_int_equal(step.backward_bytes, backward);
    assert_int_equal(step.blocks, step.block_gradients);
    assert_int_equal(step.activations, step.gradients);
    weft_traffic_step_release(&step);
}

/* Follows each copy (stage, micro, block) from its forward (or receive) to its backward. */
static void expect_peak(const struct weft_traffic *t, const struct weft_schedule *s,
                        const uint32_t *finished_by, uint32_t n_blocks)
{
    enum { MICROS = 8, STAGES = 16, BLOCKS = 16 };
    static bool held[STAGES][MICROS][BLOCKS];
    const struct weft_placement *p = weft_schedule_placement(s);
    size_t peaks[16];

    assert_int_equal(weft_traffic_peak_blocks(t, s, peaks, NULL), WEFT_OK);
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(s, r);
        size_t now = 0, peak = 0;
        memset(held, 0, sizeof held);
        for (size_t i = 0; i < row.len; i++) {
            struct weft_action a = row.at[i];
            uint32_t pipe = weft_placement_pipe(p, a.micro);
            struct weft_block_span in = weft_traffic_receives(t, pipe, a.stage);
            bool lowered = weft_schedule_is_lowered(s);
            bool arrival = a.kind == (lowered ? WEFT_ACT_RECV_F : WEFT_ACT_F);
            bool over = a.kind == WEFT_ACT_B || a.kind == WEFT_ACT_I;
            assert_true(a.stage < STAGES && a.micro < MICROS && n_blocks <= BLOCKS);
            for (uint32_t b = 0; b < n_blocks; b++) {
                bool *copy = &held[a.stage][a.micro][b];
                bool comes = a.kind == WEFT_ACT_F && finished_by[b] == a.stage;
                for (size_t k = 0; k < in.len; k++)
                    comes |= arrival && in.at[k] == b;
                if (comes) {
                    assert_false(*copy);
                    *copy = true;
                    now++;
                } else if (over && *copy) {
                    *copy = false;
                    now--;
                }
            }
            peak = now > peak ? now : peak;
        }
        assert_int_equal(now, 0);
        assert_int_equal(peak, peaks[r]);
    }
}

static void check_schedules(void **state)
{
    static const char *const names[] = {"1f1b",        "interleaved-1f1b", "gpipe",  "zb-h1",
                                        "zb-v",        "v-half",           "wave",   "chimera",
                                        "greedy-1f1b", "looped-bfs",       "bitpipe"};
    size_t checked = 0;
    (void)state;

    for (size_t i = 0; i < WEFT_LEN(names); i++) {
        const struct weft_generator *g = weft_generator_find(names[i]);
        if (g == NULL)
            continue;
        struct weft_gen_params params = {.ranks = 4, .micros = 8, .chunks = g->default_chunks};
        struct weft_schedule *s = NULL, *lowered = NULL;
        struct weft_partition p;
        uint32_t *finished_by = NULL, n = 0;
        if (weft_schedule_generate(names[i], &params, &s, NULL) != WEFT_OK)
            continue;
        const struct weft_placement *place = weft_schedule_placement(s);
        assert_int_equal(
            weft_partition_init_even(&p, 2 * place->n_stages - 1, place->n_stages, NULL),
            WEFT_OK);
        assert_int_equal(weft_residual_blocks(&p, 3, &finished_by, &n, NULL), WEFT_OK);
        assert_int_equal(weft_schedule_lower(s, WEFT_LOWERING_WEFT, &lowered, NULL), WEFT_OK);
        for (int k = 0; k < 3; k++) {
            struct weft_traffic *t = make(place, finished_by, n, caches[k]);
            expect_step(t, s);
            expect_peak(t, s, finished_by, n);
            expect_peak(t, lowered, finished_by, n);
            weft_traffic_free(t);
        }
        checked++;
        free(finished_by);
        weft_partition_release(&p);
        weft_schedule_free(lowered);
        weft_schedule_free(s);
    }
    assert_in_range(checked, 9, WEFT_LEN(names));
}

/* With 1F1B, one block per stage and the full cache, rank r stores blocks 0 .. r of P
 * - r micros. */
static void check_1f1b_peak(void **state)
{
    struct weft_gen_params params = {.ranks = 8, .micros = 32, .chunks = 1};
    struct weft_schedule *s = NULL;
    uint32_t finished_by[8];
    size_t peaks[8];
    (void)state;
    assert_int_equal(weft_schedule_generate("1f1b", &params, &s, NULL), WEFT_OK);
    for (uint32_t i = 0; i < 8; i++)
        finished_by[i] = i;
    struct weft_traffic *t =
        make(weft_schedule_placement(s), finished_by, 8, WEFT_BLOCK_CACHE_FULL);
    assert_int_equal(weft_traffic_peak_blocks(t, s, peaks, NULL), WEFT_OK);
    for (size_t r = 0; r < 8; r++)
        assert_int_equal(peaks[r], (r + 1) * (8 - r));
    weft_traffic_free(t);
    weft_schedule_free(s);
}

/* -- blocks from layers -------------------------------------------------------------------- */

static void check_blocks(void **state)
{
    const uint32_t counts[] = {0, 5, 0, 2, 0};
    const uint32_t want2[] = {0, 1, 1, 3, 4}, want9[] = {0, 4};
    struct weft_partition p;
    struct weft_error err;
    uint32_t *got = NULL, n = 0;
    (void)state;

    assert_int_equal(weft_partition_init_counts(&p, counts, 5, NULL), WEFT_OK);
    assert_int_equal(weft_residual_blocks(&p, 2, &got, &n, NULL), WEFT_OK);
    assert_int_equal(n, WEFT_LEN(want2));
    assert_memory_equal(got, want2, sizeof want2);
    free(got);
    assert_int_equal(weft_residual_blocks(&p, 9, &got, &n, NULL), WEFT_OK);
    assert_int_equal(n, WEFT_LEN(want9));
    assert_memory_equal(got, want9, sizeof want9);
    free(got);
    assert_int_equal(weft_residual_blocks(&p, UINT32_MAX, &got, &n, NULL), WEFT_OK);
    assert_int_equal(n, 2);
    free(got);
    assert_int_equal(weft_residual_blocks(&p, 0, &got, &n, &err), WEFT_USAGE);
    weft_partition_release(&p);
}

/* -- errors -------------------------------------------------------------------------------- */

static void check_errors(void **state)
{
    uint32_t rank_of[] = {0, 1, 0, 1, 1, 0, 1, 0}, other[] = {0, 1, 1, 0};
    const uint16_t astray[] = {0, 1, 2};
    struct weft_placement p = {2, 4, 3, 1, rank_of, NULL};
    const uint32_t good[] = {0, 1, 3}, falling[] = {1, 0}, beyond[] = {0, 4};
    struct weft_traffic *t = NULL;
    struct weft_traffic_step step;
    struct weft_error err;
    size_t peaks[2];
    (void)state;

    assert_int_equal(weft_traffic_new(&p, falling, 2, WEFT_BLOCK_CACHE_FULL, &t, &err),
                     WEFT_USAGE);
    assert_non_null(strstr(err.msg, "block 1"));
    assert_int_equal(weft_traffic_new(&p, beyond, 2, WEFT_BLOCK_CACHE_FULL, &t, &err),
                     WEFT_USAGE);
    p.n_pipes = 2;
    assert_int_equal(weft_traffic_new(&p, good, 0, WEFT_BLOCK_CACHE_FULL, &t, &err),
                     WEFT_USAGE);
    p.pipe_of = astray;
    p.n_stages = 2;
    assert_int_equal(weft_traffic_new(&p, good, 2, WEFT_BLOCK_CACHE_FULL, &t, &err),
                     WEFT_USAGE);
    p = (struct weft_placement){1, 4, 3, 1, rank_of, NULL};
    assert_int_equal(weft_traffic_new(&p, good, 3, WEFT_BLOCK_CACHE_FULL, &t, &err),
                     WEFT_USAGE);
    assert_non_null(strstr(err.msg, "rank 1"));
    p.n_ranks = 2;
    assert_int_equal(weft_traffic_new(&p, good, 3, WEFT_BLOCK_CACHE_FULL, &t, &err), WEFT_OK);
    /* 3 micros: 3 activations and 2 blocks each way. */
    assert_int_equal(weft_traffic_count(t, 0).sent, 2);

    struct weft_payload payload = {SIZE_MAX / 15, SIZE_MAX / 15};
    assert_int_equal(weft_traffic_step_init(&step, t, payload, &err), WEFT_OK);
    weft_traffic_step_release(&step);
    payload.bytes++;
    assert_int_equal(weft_traffic_step_init(&step, t, payload, &err), WEFT_NUMERIC);
    payload = (struct weft_payload){1, SIZE_MAX / 2};
    assert_int_equal(weft_traffic_step_init(&step, t, payload, &err), WEFT_NUMERIC);

    struct weft_schedule *s = NULL;
    struct weft_gen_params params = {.ranks = 2, .micros = 4, .chunks = 2};
    assert_int_equal(weft_schedule_generate("interleaved-1f1b", &params, &s, NULL), WEFT_OK);
    assert_int_equal(weft_traffic_peak_blocks(t, s, peaks, &err), WEFT_OK);
    weft_traffic_free(t);
    p.rank_of = other;
    assert_int_equal(weft_traffic_new(&p, good, 3, WEFT_BLOCK_CACHE_FULL, &t, &err), WEFT_OK);
    assert_int_equal(weft_traffic_peak_blocks(t, s, peaks, &err), WEFT_USAGE);
    weft_traffic_free(t);
    weft_traffic_free(NULL);
    weft_schedule_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_recorded),      cmocka_unit_test(check_closed_forms),
        cmocka_unit_test(check_any_placement), cmocka_unit_test(check_schedules),
        cmocka_unit_test(check_1f1b_peak),     cmocka_unit_test(check_blocks),
        cmocka_unit_test(check_errors),
    };
    return cmocka_run_group_tests_name("traffic", tests, NULL, NULL) != 0;
}
