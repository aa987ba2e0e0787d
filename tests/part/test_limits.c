/* Compares partitions under memory limits, with several stages per rank, with an enumeration of
 * all partitions. */
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "weft/part.h"

enum { MAX_STAGES = 8, MAX_LAYERS = 16, MAX_RANKS = 8 };

/* -- every partition ----------------------------------------------------------------------- */

struct all {
    const struct weft_items *items;
    const struct weft_rank_limits *rank_limits;
    uint32_t n_stages;
    double bottleneck, squares; /* of the best partition that fits */
    uint32_t n_empty;           /* minimum number of empty stages among these */
    size_t min_bytes;           /* minimum over partitions of the maximum bytes per rank */
};

static double stage_time(const struct weft_items *items, const struct weft_stage_range *stage)
{
    double t = 0;
    for (size_t k = 0; k < items->n; k++)
        if ((k == 0 && stage->embedding) || (k == items->n - 1 && stage->head) ||
            (k > stage->first_layer && k <= stage->end_layer && k < items->n - 1))
            t += items->at[k].f + items->at[k].i + items->at[k].w;
    return t;
}

/* Computes bytes directly: for every rank, the items of its stages. */
static size_t rank_bytes(const struct weft_items *items,
                         const struct weft_rank_limits *rank_limits,
                         const struct weft_partition *p, uint32_t rank)
{
    const struct weft_placement *place = rank_limits->placement;
    size_t sum = rank_limits->fixed_bytes[rank];
    bool first = false, last = false;

    for (uint32_t s = 0; s < p->n_stages; s++) {
        size_t micros = 0, state = 0, act = 0;
        bool held = false;
        for (uint32_t pipe = 0; pipe < place->n_pipes; pipe++)
            if (place->rank_of[pipe * p->n_stages + s] == rank) {
                held = true;
                micros += rank_limits->in_flight[pipe * p->n_stages + s];
            }
        for (size_t k = p->at[s].first_layer + (s > 0);
             k < (size_t)p->at[s].end_layer + 1 + p->at[s].head; k++) {
            state += items->at[k].state_bytes;
            act += items->at[k].act_bytes;
        }
        sum += held ? state + micros * act : 0;
        first |= held && s == 0;
        last |= held && s == p->n_stages - 1;
    }
    return sum - (first && last ? items->shared_bytes : 0);
}

static uint32_t count_empty(const struct weft_partition *p)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < p->n_stages; s++)
        n += p->at[s].first_layer == p->at[s].end_layer;
    return n;
}

static bool is_better(const struct all *all, double slowest, double squares, uint32_t n_empty)
{
    if (slowest != all->bottleneck)
        return slowest < all->bottleneck;
    return squares != all->squares ? squares < all->squares : n_empty < all->n_empty;
}

static void visit(struct all *all, const struct weft_partition *p)
{
    const struct weft_rank_limits *rank_limits = all->rank_limits;
    bool fits = true;
    size_t largest = 0;

    for (uint32_t r = 0; r < rank_limits->placement->n_ranks; r++) {
        size_t bytes = rank_bytes(all->items, rank_limits, p, r);
        fits = fits && bytes <= rank_limits->limit_bytes[rank_limits->n_limits == 1 ? 0 : r];
        largest = bytes > largest ? bytes : largest;
    }
    all->min_bytes = largest < all->min_bytes ? largest : all->min_bytes;

    double slowest = 0, squares = 0;
    for (uint32_t s = 0; s < p->n_stages; s++) {
        double t = stage_time(all->items, &p->at[s]);
        slowest = t > slowest ? t : slowest;
        squares += t * t;
    }

    if (fits && is_better(all, slowest, squares, count_empty(p))) {
        all->bottleneck = slowest;
        all->squares = squares;
        all->n_empty = count_empty(p);
    }
}

static void enumerate(struct all *all, struct weft_partition *p, uint32_t s)
{
    uint32_t n_layers = weft_items_n_layers(all->items);
    uint32_t first = s == 0 ? 0 : p->at[s - 1].end_layer;
    if (s == all->n_stages) {
        if (first == n_layers)
            visit(all, p);
        return;
    }
    bool may_be_empty = all->n_stages > 1 && (s == 0 || s == all->n_stages - 1);
    for (uint32_t end = first + !may_be_empty; end <= n_layers; end++) {
        p->at[s] = (struct weft_stage_range){first, end, s == 0, s == all->n_stages - 1, 0};
        enumerate(all, p, s + 1);
    }
}

