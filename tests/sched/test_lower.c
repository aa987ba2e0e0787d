/* Checks where lowering puts sends, receives and reductions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "brute_force.h"
#include "table.h"
#include "weft/verify.h"

static const struct weft_channel_model buffered = {.depth = WEFT_CHANNEL_BUFFERED};

static const struct weft_gen_params sizes[] = {
    {.ranks = 1, .micros = 3}, {.ranks = 2, .micros = 1}, {.ranks = 2, .micros = 4},
    {.ranks = 3, .micros = 5}, {.ranks = 4, .micros = 2}, {.ranks = 4, .micros = 8},
};

static bool is_send(unsigned kind)
{
    return kind == WEFT_ACT_SEND_F || kind == WEFT_ACT_SEND_B;
}

static bool is_receive(unsigned kind)
{
    return kind == WEFT_ACT_RECV_F || kind == WEFT_ACT_RECV_B;
}

static bool is_weight(unsigned kind)
{
    return kind == WEFT_ACT_B || kind == WEFT_ACT_W;
}

/* -- both endpoints ------------------------------------------------------------------------ */

/* Returns the stage at the other endpoint of a message. */
static uint32_t other_stage(struct weft_action a)
{
    bool up = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_RECV_B;
    return up ? a.stage + 1 : a.stage - 1;
}

/* Finds the n-th message of one kind in a rank's list whose other endpoint is on `peer`.
 * Returns false if there is none. */
static bool nth_message(const struct weft_schedule *s, uint32_t rank, unsigned kind,
                        uint32_t peer, size_t n, struct weft_action *out)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    struct weft_action_span row = weft_schedule_rank(s, rank);
    for (size_t i = 0; i < row.len; i++)
        if (row.at[i].kind == kind &&
            weft_placement_rank(p, other_stage(row.at[i]), row.at[i].micro) == peer &&
            n-- == 0) {
            *out = row.at[i];
            return true;
        }
    return false;
}

/* Checks that sender and receiver of every channel list the same messages. */
static void check_ends(const struct weft_schedule *s)
{
    uint32_t n_ranks = weft_schedule_placement(s)->n_ranks;
    for (uint32_t from = 0; from < n_ranks; from++)
        for (uint32_t to = 0; to < n_ranks; to++)
            for (int backward = 0; backward < 2; backward++) {
                unsigned send = backward ? WEFT_ACT_SEND_B : WEFT_ACT_SEND_F;
                unsigned recv = backward ? WEFT_ACT_RECV_B : WEFT_ACT_RECV_F;
                for (size_t n = 0;; n++) {
                    struct weft_action a, b;
                    bool sent = nth_message(s, from, send, to, n, &a);
                    bool got = nth_message(s, to, recv, from, n, &b);
                    assert_int_equal(sent, got);
                    if (!sent)
                        break;
                    assert_int_equal(a.micro, b.micro);
                    assert_int_equal(other_stage(a), b.stage);
                    assert_int_equal(other_stage(b), a.stage);
                }
            }
}

/* Checks the number of messages: two per micro, one in each direction, for every boundary
 * between ranks, and none within a rank. */
static void check_count(const struct weft_schedule *s, const struct weft_schedule *lowered)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    size_t want = 0, sends = 0, receives = 0;
    for (uint32_t m = 0; m < p->n_micros; m++)
        for (uint32_t stage = 0; stage + 1 < p->n_stages; stage++)
            want +=
                2 * (weft_placement_rank(p, stage, m) != weft_placement_rank(p, stage + 1, m));
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(lowered, r);
        for (size_t i = 0; i < row.len; i++) {
            sends += is_send(row.at[i].kind);
            receives += is_receive(row.at[i].kind);
            if (weft_act_is_message(row.at[i].kind))
                assert_int_not_equal(
                    weft_placement_rank(p, other_stage(row.at[i]), row.at[i].micro), r);
        }
    }
    assert_int_equal(sends, want);
    assert_int_equal(receives, want);
    assert_int_equal(weft_schedule_is_lowered(lowered), want > 0);
}

