/* Compares the balanced partition with one stage per rank with a plain dynamic program. */
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

enum { MAX_LAYERS = 24 };

/* -- reference: all ends of all stages ----------------------------------------------------- */

struct reference {
    const struct weft_items *items;
    uint32_t n_layers, n_stages;
    const struct weft_rank_limits *rank_limits; /* limits and in_flight; stage s on rank s */
};

static double item_time(const struct weft_item *a)
{
    return a->f + a->i + a->w;
}

static double stage_time(const struct reference *ref, uint32_t s, uint32_t first, uint32_t end)
{
    double t = s == 0 ? item_time(&ref->items->at[0]) : 0;
    for (uint32_t k = first; k < end; k++)
        t += item_time(&ref->items->at[k + 1]);
    return s == ref->n_stages - 1 ? t + item_time(&ref->items->at[ref->n_layers + 1]) : t;
}

static size_t stage_bytes(const struct reference *ref, uint32_t s, uint32_t first, uint32_t end)
{
    const struct weft_item *at = ref->items->at;
    size_t state = 0, act = 0;
    for (uint32_t k = first + (s > 0); k < end + 1 + (s == ref->n_stages - 1); k++) {
        state += at[k].state_bytes;
        act += at[k].act_bytes;
    }
    if (ref->n_stages == 1)
        state -= ref->items->shared_bytes;
    return state +
           act * (ref->rank_limits->in_flight == NULL ? 1 : ref->rank_limits->in_flight[s]);
}

static bool fits(const struct reference *ref, uint32_t s, uint32_t first, uint32_t end)
{
    if (ref->rank_limits == NULL || ref->rank_limits->n_limits == 0)
        return true;
    size_t r = ref->rank_limits->n_limits == 1 ? 0 : s;
    return stage_bytes(ref, s, first, end) <= ref->rank_limits->limit_bytes[r];
}

static bool may_be_empty(const struct reference *ref, uint32_t s)
{
    return ref->n_stages > 1 && (s == 0 || s == ref->n_stages - 1);
}

/* Returns the minimum bottleneck (squares = false) or the minimum sum of squares with no stage
 * over `bottleneck`, or DBL_MAX if there is no partition.  Of equal ends it writes those with
 * the fewest empty stages, then with the most layers on the first stages. */
static double reference_solve(const struct reference *ref, bool squares, double bottleneck,
                              uint32_t *ends)
{
    double best[MAX_LAYERS + 3][MAX_LAYERS + 1];
    uint32_t choice[MAX_LAYERS + 2][MAX_LAYERS + 1] = {{0}}, n = ref->n_layers;
    uint32_t n_empty[MAX_LAYERS + 3][MAX_LAYERS + 1] = {{0}};

    for (uint32_t first = 0; first <= n; first++)
        best[ref->n_stages][first] = first == n ? 0 : DBL_MAX;
    for (uint32_t s = ref->n_stages; s-- > 0;)
        for (uint32_t first = 0; first <= n; first++) {
            best[s][first] = DBL_MAX;
            for (uint32_t end = first + !may_be_empty(ref, s); end <= n; end++) {
                double t = stage_time(ref, s, first, end), rest = best[s + 1][end];
                if (rest == DBL_MAX || t > bottleneck || !fits(ref, s, first, end))
                    continue;
                double cost = squares ? t * t + rest : t > rest ? t : rest;
                uint32_t empty = n_empty[s + 1][end] + (end == first);
                if (cost < best[s][first] ||
                    (cost == best[s][first] && empty <= n_empty[s][first])) {
                    best[s][first] = cost;
                    n_empty[s][first] = empty;
                    choice[s][first] = end;
                }
            }
        }

    for (uint32_t s = 0, first = 0; s < ref->n_stages && best[0][0] < DBL_MAX; s++)
        first = ends[s] = choice[s][first];
    return best[0][0];
}

/* Counts of the outcomes of random cases. */
struct counts {
    int found, none, first_empty, last_empty, both_empty;
};