/* -- random cases -------------------------------------------------------------------------- */

struct random_case {
    struct weft_item at[MAX_LAYERS + 2];
    uint32_t rank_of[2 * MAX_STAGES], in_flight[2 * MAX_STAGES];
    size_t limits[MAX_RANKS], fixed[MAX_RANKS];
    struct weft_items items;
    struct weft_placement placement;
    struct weft_rank_limits rank_limits;
};

static uint32_t draw(uint32_t seed, uint32_t *at, uint32_t n)
{
    return wf_random_below(11, seed, (*at)++, n);
}

static void draw_case(uint32_t seed, struct random_case *c)
{
    uint32_t at = 0, n_stages = 2 + draw(seed, &at, 4), n_ranks = 1 + draw(seed, &at, n_stages);
    uint32_t n_layers = (n_stages > 2 ? n_stages - 2 : 1) + draw(seed, &at, 8),
             alike = draw(seed, &at, 2);
    uint32_t n_pipes = 1 + (draw(seed, &at, 4) == 0), style = draw(seed, &at, 3);

    for (uint32_t k = 0; k < n_layers + 2; k++)
        c->at[k] = alike && k > 1 && k <= n_layers
                       ? c->at[1]
                       : (struct weft_item){.f = 1 + draw(seed, &at, 9),
                                            .i = draw(seed, &at, 9),
                                            .state_bytes = 20 + draw(seed, &at, 60),
                                            .act_bytes = draw(seed, &at, 10)};

    for (uint32_t k = 0; k < n_layers + 2; k += n_layers + 1)
        if (draw(seed, &at, 2))
            c->at[k].f += draw(seed, &at, 50);
    if (draw(seed, &at, 4) == 0) /* free layers: many ties */
        for (uint32_t k = 1; k <= n_layers; k++)
            c->at[k].f = c->at[k].i = 0;
    c->items = (struct weft_items){
        .n = n_layers + 2, .at = c->at, .shared_bytes = draw(seed, &at, 20)};

    size_t total = 0;
    for (uint32_t k = 0; k < n_layers + 2; k++)
        total += c->at[k].state_bytes + 3 * c->at[k].act_bytes;
    for (uint32_t k = 0; k < n_pipes * n_stages; k++) {
        uint32_t s = k % n_stages, lap = s / n_ranks, loop = s % n_ranks;
        c->rank_of[k] = style == 0   ? loop
                        : style == 1 ? (lap % 2 ? n_ranks - 1 - loop : loop)
                                     : draw(seed, &at, n_ranks);
        if (k >= n_stages) /* the reverse pipe */
            c->rank_of[k] = n_ranks - 1 - c->rank_of[s];
        c->in_flight[k] = 1 + draw(seed, &at, 4);
    }

    for (uint32_t r = 0; r < n_ranks; r++)
        c->limits[r] = total * n_pipes / n_ranks * (90 + draw(seed, &at, 60)) / 100;
    c->placement = (struct weft_placement){n_ranks, n_stages, 2, n_pipes, c->rank_of, NULL};
    c->rank_limits = (struct weft_rank_limits){&c->placement, c->in_flight, c->limits,
                                               draw(seed, &at, 2) ? n_ranks : 1, c->fixed};
    for (uint32_t r = 0; r < n_ranks; r++) {
        c->fixed[r] = draw(seed, &at, 3) == 0 ? draw(seed, &at, 100) : 0;
        c->limits[r] += c->fixed[r] * draw(seed, &at, 2);
    }
}

/* The result is within the limits and optimal; problems of this size must be proven. */
static void compare_found(const struct random_case *c, const struct all *all,
                          const struct weft_partition *p)
{
    double slowest = 0, squares = 0;
    size_t bytes[MAX_RANKS];
    assert_int_equal(weft_partition_verify(p, weft_items_n_layers(&c->items), NULL), WEFT_OK);
    assert_int_equal(weft_partition_rank_bytes(p, &c->items, &c->rank_limits, bytes, NULL),
                     WEFT_OK);
    for (uint32_t r = 0; r < c->placement.n_ranks; r++) {
        assert_int_equal(bytes[r], rank_bytes(&c->items, &c->rank_limits, p, r));
        assert_true(bytes[r] <= c->limits[c->rank_limits.n_limits == 1 ? 0 : r]);
    }
    for (uint32_t s = 0; s < p->n_stages; s++) {
        double t = stage_time(&c->items, &p->at[s]);
        slowest = t > slowest ? t : slowest;
        squares += t * t;
    }
    assert_true(slowest == all->bottleneck);
    assert_true(squares == all->squares);
    assert_int_equal(count_empty(p), all->n_empty);
}