/* Checks that the lowered schedule without messages and reductions is the original one. */
static void check_compute(const struct weft_schedule *s, const struct weft_schedule *lowered)
{
    for (uint32_t r = 0; r < weft_schedule_placement(s)->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(s, r);
        struct weft_action_span low = weft_schedule_rank(lowered, r);
        size_t k = 0;
        for (size_t i = 0; i < low.len; i++) {
            if (!weft_act_is_compute(low.at[i].kind))
                continue;
            while (k < row.len && !weft_act_is_compute(row.at[k].kind))
                k++;
            assert_true(k < row.len);
            assert_memory_equal(&low.at[i], &row.at[k++], sizeof low.at[i]);
        }
        while (k < row.len)
            assert_false(weft_act_is_compute(row.at[k++].kind));
    }
}

/* -- late ---------------------------------------------------------------------------------- */

/* Checks that a rank has one reduction per stage, after the stage's last weight gradient, with
 * only sends (and the other action of a pair, and its reduction) in between. */
static void check_reductions(const struct weft_schedule *lowered)
{
    const struct weft_placement *p = weft_schedule_placement(lowered);
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(lowered, r);
        for (uint32_t stage = 0; stage < p->n_stages; stage++) {
            size_t last = SIZE_MAX, at = SIZE_MAX, n = 0;

            for (size_t i = 0; i < row.len; i++) {
                if (row.at[i].stage != stage)
                    continue;
                if (is_weight(row.at[i].kind))
                    last = i;
                if (row.at[i].kind == WEFT_ACT_REDUCE_GRAD) {
                    at = i;
                    n++;
                }
            }

            assert_int_equal(n, last != SIZE_MAX);
            if (n == 0)
                continue;

            assert_true(at > last);
            for (size_t i = last + 1; i < at; i++)
                assert_true(is_send(row.at[i].kind) || row.at[i].kind == WEFT_ACT_REDUCE_GRAD ||
                            row.at[i - 1].paired);
        }
    }
}

/* Checks that a send follows its producer, with only other sends (or the other action of a
 * pair) in between. */
static void check_sends(const struct weft_schedule *lowered)
{
    for (uint32_t r = 0; r < weft_schedule_placement(lowered)->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(lowered, r);
        for (size_t i = 0; i < row.len; i++) {
            if (!is_send(row.at[i].kind))
                continue;

            size_t k = i;
            while (k > 0 && is_send(row.at[k - 1].kind))
                k--;
            assert_true(k > 0);

            const struct weft_action *a = &row.at[k - 1];
            bool mine = a->stage == row.at[i].stage && a->micro == row.at[i].micro;
            if (!mine && k > 1 && row.at[k - 2].paired) {
                a = &row.at[k - 2];
                mine = a->stage == row.at[i].stage && a->micro == row.at[i].micro;
            }

            assert_true(mine);
            assert_true(row.at[i].kind == WEFT_ACT_SEND_F
                            ? a->kind == WEFT_ACT_F
                            : a->kind == WEFT_ACT_B || a->kind == WEFT_ACT_I);
        }
    }
}

static enum verdict judge_table(const struct table *t)
{
    struct wf_text text = {0};
    struct weft_schedule *s = NULL;
    table_print(t, "\n", &text);
    assert_int_equal(weft_schedule_parse(text.at, text.len, "t", &s, NULL), WEFT_OK);
    enum verdict v = brute_force_verify(s, buffered);
    weft_schedule_free(s);
    wf_text_release(&text);
    return v;
}

/* Checks that receives are as late as possible: moving one behind the next action that is not a
 * receive would make it too late or break the order of its channel. */
static void check_latest(const struct weft_schedule *lowered)
{
    static struct table t, moved;
    assert_true(table_read(&t, lowered));
    assert_int_equal(judge_table(&t), VERDICT_VALID);
    for (uint32_t r = 0; r < t.n_ranks; r++)
        for (size_t i = 0; i < t.row[r].n; i++) {
            struct cell c = t.row[r].at[i];
            if (!is_receive(c.a.kind))
                continue;
            size_t to = i + 1;
            while (is_receive(t.row[r].at[to].a.kind))
                to++;
            moved = t;
            table_remove(&moved, r, i);
            table_insert(&moved, r, to, c);
            enum verdict v = judge_table(&moved);
            if (v != VERDICT_ORDER && v != VERDICT_CHANNEL)
                fail_msg("rank %u: the receive at %zu could be later (%s)", r, i,
                         verdict_name(v));
        }
}