static void compare(const struct reference *ref, struct counts *counts)
{
    uint32_t ends[MAX_LAYERS + 2];
    struct weft_partition p = {0};
    struct weft_error err;
    bool proven = false;
    double bottleneck = reference_solve(ref, false, DBL_MAX, ends);

    enum weft_status st = weft_partition_init_balanced(&p, ref->items, ref->n_stages,
                                                       ref->rank_limits, &proven, &err);

    if (bottleneck == DBL_MAX) {
        assert_int_equal(st, WEFT_USAGE);
        assert_non_null(strstr(err.msg, "do not fit into"));
        counts->none++;
        return;
    }
    assert_int_equal(st, WEFT_OK);
    assert_true(proven);
    reference_solve(ref, true, bottleneck, ends);

    for (uint32_t s = 0; s < ref->n_stages; s++)
        assert_int_equal(p.at[s].end_layer, ends[s]);
    weft_partition_release(&p);
    bool first = ends[0] == 0,
         last = ref->n_stages > 1 && ends[ref->n_stages - 2] == ends[ref->n_stages - 1];
    counts->found++;
    counts->first_empty += first && !last;
    counts->last_empty += last && !first;
    counts->both_empty += first && last;
}

/* -- random cases -------------------------------------------------------------------------- */

static uint32_t draw(uint32_t seed, uint32_t *at, uint32_t n)
{
    return wf_random_below(7, seed, (*at)++, n);
}

/* Draws small whole numbers, so that sums are exact and ties are frequent.  Some layers are
 * equal, some free. */
static void draw_items(uint32_t seed, uint32_t *at, struct weft_item *items, uint32_t n)
{
    uint32_t kind = draw(seed, at, 4), most = 1 + draw(seed, at, kind == 3 ? 2000 : 30);
    for (uint32_t k = 0; k < n; k++) {
        bool alike = kind == 0 && k > 1 && k < n - 1;
        items[k] = alike ? items[1]
                         : (struct weft_item){
                               .f = draw(seed, at, most),
                               .i = draw(seed, at, kind == 1 ? 1 : most),
                               .w = draw(seed, at, most),
                               .state_bytes = draw(seed, at, 100),
                               .act_bytes = draw(seed, at, 20),
                           };
    }
    for (uint32_t k = 0; k < n; k += n - 1) /* a heavy embedding or head in half of the cases */
        if (draw(seed, at, 2))
            items[k].f += draw(seed, at, 6 * most);
}

/* Draws a number of stages from 1 to the maximum for these layers. */
static uint32_t draw_stages(uint32_t seed, uint32_t *at, uint32_t n_layers)
{
    return 1 + draw(seed, at, n_layers + 2);
}

static void check_random(void **state)
{
    (void)state;
    struct counts counts = {0};
    for (uint32_t seed = 0; seed < 4000; seed++) {
        uint32_t at = 0, n_layers = 1 + draw(seed, &at, 12);
        struct weft_item all[MAX_LAYERS + 2];
        draw_items(seed, &at, all, n_layers + 2);
        struct weft_items items = {.n = n_layers + 2, .at = all};
        struct reference ref = {&items, n_layers, draw_stages(seed, &at, n_layers), NULL};
        compare(&ref, &counts);
    }
    assert_int_equal(counts.none, 0);
    assert_true(counts.first_empty > 300 && counts.last_empty > 300);
    assert_true(counts.both_empty > 300);
    assert_true(counts.first_empty + counts.last_empty + counts.both_empty < 3000);
}

static void check_random_limits(void **state)
{
    (void)state;
    struct counts counts = {0};

    for (uint32_t seed = 10000; seed < 16000; seed++) {
        uint32_t at = 0, n_layers = 1 + draw(seed, &at, 12), in_flight[MAX_LAYERS + 2];
        struct weft_item all[MAX_LAYERS + 2];
        draw_items(seed, &at, all, n_layers + 2);
        struct weft_items items = {.n = n_layers + 2, .at = all};
        struct reference ref = {&items, n_layers, draw_stages(seed, &at, n_layers), NULL};
        size_t limits[MAX_LAYERS + 2], base = 80 * n_layers / ref.n_stages;
        for (uint32_t s = 0; s < ref.n_stages; s++) {
            in_flight[s] = ref.n_stages - s;
            limits[s] =
                draw(seed, &at, 4) == 0 ? draw(seed, &at, 200) : base + draw(seed, &at, 300);
        }
        struct weft_rank_limits rank_limits = {
            .in_flight = draw(seed, &at, 2) ? in_flight : NULL,
            .limit_bytes = limits,
            .n_limits = draw(seed, &at, 2) ? ref.n_stages : 1,
        };
        ref.rank_limits = &rank_limits;
        compare(&ref, &counts);
    }
    assert_true(counts.found > 1500 && counts.none > 500);
    assert_true(counts.first_empty > 200 && counts.last_empty > 200 && counts.both_empty > 200);
}

