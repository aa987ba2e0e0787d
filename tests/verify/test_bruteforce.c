/* Compares the verifier with a slow executor on many small schedules, correct and incorrect
 * ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "brute_force.h"
#include "deep.h"
#include "same.h"
#include "table.h"
#include "weft/verify.h"

static size_t case_count(void)
{
    return test_is_deep() ? 200000 : 30000;
}

/* The minimum number of cases per verdict in a thousand cases. */
static const size_t least_per_mille[N_VERDICTS] = {200, 100, 50, 20, 40};

struct tally {
    size_t verdict[N_VERDICTS];
    size_t refused, lowered, by_pair, blocking, paired, two_way, reduced, unreduced;
    size_t forward_only;
};

/* -- generating a case --------------------------------------------------------------------- */

/* Generates a schedule with or without messages; returns false if the sizes are rejected. */
static bool generated(struct table *t, struct dice *d)
{
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    const struct weft_generator *g = &all[dice_below(d, (uint32_t)n)];
    struct weft_gen_params params = {.ranks = 1 + dice_below(d, 4),
                                     .micros = 1 + dice_below(d, dice_once_in(d, 4) ? 10 : 5)};

    if (g->flags & WEFT_GEN_USES_CHUNKS)
        params.chunks = 1 + dice_below(d, 3);
    if (g->flags & WEFT_GEN_USES_COST && !dice_once_in(d, 200)) /* searches are slow */
        return false;

    struct weft_schedule *s = NULL, *lowered = NULL;
    if (weft_schedule_generate(g->name, &params, &s, NULL) != WEFT_OK)
        return false;
    if (dice_once_in(d, 8)) {
        struct weft_schedule *forward = NULL;
        assert_int_equal(weft_schedule_forward_only(s, &forward, NULL), WEFT_OK);
        weft_schedule_free(s);
        s = forward;
    }
    bool for_torch = weft_schedule_placement(s)->n_pipes == 1 && dice_once_in(d, 2);
    uint32_t how = for_torch ? dice_below(d, WEFT_N_LOWERINGS) : WEFT_LOWERING_WEFT;
    if (!dice_once_in(d, 4))
        assert_int_equal(weft_schedule_lower(s, (enum weft_lowering)how, &lowered, NULL),
                         WEFT_OK);
    bool fits = table_read(t, lowered != NULL ? lowered : s);
    weft_schedule_free(s);
    weft_schedule_free(lowered);
    return fits;
}

static void make_table(struct table *t, struct dice *d)
{
    if (dice_once_in(d, 2)) {
        while (!generated(t, d))
            continue;
    } else {
        struct random_shape shape = {.ranks = 1 + dice_below(d, 4),
                                     .stages = 1 + dice_below(d, 5),
                                     .micros = 1 + dice_below(d, 4),
                                     .pipes = 1 + dice_below(d, 3),
                                     .messages = !dice_once_in(d, 4),
                                     .careless = dice_once_in(d, 3)};
        table_random(t, shape, d);
    }
}

/* The input of the parser: the largest numbers and the number of actions. */
struct extent {
    uint32_t stages, micros;
    size_t n_actions;
    bool empty_row;
};

static void extend(struct extent *e, struct weft_action a)
{
    e->n_actions++;
    if (a.stage >= e->stages)
        e->stages = a.stage + 1;
    if (weft_act_has_micro(a.kind) && a.micro >= e->micros)
        e->micros = a.micro + 1;
}

static struct extent extent_of(const struct table *t)
{
    struct extent e = {0};
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        size_t before = e.n_actions;
        for (size_t i = 0; i < t->row[r].n; i++) {
            extend(&e, t->row[r].at[i].a);
            if (t->row[r].at[i].pair)
                extend(&e, t->row[r].at[i].b);
        }
        e.empty_row = e.empty_row || e.n_actions == before;
    }
    return e;
}

static struct weft_channel_model make_transport(struct dice *d)
{
    static const size_t depths[] = {WEFT_CHANNEL_BUFFERED, WEFT_CHANNEL_BUFFERED, 0, 1, 2, 3};
    return (struct weft_channel_model){.depth = depths[dice_below(d, WEFT_LEN(depths))],
                                       .by_pair = dice_once_in(d, 3)};
}

/* -- checking it --------------------------------------------------------------------------- */