static struct weft_schedule *make(const char *name, const struct weft_gen_params *p)
{
    struct weft_schedule *s = NULL;
    weft_schedule_generate(name, p, &s, NULL);
    return s;
}

static void check_late(void **state)
{
    const struct weft_generator *g = *state;
    for (size_t i = 0; i < WEFT_LEN(sizes); i++) {
        struct weft_schedule *s = make(g->name, &sizes[i]), *lowered = NULL;
        if (s == NULL)
            continue;
        assert_int_equal(weft_schedule_lower(s, WEFT_LOWERING_WEFT, &lowered, NULL), WEFT_OK);
        check_ends(lowered);
        check_count(s, lowered);
        check_compute(s, lowered);
        check_reductions(lowered);
        check_sends(lowered);
        check_latest(lowered);
        weft_schedule_free(lowered);
        weft_schedule_free(s);
    }
}

/* -- PyTorch -------------------------------------------------------------------------------- */

/* Returns true if a rank has gathered a stage before an action, and not freed it again. */
static bool is_gathered(struct weft_action_span row, size_t at, uint32_t stage)
{
    bool gathered = false;
    for (size_t i = 0; i < at; i++)
        if (row.at[i].stage == stage && row.at[i].kind == WEFT_ACT_UNSHARD)
            gathered = true;
        else if (row.at[i].stage == stage && row.at[i].kind == WEFT_ACT_RESHARD)
            gathered = false;
    return gathered;
}

/* Every compute action has its parameters; all are freed at the end. */
static void check_sharding(const struct weft_schedule *lowered)
{
    const struct weft_placement *p = weft_schedule_placement(lowered);
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(lowered, r);
        for (size_t i = 0; i < row.len; i++)
            if (weft_act_is_compute(row.at[i].kind))
                assert_true(is_gathered(row, i, row.at[i].stage));
        for (uint32_t s = 0; s < p->n_stages; s++)
            assert_false(is_gathered(row, row.len, s));
    }
}

/* Every dialect is valid with one queue per directed pair of ranks; the ones that equal PyTorch's
 * own tables are valid even if sends block. */
static void check_torch(void **state)
{
    const struct weft_generator *g = *state;
    for (size_t i = 0; i < WEFT_LEN(sizes) * WEFT_N_LOWERINGS; i++) {
        enum weft_lowering how = i % WEFT_N_LOWERINGS;
        struct weft_schedule *s = make(g->name, &sizes[i / WEFT_N_LOWERINGS]), *lowered = NULL;
        bool late =
            how == WEFT_LOWERING_TORCH_2_10_LATE || how == WEFT_LOWERING_TORCH_2_15_LATE;
        bool several = s != NULL && weft_schedule_placement(s)->n_pipes > 1;
        if (s == NULL || how == WEFT_LOWERING_WEFT || several) {
            if (several && how != WEFT_LOWERING_WEFT)
                assert_int_equal(weft_schedule_lower(s, how, &lowered, NULL), WEFT_SCHEDULE);
            weft_schedule_free(s);
            continue;
        }

        assert_int_equal(weft_schedule_lower(s, how, &lowered, NULL), WEFT_OK);
        check_ends(lowered);
        check_count(s, lowered);
        check_compute(s, lowered);
        check_sharding(lowered);
        const struct weft_channel_model pair = {late ? WEFT_CHANNEL_BUFFERED : 0, true};
        assert_int_equal(brute_force_verify(lowered, pair), VERDICT_VALID);
        struct weft_verify_result r;
        assert_int_equal(weft_verify(lowered, &pair, &r, NULL), WEFT_OK);
        if (r.n_findings > 0)
            fail_msg("%s, %s: %s", g->name, weft_lowering_name(how), r.findings[0].text);
        weft_verify_result_release(&r);
        weft_schedule_free(lowered);
        weft_schedule_free(s);
    }
}