/* The limit in the error is sufficient, and one byte less is not. */
static void check_min_limit(void **state)
{
    (void)state;
    struct counts counts = {0};

    for (uint32_t seed = 20000; seed < 20300; seed++) {
        uint32_t at = 0, n_layers = 1 + draw(seed, &at, 10), ends[MAX_LAYERS + 2];
        struct weft_item all[MAX_LAYERS + 2];
        draw_items(seed, &at, all, n_layers + 2);
        all[1].state_bytes++;
        struct weft_items items = {.n = n_layers + 2, .at = all};
        size_t limit = 0;
        struct weft_rank_limits rank_limits = {.limit_bytes = &limit, .n_limits = 1};
        struct reference ref = {&items, n_layers, draw_stages(seed, &at, n_layers),
                                &rank_limits};
        struct weft_partition p;
        struct weft_error err;
        assert_int_equal(
            weft_partition_init_balanced(&p, &items, ref.n_stages, &rank_limits, NULL, &err),
            WEFT_USAGE);
        assert_non_null(strstr(err.msg, "0 bytes per rank: the minimum is "));
        assert_int_equal(sscanf(strstr(err.msg, "minimum is ") + 11, "%zu bytes", &limit), 1);
        assert_true(reference_solve(&ref, false, DBL_MAX, ends) < DBL_MAX);
        compare(&ref, &counts);
        limit--;
        assert_true(reference_solve(&ref, false, DBL_MAX, ends) == DBL_MAX);
    }
    assert_int_equal(counts.none, 0);
    assert_true(counts.first_empty > 20 && counts.last_empty > 20 && counts.both_empty > 20);
}

/* -- chosen cases -------------------------------------------------------------------------- */

/* clang-format off */
static struct chosen_case {
    const char *name;
    uint32_t n_layers, n_stages;
    double layer, embedding, head;
    uint32_t want[6]; /* layers of each stage */
} chosen[] = {
    {"equal layers: remainder to the first",   10, 4, 1,   0,  0,  {3, 3, 2, 2}},
    {"times that are not binary fractions",   10, 4, 0.1, 0,  0,  {3, 3, 2, 2}},
    {"a heavy head gets fewer layers",        10, 4, 1,   0,  2,  {3, 3, 3, 1}},
    {"heavy embedding and head",              12, 4, 1,   2,  2,  {2, 4, 4, 2}},
    {"a head as heavy as a stage",            9,  4, 1,   0,  3,  {3, 3, 3, 0}},
    {"a head beside one layer"              , 9,  4, 1,   0,  2,  {3, 3, 2, 1}},
    {"a head above a stage",                  8,  4, 1,   0,  10, {3, 3, 2, 0}},
    {"an embedding above a stage",            8,  4, 1,   10, 0,  {0, 3, 3, 2}},
    {"both above a stage",                    6,  5, 1,   9,  9,  {0, 2, 2, 2, 0}},
    {"a tie leaves no stage empty",           3,  3, 1,   0,  1,  {1, 1, 1}},
    {"empty because of the squares",           2,  3, 1,   3,  9,  {0, 2, 0}},
    {"everything free",                       6,  3, 0,   0,  0,  {4, 1, 1}},
    {"free layers leave no stage empty",      6,  3, 0,   2,  3,  {4, 1, 1}},
    {"free layers, but too few",              3,  4, 0,   2,  3,  {1, 1, 1, 0}},
    {"one stage",                             5,  1, 1,   1,  1,  {5}},
    {"one stage with heavy ends",             1,  1, 1,   9,  9,  {1}},
    {"two stages and a heavy head",           5,  2, 1,   0,  9,  {5, 0}},
    {"two stages and a heavy embedding",      5,  2, 1,   9,  0,  {0, 5}},
    {"two stages and one layer",              1,  2, 1,   1,  1,  {1, 0}},
    {"one layer each",                        5,  5, 1,   0,  0,  {1, 1, 1, 1, 1}},
    {"one layer in between",                  1,  3, 1,   1,  1,  {0, 1, 0}},
    {"two stages more than layers",           4,  6, 1,   0,  0,  {0, 1, 1, 1, 1, 0}},
};
/* clang-format on */

