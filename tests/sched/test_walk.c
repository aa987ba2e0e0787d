/* Checks that the walk runs every action once, in order and after its dependencies, and that it
 * describes blocked ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "planning/sched/walk.h"

/* An independent record of the actions that have run. */
struct diary {
    const struct weft_placement *place;
    bool *done; /* owned: (kinds, stages, micros) */
    size_t *at; /* owned: (ranks), position of each rank */
    size_t n_done;
};

static bool *entry(struct diary *d, unsigned kind, uint32_t stage, uint32_t micro)
{
    return &d->done[((size_t)kind * d->place->n_stages + stage) * d->place->n_micros + micro];
}

static bool has_gradient(struct diary *d, uint32_t stage, uint32_t micro)
{
    return *entry(d, WEFT_ACT_B, stage, micro) || *entry(d, WEFT_ACT_I, stage, micro);
}

static bool may_run(struct diary *d, struct weft_action a)
{
    uint32_t s = a.stage, m = a.micro;

    switch (a.kind) {
    case WEFT_ACT_F:
        return s == 0 || *entry(d, WEFT_ACT_F, s - 1, m);
    case WEFT_ACT_B:
    case WEFT_ACT_I:
        return *entry(d, WEFT_ACT_F, s, m) &&
               (s + 1 == d->place->n_stages || has_gradient(d, s + 1, m));
    case WEFT_ACT_W:
        return *entry(d, WEFT_ACT_I, s, m);
    case WEFT_ACT_SEND_F:
        return *entry(d, WEFT_ACT_F, s, m);
    case WEFT_ACT_SEND_B:
        return has_gradient(d, s, m);
    case WEFT_ACT_RECV_F:
        return *entry(d, WEFT_ACT_SEND_F, s - 1, m);
    case WEFT_ACT_RECV_B:
        return *entry(d, WEFT_ACT_SEND_B, s + 1, m);
    default:
        return true;
    }
}

static void follow(struct diary *d, const struct weft_schedule *s, struct wf_walk_run run)
{
    struct weft_action_span row = weft_schedule_rank(s, run.rank);
    assert_int_equal(run.begin, d->at[run.rank]);
    assert_true(run.end > run.begin && run.end <= row.len);
    for (size_t i = run.begin; i < run.end; i++) {
        struct weft_action a = row.at[i];
        assert_true(may_run(d, a));
        if (weft_act_has_micro(a.kind)) {
            assert_false(*entry(d, a.kind, a.stage, a.micro));
            *entry(d, a.kind, a.stage, a.micro) = true;
        }
        d->n_done++;
    }
    d->at[run.rank] = run.end;
}

static void walk_all(const struct weft_schedule *s, enum wf_walk_mode mode, size_t depth)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    size_t cells = (size_t)place->n_stages * place->n_micros;
    struct diary d = {.place = place,
                      .done = calloc(WEFT_N_ACT_KINDS * cells, sizeof(bool)),
                      .at = calloc(place->n_ranks, sizeof(size_t))};
    struct wf_channels channels;
    struct wf_walk w;
    struct wf_walk_run run;
    struct wf_walk_stall block;

    assert_true(d.done != NULL && d.at != NULL);
    assert_int_equal(wf_channels_init(&channels, place, false, NULL), WEFT_OK);
    assert_int_equal(wf_walk_init(&w, s, mode, &channels, depth, NULL), WEFT_OK);

    while (wf_walk_next(&w, &run))
        follow(&d, s, run);
    assert_int_equal(d.n_done, weft_schedule_n_actions(s));
    assert_int_equal(w.n_done, w.n_total);

    for (uint32_t r = 0; r < place->n_ranks; r++)
        assert_false(wf_walk_get_stall(&w, r, &block));

    wf_walk_release(&w);
    wf_channels_release(&channels);
    free(d.done);
    free(d.at);
}