/* -- small cases by hand ------------------------------------------------------------------- */

static struct text_case {
    const char *name, *text;
    enum weft_lowering how;
    enum weft_status status;
    const char *want; /* the rows, or words of the error */
} texts[] = {
    {"two ranks", "0F0,0B0\n1F0,1B0", WEFT_LOWERING_WEFT, WEFT_OK,
     "0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n"},
    {"two ranks, as PyTorch", "0F0,0B0\n1F0,1B0", WEFT_LOWERING_TORCH_2_10, WEFT_OK,
     "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n"
     "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD\n"},
    {"two ranks, as PyTorch 2.15", "0F0,0B0\n1F0,1B0", WEFT_LOWERING_TORCH_2_15, WEFT_OK,
     "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,"
     "0RESHARD\n1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1RESHARD,"
     "1WAIT_SEND_B0\n"},
    {"late for PyTorch: F2 and B0 share a queue and keep the order of sending",
     "0F0,0F1,3F0,3B0,0F2,3F1,3B1,0B0,3F2,3B2,0B1,0B2\n"
     "1F0,2F0,1F1,2F1,2B0,1B0,1F2,2F2,2B1,1B1,2B2,1B2",
     WEFT_LOWERING_TORCH_2_10_LATE, WEFT_OK,
     "0UNSHARD,3UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,3RECV_F0,3F0,3B0,3SEND_B0,0F2,0SEND_F2,"
     "3RECV_F1,3F1,3B1,3SEND_B1,0RECV_B0,0B0,3RECV_F2,3F2,3B2,3SEND_B2,3REDUCE_GRAD,3RESHARD,"
     "0RECV_B1,0B1,0RECV_B2,0B2,0REDUCE_GRAD,0RESHARD\n"
     "1UNSHARD,2UNSHARD,1RECV_F0,1F0,2F0,2SEND_F0,1RECV_F1,1F1,2F1,2SEND_F1,2RECV_B0,2B0,1B0,"
     "1SEND_B0,1RECV_F2,1F2,2F2,2SEND_F2,2RECV_B1,2B1,1B1,1SEND_B1,2RECV_B2,2B2,2REDUCE_GRAD,"
     "2RESHARD,1B2,1SEND_B2,1REDUCE_GRAD,1RESHARD\n"},
    {"neighbours on one rank send nothing", "0F0,1F0,1B0,0B0", WEFT_LOWERING_WEFT, WEFT_OK,
     "0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD\n"},
    {"a split backward sends after I and reduces after W", "0F0,0I0,0W0\n1F0,1I0,1W0",
     WEFT_LOWERING_WEFT, WEFT_OK,
     "0F0,0SEND_F0,0RECV_B0,0I0,0W0,0REDUCE_GRAD\n1RECV_F0,1F0,1I0,1SEND_B0,1W0,1REDUCE_GRAD\n"},
    {"messages are received in the order of sending", "0F0,0F1,0B1,0B0\n1F1,1F0,1B1,1B0",
     WEFT_LOWERING_WEFT, WEFT_OK,
     "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B1,0B1,0RECV_B0,0B0,0REDUCE_GRAD\n"
     "1RECV_F0,1RECV_F1,1F1,1F0,1B1,1SEND_B1,1B0,1SEND_B0,1REDUCE_GRAD\n"},
    {"a reduction in another place is moved", "0F0,1F0,1B0,0B0,0REDUCE_GRAD,1REDUCE_GRAD",
     WEFT_LOWERING_WEFT, WEFT_OK, "0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD\n"},
    {"two pipes with a stage on one rank reduce it once",
     "0F1,2F1,2F0,2B0,2I1,0B1,2W1\n0F0,0B0\n1F0,1F1,1B0,1I1,1W1", WEFT_LOWERING_WEFT, WEFT_OK,
     "0F1,0SEND_F1,2RECV_F0,2RECV_F1,2F1,2F0,2B0,2SEND_B0,2I1,2SEND_B1,0RECV_B1,0B1,0REDUCE_GRAD,"
     "2W1,2REDUCE_GRAD\n"
     "0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n"
     "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,1RECV_B0,1B0,1SEND_B0,1RECV_B1,1I1,1SEND_B1,"
     "1W1,1REDUCE_GRAD\n"},
    {"a pair receives for both and sends after both",
     "0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1", WEFT_LOWERING_WEFT, WEFT_OK,
     "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
     "1RECV_F0,1F0,1RECV_F1,(1F1;1B0)OVERLAP_F_B,1SEND_B0,1B1,1SEND_B1,1REDUCE_GRAD\n"},
    {"a schedule that already contains messages",
     "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", WEFT_LOWERING_WEFT, WEFT_USAGE,
     "already contains messages"},
    {"a deadlock", "0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1", WEFT_LOWERING_TORCH_2_10, WEFT_SCHEDULE,
     "the schedule deadlocks"},
    {"a forward is missing", "0F0,0B0\n1B0", WEFT_LOWERING_WEFT, WEFT_SCHEDULE,
     "no sender or no receiver"},
    {"a stage and micro on two ranks", "0F0,1F0,1B0\n0B0", WEFT_LOWERING_WEFT, WEFT_SCHEDULE,
     "two ranks run stage 0, micro 0"},
    {"a stage and micro on two ranks, as PyTorch", "0F0,1F0,1B0\n0B0", WEFT_LOWERING_TORCH_2_10,
     WEFT_SCHEDULE, "two ranks run stage 0, micro 0"},
};