static bool found(const struct weft_verify_result *r, unsigned rules)
{
    for (size_t i = 0; i < r->n_findings && i < WEFT_MAX_FINDINGS; i++)
        if (rules >> r->findings[i].rule & 1)
            return true;
    return false;
}

#define RULE(name) (1u << WEFT_RULE_##name)

/* Returns true if the findings contain the error that the executor met.  A mismatch is found
 * before anything runs, so it may be reported where a run would block first. */
static bool agrees(enum verdict v, const struct weft_verify_result *r)
{
    switch (v) {
    case VERDICT_VALID:
        return r->n_findings == 0;
    case VERDICT_INCOMPLETE:
        return r->n_findings > WEFT_MAX_FINDINGS || /* not all are stored */
               found(r, RULE(MISSING) | RULE(DUPLICATE) | RULE(MIXED) | RULE(RANK) |
                            RULE(MESSAGE));
    case VERDICT_ORDER:
        return found(r, RULE(ORDER) | RULE(WAIT) | RULE(DUPLICATE)); /* a second REDUCE_GRAD */
    case VERDICT_CHANNEL:
        return found(r, RULE(CHANNEL));
    case VERDICT_DEADLOCK:
        return found(r, RULE(CHANNEL) | RULE(DEADLOCK));
    case N_VERDICTS:
        break;
    }
    return false;
}

/* Returns true if the only error is that some ranks reduce and others do not. */
static bool is_unreduced(const struct weft_verify_result *r)
{
    for (size_t i = 0; i < r->n_findings; i++)
        if (i == WEFT_MAX_FINDINGS || r->findings[i].rule != WEFT_RULE_MISSING ||
            strstr(r->findings[i].text, "REDUCE_GRAD") == NULL)
            return false;
    return r->n_findings > 0;
}

/* Returns true if the position of every finding is an action or the end of a list. */
static bool places_exist(const struct weft_schedule *s, const struct weft_verify_result *r)
{
    for (size_t i = 0; i < r->n_findings && i < WEFT_MAX_FINDINGS; i++)
        if (r->findings[i].has_position &&
            (r->findings[i].rank >= r->n_ranks ||
             r->findings[i].position > weft_schedule_rank(s, r->findings[i].rank).len))
            return false;
    return true;
}

/* Returns true if every rank of a deadlock cycle waits for the next one, and the last for the
 * first. */
static bool cycle_closes(const struct weft_verify_result *r)
{
    if (!found(r, RULE(DEADLOCK)))
        return r->n_cycle == 0;
    for (size_t i = 0; i < r->n_cycle; i++)
        if (r->cycle[i].for_rank != r->cycle[(i + 1) % r->n_cycle].rank)
            return false;
    return r->n_cycle > 0;
}

/* Lowers a schedule.  A correct schedule must stay correct; an incorrect one must not crash. */
static bool lowers(const struct weft_schedule *s, enum weft_lowering how, bool right)
{
    struct weft_schedule *lowered = NULL;
    struct weft_verify_result r;
    enum weft_status st = weft_schedule_lower(s, how, &lowered, NULL);
    bool ok = st == WEFT_OK || (!right && st == WEFT_SCHEDULE);
    if (right && ok) {
        assert_int_equal(weft_verify(lowered, NULL, &r, NULL), WEFT_OK);
        ok = r.n_findings == 0;
        weft_verify_result_release(&r);
    }
    weft_schedule_free(lowered);
    return ok;
}

static void judge(const struct weft_schedule *s, const char *text, struct dice *d,
                  struct tally *tally)
{
    struct weft_channel_model transport = make_transport(d);
    enum verdict v = brute_force_verify(s, transport);
    struct weft_verify_result r;