static void check_generator(void **state)
{
    const struct weft_generator *g = *state;
    static const struct weft_gen_params sizes[] = {
        {.ranks = 1, .micros = 2}, {.ranks = 2, .micros = 4}, {.ranks = 4, .micros = 8}};
    for (size_t i = 0; i < WEFT_LEN(sizes); i++) {
        struct weft_schedule *s = NULL, *late = NULL, *pytorch = NULL;
        if (weft_schedule_generate(g->name, &sizes[i], &s, NULL) != WEFT_OK)
            continue;
        assert_int_equal(weft_schedule_lower(s, WEFT_LOWERING_WEFT, &late, NULL), WEFT_OK);
        if (weft_schedule_placement(s)->n_pipes == 1)
            assert_int_equal(weft_schedule_lower(s, WEFT_LOWERING_TORCH_2_15, &pytorch, NULL),
                             WEFT_OK);
        walk_all(s, WF_WALK_MODE_COMPUTE, WF_DEPTH_UNLIMITED);
        walk_all(late, WF_WALK_MODE_MESSAGES, WF_DEPTH_UNLIMITED);
        if (pytorch != NULL) {
            walk_all(pytorch, WF_WALK_MODE_MESSAGES, 1);
            walk_all(pytorch, WF_WALK_MODE_MESSAGES, WF_DEPTH_RENDEZVOUS);
        }
        weft_schedule_free(pytorch);
        weft_schedule_free(late);
        weft_schedule_free(s);
    }
}

/* -- deadlocks ----------------------------------------------------------------------------- */

static struct stuck_case {
    const char *name, *text;
    enum wf_walk_mode mode;
    size_t depth;
    uint32_t rank;
    size_t position;
    const char *action, *for_action;
    uint32_t for_rank;
    bool full;
} stuck[] = {
    {"a forward waits for the previous stage's forward", "0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1",
     WF_WALK_MODE_COMPUTE, WF_DEPTH_UNLIMITED, 1, 0, "1F1", "0F1", 0, false},
    {"a backward waits for B", "0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1", WF_WALK_MODE_COMPUTE,
     WF_DEPTH_UNLIMITED, 0, 1, "0B0", "1B0", 1, false},
    {"a backward waits for I if the next stage splits its backward",
     "0F0,0B0,0F1,0B1\n1F1,1F0,1I0,1W0,1B1", WF_WALK_MODE_COMPUTE, WF_DEPTH_UNLIMITED, 0, 1,
     "0B0", "1I0", 1, false},
    {"a receive waits for its send", "0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0",
     WF_WALK_MODE_MESSAGES, WF_DEPTH_UNLIMITED, 0, 1, "0RECV_B0", "1SEND_B0", 1, false},
    {"a send waits for its receiver",
     "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
     "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1",
     WF_WALK_MODE_MESSAGES, WF_DEPTH_RENDEZVOUS, 0, 3, "0SEND_F1", "1RECV_F1", 1, true},
};

static void check_stuck(void **state)
{
    const struct stuck_case *c = *state;
    struct weft_schedule *s = NULL;
    struct wf_channels channels;
    struct wf_walk w;
    struct wf_walk_run run;
    struct wf_walk_stall block;
    char text[WEFT_ACTION_TEXT_MAX];
    assert_int_equal(weft_schedule_parse(c->text, strlen(c->text), "t", &s, NULL), WEFT_OK);
    assert_int_equal(wf_channels_init(&channels, weft_schedule_placement(s), false, NULL),
                     WEFT_OK);
    assert_int_equal(wf_walk_init(&w, s, c->mode, &channels, c->depth, NULL), WEFT_OK);

    while (wf_walk_next(&w, &run))
        continue;
    assert_true(w.n_done < w.n_total);

    assert_true(wf_walk_get_stall(&w, c->rank, &block));
    assert_int_equal(block.position, c->position);
    assert_int_equal(block.for_rank, c->for_rank);
    assert_int_equal(block.full, c->full);

    weft_action_print(block.action, text);
    assert_string_equal(text, c->action);
    weft_action_print(block.for_action, text);
    assert_string_equal(text, c->for_action);

    wf_walk_release(&w);
    wf_channels_release(&channels);
    weft_schedule_free(s);
}

int main(void)
{
    size_t n_generators, n = 0;
    const struct weft_generator *all = weft_generator_list(&n_generators);
    struct CMUnitTest *tests = calloc(n_generators + WEFT_LEN(stuck), sizeof *tests);
    if (tests == NULL)
        return 1;
    for (size_t i = 0; i < n_generators; i++)
        tests[n++] =
            (struct CMUnitTest){all[i].name, check_generator, NULL, NULL, (void *)&all[i]};
    for (size_t i = 0; i < WEFT_LEN(stuck); i++)
        tests[n++] = (struct CMUnitTest){stuck[i].name, check_stuck, NULL, NULL, &stuck[i]};
    int failed = _cmocka_run_group_tests("walk", tests, n, NULL, NULL);
    free(tests);
    return failed != 0;
}