static void check_chosen(void **state)
{
    const struct chosen_case *c = *state;
    struct weft_items items;
    struct weft_partition p;
    assert_int_equal(weft_items_init_uniform(&items, c->n_layers,
                                             (struct weft_item){.f = c->layer},
                                             (struct weft_item){.w = c->embedding},
                                             (struct weft_item){.i = c->head}, NULL),
                     WEFT_OK);
    assert_int_equal(weft_partition_init_balanced(&p, &items, c->n_stages, NULL, NULL, NULL),
                     WEFT_OK);
    for (uint32_t s = 0; s < c->n_stages; s++)
        assert_int_equal(p.at[s].end_layer - p.at[s].first_layer, c->want[s]);
    weft_partition_release(&p);
    weft_items_release(&items);
}

/* A real model: no stage is slower than in the even split, and the stage of the head has fewer
 * layers. */
static void check_model(void **state)
{
    (void)state;
    struct weft_model model;
    struct weft_items items;
    struct weft_partition p;
    assert_int_equal(weft_model_find("llama3-8b", &model, NULL), WEFT_OK);
    assert_int_equal(weft_items_init_model(&items, &model, 1, 4096, NULL), WEFT_OK);
    struct reference ref = {&items, 32, 8, NULL};
    assert_int_equal(weft_partition_init_balanced(&p, &items, 8, NULL, NULL, NULL), WEFT_OK);
    double most = 0, even = stage_time(&ref, 7, 28, 32);
    for (uint32_t s = 0; s < 8; s++) {
        double t = stage_time(&ref, s, p.at[s].first_layer, p.at[s].end_layer);
        most = t > most ? t : most;
    }
    assert_true(most < even);
    assert_true(p.at[7].end_layer - p.at[7].first_layer < 4);
    weft_partition_release(&p);
    weft_items_release(&items);
}

/* gpt2-124m on 4 stages: a layer next to the head would take longer than the head alone and the
 * embedding with 4 layers. */
static void check_empty_head(void **state)
{
    (void)state;
    struct weft_model model;
    struct weft_items items;
    struct weft_partition p;
    assert_int_equal(weft_model_find("gpt2-124m", &model, NULL), WEFT_OK);
    assert_int_equal(weft_items_init_model(&items, &model, 1, 1024, NULL), WEFT_OK);
    struct reference ref = {&items, 12, 4, NULL};
    double one_and_head = stage_time(&ref, 3, 11, 12);
    assert_true(one_and_head > stage_time(&ref, 3, 12, 12));
    assert_true(one_and_head > stage_time(&ref, 0, 0, 4));
    assert_int_equal(weft_partition_init_balanced(&p, &items, 4, NULL, NULL, NULL), WEFT_OK);
    for (uint32_t s = 0; s < 4; s++)
        assert_int_equal(p.at[s].end_layer, s < 3 ? 4 * (s + 1) : 12);
    weft_partition_release(&p);
    weft_items_release(&items);
}

/* -- errors -------------------------------------------------------------------------------- */

static const uint32_t two_ranks[] = {0, 1, 1, 2};
static const size_t limits[] = {100, 100, 100, 100};
static const struct weft_placement bad_rank = {2, 4, 1, 1, two_ranks, NULL};
static const struct weft_placement bad_stages = {3, 3, 1, 1, two_ranks, NULL};
static const struct weft_placement no_ranks = {0, 4, 1, 1, two_ranks, NULL};
static const struct weft_placement no_pipes = {3, 4, 1, 0, two_ranks, NULL};
static const uint32_t many[] = {1, UINT32_MAX, 1, 1};