static void check_random(void **state)
{
    (void)state;
    int n_found = 0, n_none = 0, n_empty[3] = {0};

    for (uint32_t seed = 0; seed < 3000; seed++) {
        struct random_case c;
        struct weft_stage_range at[MAX_STAGES];
        struct weft_partition p, each = {0, at};
        struct weft_error err;
        bool proven = false;
        draw_case(seed, &c);
        struct all all = {&c.items, &c.rank_limits, c.placement.n_stages, DBL_MAX, DBL_MAX,
                          0,        SIZE_MAX};
        each.n_stages = all.n_stages;
        enumerate(&all, &each, 0);
        enum weft_status st = weft_partition_init_balanced(&p, &c.items, all.n_stages,
                                                           &c.rank_limits, &proven, &err);
        if (all.bottleneck < DBL_MAX) {
            n_found++;
            assert_int_equal(st, WEFT_OK);
            assert_true(proven);
            compare_found(&c, &all, &p);
            n_empty[all.n_empty]++;
            weft_partition_release(&p);
            continue;
        }
        n_none++;
        assert_int_equal(st, WEFT_USAGE);
        const char *number = strstr(err.msg, "the minimum is ");
        assert_non_null(number);
        size_t min_bytes;
        assert_int_equal(sscanf(number + strlen("the minimum is "), "%zu", &min_bytes), 1);
        if (c.rank_limits.n_limits == 1)
            assert_int_equal(min_bytes, all.min_bytes);
    }
    assert_true(n_found > 1000 && n_none > 500);
    assert_true(n_empty[0] > 300 && n_empty[1] > 300 && n_empty[2] > 100);
}

/* -- chosen cases -------------------------------------------------------------------------- */

/* Two ranks have stages 0, 3 and 1, 2 (a V).  Layers are equal, and the head takes the time of
 * two layers: by time alone 3, 3, 3, 1 layers are best.  With memory for 5 layers on rank 1,
 * stages 0 and 3 also have 5 layers: the bottleneck is 4, and the sum of squares is at least
 * 3*3 + 2*2 + (3*3 + 4*4 or 4*4 + 3*3) = 38. */
