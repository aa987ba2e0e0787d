/* Sums over made-up ranks: the peak is no more than the cores there are allow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/error.h"
#include "training/trainer/rank_totals.h"

enum { MOST = 4 };

/* Every thread's peak is 10; cores are the bits of a word; host 0 ends a row. */
struct row {
    const char *name;
    struct {
        char host;
        uint32_t threads;
        uint64_t cores;
    } ranks[MOST];
    double want;
};

static const struct row rows[] = {
    {"one rank, a core each", {{'a', 2, 0x3}}, 20},
    {"one rank, more threads than cores", {{'a', 4, 0x3}}, 20},
    {"one rank, fewer", {{'a', 1, 0xf}}, 10},
    {"cores of their own", {{'a', 2, 0x3}, {'a', 2, 0xc}}, 40},
    {"the same cores, enough for both", {{'a', 1, 0x3}, {'a', 1, 0x3}}, 20},
    {"the same cores for twice the threads", {{'a', 2, 0x3}, {'a', 2, 0x3}}, 20},
    {"cores that overlap: 3 for 4 threads", {{'a', 2, 0x3}, {'a', 2, 0x6}}, 30},
    {"as many on two hosts", {{'a', 2, 0x3}, {'b', 2, 0x3}}, 40},
    {"hosts in turn: 2 x 2 cores",
     {{'a', 2, 0x3}, {'b', 2, 0x3}, {'a', 2, 0x3}, {'b', 1, 0x3}},
     40},
    {"a host that does not say its cores", {{'a', 3, 0}, {'a', 1, 0}}, 40},
};

static uint32_t make_cards(const struct row *row, struct wf_rank_resources cards[MOST])
{
    uint32_t n = 0;
    for (; n < MOST && row->ranks[n].host != 0; n++)
        cards[n] = (struct wf_rank_resources){.peak = 10.0 * row->ranks[n].threads,
                                              .threads = row->ranks[n].threads,
                                              .cores = {{row->ranks[n].cores}},
                                              .host = {row->ranks[n].host}};
    return n;
}

static void check_peak(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(rows); i++) {
        struct wf_rank_resources cards[MOST];
        uint32_t n = make_cards(&rows[i], cards);
        double got = wf_rank_totals(cards, n).peak;
        if (got < rows[i].want - 1e-9 || got > rows[i].want + 1e-9)
            fail_msg("%s: %g, not %g", rows[i].name, got, rows[i].want);
    }
}

/* The sum of all, and the first of those that have the most. */
static void check_bytes(void **state)
{
    (void)state;
    static const size_t totals[MOST] = {5, 9, 9, 2};
    struct wf_rank_resources cards[MOST] = {{0}};
    for (uint32_t r = 0; r < MOST; r++)
        cards[r].bytes = (struct wf_rank_bytes){.weights = r, .total = totals[r]};
    struct wf_rank_totals sum = wf_rank_totals(cards, MOST);
    assert_int_equal(sum.all_bytes, 25);
    assert_int_equal(sum.most_rank, 1);
    assert_int_equal(sum.most.total, 9);
    assert_int_equal(sum.most.weights, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_peak),
        cmocka_unit_test(check_bytes),
    };
    return cmocka_run_group_tests_name("ranksum", tests, NULL, NULL) != 0;
}
