/* Checks totals over ranks: the peak is limited by the cores of each host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/error.h"
#include "training/trainer/rank_totals.h"

enum { MAX_RANKS = 4 };

/* The peak of a thread is 10; cores are the bits of a word; host 0 ends the list of ranks. */
struct row {
    const char *name;
    struct {
        char host;
        uint32_t threads;
        uint64_t cores;
    } ranks[MAX_RANKS];
    double want;
};

static const struct row rows[] = {
    {"one rank, a core per thread", {{'a', 2, 0x3}}, 20},
    {"one rank, more threads than cores", {{'a', 4, 0x3}}, 20},
    {"one rank, fewer threads than cores", {{'a', 1, 0xf}}, 10},
    {"two ranks on different cores", {{'a', 2, 0x3}, {'a', 2, 0xc}}, 40},
    {"the same cores, enough for both", {{'a', 1, 0x3}, {'a', 1, 0x3}}, 20},
    {"the same cores for twice the threads", {{'a', 2, 0x3}, {'a', 2, 0x3}}, 20},
    {"cores that overlap: 3 for 4 threads", {{'a', 2, 0x3}, {'a', 2, 0x6}}, 30},
    {"the same cores on two hosts", {{'a', 2, 0x3}, {'b', 2, 0x3}}, 40},
    {"ranks on alternating hosts: 2 x 2 cores",
     {{'a', 2, 0x3}, {'b', 2, 0x3}, {'a', 2, 0x3}, {'b', 1, 0x3}},
     40},
    {"a host with unknown cores", {{'a', 3, 0}, {'a', 1, 0}}, 40},
};

static uint32_t make_ranks(const struct row *row, struct wf_rank_resources ranks[MAX_RANKS])
{
    uint32_t n = 0;
    for (; n < MAX_RANKS && row->ranks[n].host != 0; n++)
        ranks[n] = (struct wf_rank_resources){.peak = 10.0 * row->ranks[n].threads,
                                              .threads = row->ranks[n].threads,
                                              .cores = {{row->ranks[n].cores}},
                                              .host = {row->ranks[n].host}};
    return n;
}

static void check_peak(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(rows); i++) {
        struct wf_rank_resources ranks[MAX_RANKS];
        uint32_t n = make_ranks(&rows[i], ranks);
        double got = wf_rank_totals(ranks, n).peak;
        if (got < rows[i].want - 1e-9 || got > rows[i].want + 1e-9)
            fail_msg("%s: %g, want %g", rows[i].name, got, rows[i].want);
    }
}

/* Checks the sum, and the first rank with the maximum. */
static void check_bytes(void **state)
{
    (void)state;
    static const size_t totals[MAX_RANKS] = {5, 9, 9, 2};
    struct wf_rank_resources ranks[MAX_RANKS] = {{0}};
    for (uint32_t r = 0; r < MAX_RANKS; r++)
        ranks[r].bytes = (struct wf_rank_bytes){.weights = r, .total = totals[r]};
    struct wf_rank_totals sum = wf_rank_totals(ranks, MAX_RANKS);
    assert_int_equal(sum.all_bytes, 25);
    assert_int_equal(sum.largest_rank, 1);
    assert_int_equal(sum.largest.total, 9);
    assert_int_equal(sum.largest.weights, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_peak),
        cmocka_unit_test(check_bytes),
    };
    return cmocka_run_group_tests_name("rank_totals", tests, NULL, NULL) != 0;
}