static void check_v(void **state)
{
    (void)state;
    const uint32_t rank_of[] = {0, 1, 1, 0};
    const struct weft_placement v = {2, 4, 1, 1, rank_of, NULL};
    const size_t limits[] = {1000, 50};
    const struct weft_rank_limits rank_limits = {&v, NULL, limits, 2, NULL};
    struct weft_items items;
    struct weft_partition p;
    bool proven = false;

    assert_int_equal(
        weft_items_init_uniform(&items, 10,
                                (struct weft_item){.f = 1, .state_bytes = 9, .act_bytes = 1},
                                (struct weft_item){.f = 0}, (struct weft_item){.f = 2}, NULL),
        WEFT_OK);
    assert_int_equal(weft_partition_init_balanced(&p, &items, 4, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(p.at[2].end_layer, 9);
    weft_partition_release(&p);
    assert_int_equal(weft_partition_init_balanced(&p, &items, 4, &rank_limits, &proven, NULL),
                     WEFT_OK);
    assert_true(proven);
    assert_int_equal(p.at[2].end_layer - p.at[1].first_layer, 5);

    double slowest = 0, squares = 0;
    for (uint32_t s = 0; s < 4; s++) {
        double t = stage_time(&items, &p.at[s]);
        slowest = t > slowest ? t : slowest;
        squares += t * t;
    }
    assert_true(slowest == 4 && squares == 38);
    weft_partition_release(&p);
    weft_items_release(&items);
}

/* A tied weight counts once on a rank with embedding and head. */
static void check_shared(void **state)
{
    (void)state;
    struct weft_item at[4] = {{.state_bytes = 100}, {.f = 1}, {.f = 1}, {.state_bytes = 70}};
    const struct weft_items items = {.n = 4, .at = at, .shared_bytes = 60};
    const uint32_t rank_of[] = {0, 0};
    const struct weft_placement one = {1, 2, 1, 1, rank_of, NULL};
    const struct weft_rank_limits together = {.placement = &one};
    struct weft_partition p;
    size_t bytes[2];
    assert_int_equal(weft_partition_init_even(&p, 2, 2, NULL), WEFT_OK);
    assert_int_equal(weft_partition_rank_bytes(&p, &items, NULL, bytes, NULL), WEFT_OK);
    assert_int_equal(bytes[0], 100);
    assert_int_equal(bytes[1], 70);
    assert_int_equal(weft_partition_rank_bytes(&p, &items, &together, bytes, NULL), WEFT_OK);
    assert_int_equal(bytes[0], 110);
    weft_partition_release(&p);
    assert_int_equal(weft_partition_init_even(&p, 2, 1, NULL), WEFT_OK);
    assert_int_equal(weft_partition_rank_bytes(&p, &items, NULL, bytes, NULL), WEFT_OK);
    assert_int_equal(bytes[0], 110);
    weft_partition_release(&p);
}

/* A large case terminates and is within its limits, proven or not. */
static void check_large(void **state)
{
    (void)state;
    enum { LAYERS = 96, STAGES = 32, RANKS = 16 };
    struct weft_item at[LAYERS + 2];
    uint32_t rank_of[STAGES], in_flight[STAGES], n = 0;
    size_t limit = 0, bytes[RANKS];

    for (uint32_t k = 0; k < LAYERS + 2; k++) {
        at[k] = (struct weft_item){
            .f = 5 + draw(1, &n, 5), .state_bytes = 900 + draw(1, &n, 200), .act_bytes = 10};
        limit += at[k].state_bytes;
    }

    for (uint32_t s = 0; s < STAGES; s++) {
        rank_of[s] = s < RANKS ? s : STAGES - 1 - s;
        in_flight[s] = 1 + s % 3;
    }
    limit = limit * 13 / (10 * RANKS);
    const struct weft_items items = {.n = LAYERS + 2, .at = at};
    const struct weft_placement v = {RANKS, STAGES, 1, 1, rank_of, NULL};
    const struct weft_rank_limits rank_limits = {&v, in_flight, &limit, 1, NULL};
    struct weft_partition p;
    struct weft_error err;
    assert_int_equal(weft_partition_init_balanced(&p, &items, STAGES, &rank_limits, NULL, &err),
                     WEFT_OK);
    assert_int_equal(weft_partition_rank_bytes(&p, &items, &rank_limits, bytes, NULL), WEFT_OK);

    for (uint32_t r = 0; r < RANKS; r++)
        assert_true(bytes[r] <= limit);
    weft_partition_release(&p);
}

/* The error names the smallest limit that is possible; for equal layers, counting finds it. */
static void check_min_limit(void **state)
{
    (void)state;
    uint32_t rank_of[32];

    for (uint32_t s = 0; s < 32; s++)
        rank_of[s] = s < 16 ? s : 31 - s;
    const struct weft_placement v = {16, 32, 1, 1, rank_of, NULL};
    size_t limit = 6 * 100; /* 6 layers per rank, but one rank also has embedding and head */
    const struct weft_rank_limits rank_limits = {&v, NULL, &limit, 1, NULL};
    const struct weft_item layer = {.f = 1, .i = 1, .w = 1, .state_bytes = 90, .act_bytes = 10};
    struct weft_items items;
    struct weft_partition p;
    struct weft_error err;
    bool proven = false;
    assert_int_equal(weft_items_init_uniform(&items, 96, layer, layer, layer, NULL), WEFT_OK);
    assert_int_equal(weft_partition_init_balanced(&p, &items, 32, &rank_limits, NULL, &err),
                     WEFT_USAGE);
    assert_non_null(strstr(err.msg, "600 bytes per rank: the minimum is 700 bytes"));
    limit = 700;
    assert_int_equal(weft_partition_init_balanced(&p, &items, 32, &rank_limits, &proven, &err),
                     WEFT_OK);
    assert_true(proven);
    weft_partition_release(&p);
    weft_items_release(&items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_random), cmocka_unit_test(check_v),
        cmocka_unit_test(check_shared), cmocka_unit_test(check_min_limit),
        cmocka_unit_test(check_large),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL) != 0;
}