static void check_text(void **state)
{
    const struct text_case *c = *state;
    struct weft_schedule *s = NULL, *lowered = NULL;
    struct weft_error err = {.msg = ""};
    char *text = NULL;
    assert_int_equal(weft_schedule_parse(c->text, strlen(c->text), "t", &s, NULL), WEFT_OK);
    assert_int_equal(weft_schedule_lower(s, c->how, &lowered, &err), c->status);
    if (c->status == WEFT_OK) {
        assert_int_equal(
            weft_schedule_print(lowered, WEFT_TEXT_FORMAT_PYTORCH, &text, NULL, NULL), WEFT_OK);
        assert_string_equal(text, c->want);
    } else {
        assert_null(lowered);
        assert_non_null(strstr(err.msg, c->want));
    }
    free(text);
    weft_schedule_free(lowered);
    weft_schedule_free(s);
}

/* Every lowering is found by its name; the error for another name lists all of them. */
static void check_names(void **state)
{
    struct weft_error err = {.msg = ""};
    enum weft_lowering found;
    (void)state;
    assert_int_equal(weft_lowering_find("pytorch", &found, &err), WEFT_USAGE);
    for (int how = 0; how < WEFT_N_LOWERINGS; how++) {
        const char *name = weft_lowering_name((enum weft_lowering)how);
        assert_int_equal(weft_lowering_find(name, &found, NULL), WEFT_OK);
        assert_int_equal(found, how);
        assert_non_null(strstr(err.msg, name));
    }
}

int main(void)
{
    size_t n_generators, n = 0;
    const struct weft_generator *all = weft_generator_list(&n_generators);
    struct CMUnitTest *tests = calloc(2 * n_generators + WEFT_LEN(texts) + 1, sizeof *tests);
    if (tests == NULL)
        return 1;
    for (size_t i = 0; i < WEFT_LEN(texts); i++)
        tests[n++] = (struct CMUnitTest){texts[i].name, check_text, NULL, NULL, &texts[i]};
    for (size_t i = 0; i < 2 * n_generators; i++)
        tests[n++] = (struct CMUnitTest){all[i / 2].name, i % 2 ? check_torch : check_late,
                                         NULL, NULL, (void *)&all[i / 2]};
    tests[n++] = (struct CMUnitTest){"names", check_names, NULL, NULL, NULL};
    int failed = _cmocka_run_group_tests("lower", tests, n, NULL, NULL);
    free(tests);
    return failed != 0;
}