    assert_int_equal(weft_verify(s, &transport, &r, NULL), WEFT_OK);
    bool right = v == VERDICT_VALID, lowered = weft_schedule_is_lowered(s);
    bool one_pipe = weft_schedule_placement(s)->n_pipes == 1, can_lower = true;
    for (int how = 0; !lowered && how < (one_pipe ? WEFT_N_LOWERINGS : 1); how++)
        can_lower = can_lower && lowers(s, (enum weft_lowering)how, right);
    if (!agrees(v, &r) || !cycle_closes(&r) || !places_exist(s, &r) || !roundtrips_text(s) ||
        !can_lower) {
        print_error("case %zu, depth %zu, channels by %s:\n%s", (size_t)d->stream,
                    transport.depth, transport.by_pair ? "pair" : "direction", text);
        print_error("executor: %s\nverifier: %zu findings\n", verdict_name(v), r.n_findings);
        for (size_t i = 0; i < r.n_findings && i < 8; i++)
            print_error("    %s: %s\n", weft_rule_name(r.findings[i].rule), r.findings[i].text);
        fail();
    }
    tally->verdict[v]++;
    tally->lowered += lowered;
    tally->by_pair += lowered && transport.by_pair;
    tally->blocking += lowered && transport.depth != WEFT_CHANNEL_BUFFERED;
    tally->paired += strchr(text, '(') != NULL;
    tally->two_way += weft_schedule_placement(s)->n_pipes > 1;
    tally->reduced += strstr(text, "REDUCE_GRAD") != NULL;
    tally->unreduced += is_unreduced(&r);
    tally->forward_only += right && strpbrk(text, "BIW") == NULL;
    weft_verify_result_release(&r);
}

static void run_case(uint64_t number, struct table *t, struct tally *tally)
{
    struct dice d = {.seed = 2024, .stream = number};

    make_table(t, &d);
    struct extent before = extent_of(t);
    for (uint32_t n = dice_below(&d, 4); n > 0; n--)
        table_mutate(t, &d);

    struct extent e = extent_of(t);
    struct wf_text text = {0};
    const char *newline = dice_once_in(&d, 2) ? "\r\n" : "\n";
    bool header = dice_once_in(&d, 2);

    if (header)
        wf_text_addf(&text, "# weft schedule 1%s# weft ranks %u stages %u micros %u%s", newline,
                     t->n_ranks, before.stages, before.micros, newline);
    table_print(t, newline, &text);

    bool possible = e.n_actions > 0;
    if (header)
        possible = possible && e.stages <= before.stages && e.micros <= before.micros &&
                   before.stages <= e.n_actions && before.micros <= e.n_actions;
    else
        possible = possible && e.stages <= e.n_actions && e.micros <= e.n_actions;

    struct weft_schedule *s = NULL;
    struct weft_error err = {.msg = ""};
    enum weft_status st = weft_schedule_parse(text.at, text.len, "random", &s, &err);
    /* An empty row is rejected except at the end, where it is an empty line. */
    if (!e.empty_row && st != (possible ? WEFT_OK : WEFT_SCHEDULE)) {
        print_error("case %zu: parsed with status %d: %s\n%s", (size_t)number, st, err.msg,
                    text.at);
        fail();
    }

    if (st == WEFT_OK)
        judge(s, text.at, &d, tally);
    else
        tally->refused++;
    weft_schedule_free(s);
    wf_text_release(&text);
}

static void check_random(void **state)
{
    (void)state;
    static struct table t;
    struct tally tally = {0};
    const size_t n_cases = case_count();

    for (uint64_t i = 0; i < n_cases; i++)
        run_case(i, &t, &tally);
    for (int v = 0; v < N_VERDICTS; v++)
        print_message("%-11s %zu\n", verdict_name((enum verdict)v), tally.verdict[v]);
    print_message(
        "rejected by the parser %zu; with messages %zu, by pair %zu, blocking %zu; with "
        "pairs %zu; two-way %zu; with reductions %zu, with some of them only %zu; correct "
        "forward-only %zu\n",
        tally.refused, tally.lowered, tally.by_pair, tally.blocking, tally.paired,
        tally.two_way, tally.reduced, tally.unreduced, tally.forward_only);

    for (int v = 0; v < N_VERDICTS; v++)
        assert_true(tally.verdict[v] * 1000 >= least_per_mille[v] * n_cases);
    assert_true(tally.refused < n_cases / 20);
    assert_true(tally.lowered > n_cases / 3);
    assert_true(tally.by_pair > n_cases / 10);
    assert_true(tally.blocking > n_cases / 5);
    assert_true(tally.paired > n_cases / 10);
    assert_true(tally.two_way > n_cases / 10);
    assert_true(tally.reduced > n_cases / 10);
    assert_true(tally.unreduced > n_cases / 200);
    assert_true(tally.forward_only > n_cases / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"the verifier agrees with the slow executor", check_random, NULL, NULL, NULL},
    };
    return cmocka_run_group_tests_name("bruteforce", tests, NULL, NULL) != 0;
}