/* clang-format off */
static struct error_case {
    const char *name, *want;
    uint32_t n_layers, n_stages;
    double time;
    size_t bytes;
    struct weft_rank_limits rank_limits;
} errors[] = {
    {"too many stages",
     "3 layers cannot fill the 4 stages between the first and the last; use at most 5 stages",
     3, 6, 1, 1, {0}},
    {"too many stages for one layer",
     "1 layer cannot fill the 2 stages between the first and the last; use at most 3 stages",
     1, 4, 1, 1, {0}},
    {"no stages", "0 stages; give at least 1",
     4, 0, 1, 1, {0}},
    {"too many layers", "8193 layers are too many for a balanced partition; give at most 8192",
     8193, 4, 1, 1, {0}},
    {"times overflow", "times of all items overflow",
     4, 4, 1e308, 1, {0}},
    {"a rank out of range", "stage 3 is placed on rank 2 of 2",
     4, 4, 1, 1, {.placement = &bad_rank}},
    {"a placement of others", "the placement has 3 stages, the partition 4",
     4, 4, 1, 1, {.placement = &bad_stages}},
    {"no ranks", "0 ranks and 1 pipes",
     4, 4, 1, 1, {.placement = &no_ranks}},
    {"no pipes", "3 ranks and 0 pipes",
     4, 4, 1, 1, {.placement = &no_pipes}},
    {"too few limits", "3 memory limits for 4 ranks; give 1, or one per rank",
     4, 4, 1, 1, {.limit_bytes = limits, .n_limits = 3}},
    {"bytes overflow", "the bytes of all items overflow with 1 micros in flight",
     4, 4, 1, SIZE_MAX / 2, {.limit_bytes = limits, .n_limits = 1}},
    {"bytes in flight overflow", "overflow with 4294967295 micros in flight",
     4, 4, 1, (size_t)1 << 30, {.in_flight = many, .limit_bytes = limits, .n_limits = 1}},
    {"one limit for all",
     "8 layers on 4 stages do not fit into 100 bytes per rank: the minimum is 160",
     8, 4, 1, 40, {.limit_bytes = limits, .n_limits = 1}},
    {"a limit each",
     "the ranks' memory limits: the minimum is 60 bytes more on every rank",
     8, 4, 1, 40, {.limit_bytes = limits, .n_limits = 4}},
};
/* clang-format on */

static void check_error(void **state)
{
    const struct error_case *c = *state;
    struct weft_items items;
    struct weft_partition p = {0};
    struct weft_error err;
    struct weft_item layer = {.f = c->time, .state_bytes = c->bytes, .act_bytes = c->bytes};
    assert_int_equal(weft_items_init_uniform(&items, c->n_layers, layer,
                                             (struct weft_item){.f = 0},
                                             (struct weft_item){.f = 0}, NULL),
                     WEFT_OK);
    assert_int_equal(
        weft_partition_init_balanced(&p, &items, c->n_stages, &c->rank_limits, NULL, &err),
        WEFT_USAGE);
    if (strstr(err.msg, c->want) == NULL)
        assert_string_equal(err.msg, c->want);
    assert_null(p.at);
    weft_items_release(&items);
}

static void check_bad_items(void **state)
{
    (void)state;
    struct weft_item all[3] = {{.f = 1}, {.f = -1}, {.f = 1}};
    struct weft_items items = {.n = 3, .at = all};
    struct weft_partition p = {0};
    struct weft_error err;
    assert_int_equal(weft_partition_init_balanced(&p, &items, 1, NULL, NULL, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "item 1 (a layer) has times f=-1"));
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(chosen) + WEFT_LEN(errors) + 6];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(chosen); i++)
        tests[n++] = (struct CMUnitTest){chosen[i].name, check_chosen, NULL, NULL, &chosen[i]};
    for (size_t i = 0; i < WEFT_LEN(errors); i++)
        tests[n++] = (struct CMUnitTest){errors[i].name, check_error, NULL, NULL, &errors[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_random);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_random_limits);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_min_limit);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_model);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_empty_head);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_bad_items);
    return cmocka_run_group_tests_name("balanced", tests, NULL, NULL) != 0;
}
