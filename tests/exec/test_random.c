/* Runs many random valid schedules with calls of random duration.  The results equal those of
 * sequential execution, whether messages are passed by reference or copied. */
#include "weft/exec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "deep.h"
#include "forked.h"
#include "table.h"
#include "tracer.h"

static weft_launch_fn *launch; /* starts processes; NULL: threads */

static size_t case_count(void)
{
    return test_is_deep() ? 2000 : 400;
}

struct tally {
    size_t n, rejected, lowered, pytorch, two_way, paired, blocks, copying, forward_only;
};

/* Returns a random schedule, with messages in a random order or without messages. */
static struct weft_schedule *random_schedule(struct dice *d, struct tally *tally)
{
    static struct table t;
    struct wf_text text = {0};
    struct weft_schedule *s = NULL;
    struct random_shape shape = {.ranks = 1 + dice_below(d, 5),
                                 .stages = 1 + dice_below(d, 8),
                                 .micros = 1 + dice_below(d, 6),
                                 .pipes = dice_once_in(d, 3) ? 2 : 1,
                                 .messages = dice_once_in(d, 2)};
    table_random(&t, shape, d);
    table_print(&t, "\n", &text);
    tally->paired += strchr(text.at, '(') != NULL;
    struct weft_error err = {.msg = ""};
    if (weft_schedule_parse(text.at, text.len, "random", &s, &err) != WEFT_OK)
        fail_msg("%s\n%s", err.msg, text.at);
    wf_text_release(&text);
    return s;
}

/* Adds messages to half of the schedules as PyTorch does.  A schedule that would deadlock that
 * way is rejected and runs unchanged. */
static struct weft_schedule *lower(struct weft_schedule *s, struct dice *d, struct tally *tally)
{
    struct weft_schedule *lowered = NULL;
    if (weft_schedule_is_lowered(s)) {
        tally->lowered++;
        return s;
    }
    if (!dice_once_in(d, 2))
        return s;
    if (weft_schedule_lower(s, WEFT_LOWERING_TORCH_2_10, &lowered, NULL) != WEFT_OK) {
        tally->rejected++;
        return s;
    }
    tally->pytorch++;
    weft_schedule_free(s);
    return lowered;
}

/* Replaces some schedules by their forwards. */
static struct weft_schedule *drop_backwards(struct weft_schedule *s, struct dice *d,
                                            struct tally *tally)
{
    struct weft_schedule *forward = NULL;
    if (!dice_once_in(d, 4))
        return s;
    assert_int_equal(weft_schedule_forward_only(s, &forward, NULL), WEFT_OK);
    weft_schedule_free(s);
    tally->forward_only++;
    return forward;
}

static void add_blocks(struct tracer_model *m, struct dice *d)
{
    m->row_elements = 2 * (1 + dice_below(d, 8));
    for (uint32_t i = 0; i < m->n_stages; i++)
        m->words[i] = m->row_elements / 2;
    for (uint32_t i = 1; i < m->n_micros; i++)
        m->rows[i] = m->rows[0];
    m->finished_by[m->n_blocks++] = 0;
    for (uint32_t s = 0; s < m->n_stages; s++)
        for (uint32_t n = dice_below(d, 3); n > 0 && m->n_blocks < TRACER_STAGES; n--)
            m->finished_by[m->n_blocks++] = s;
}

static void add_case(struct tracer_batch *b, uint64_t number, struct tally *tally)
{
    struct dice d = {.seed = 2025, .stream = number};
    struct weft_schedule *s = lower(random_schedule(&d, tally), &d, tally);
    s = drop_backwards(s, &d, tally);
    const struct weft_placement *place = weft_schedule_placement(s);
    struct tracer_model model;

    tracer_model_init(&model, place, 3, number);
    model.delays = !dice_once_in(&d, 4);
    if (dice_once_in(&d, 3))
        add_blocks(&model, &d);
    else
        model.tensors = dice_once_in(&d, 2);
    model.vary_rows = model.n_blocks == 0 && dice_once_in(&d, 3);
    model.has_outputs = dice_once_in(&d, 2);

    bool first = model.has_outputs && dice_once_in(&d, 2);
    struct tracer_run run = {.model = &model,
                             .steps = 2,
                             .evals = dice_below(&d, 4),
                             .lay_slots = dice_once_in(&d, 2),
                             .shuffle_ranks = true,
                             .outputs_on = first ? WEFT_OUTPUTS_ON_FIRST : WEFT_OUTPUTS_ON_LAST,
                             .cache = (enum weft_block_cache)dice_below(&d, 3),
                             .copying = (enum copying)dice_below(&d, 3),
                             .launch = launch};

    snprintf(run.label, sizeof run.label, "case %zu, %u ranks, %u stages, %u micros%s%s",
             (size_t)number, place->n_ranks, place->n_stages, place->n_micros,
             run.copying ? ", copying" : "", model.n_blocks > 0 ? ", blocks" : "");

    tally->n++;
    tally->two_way += place->n_pipes > 1;
    tally->blocks += model.n_blocks > 0;
    tally->copying += run.copying != COPYING_NONE;
    tracer_batch_add(b, s, &run);
}

static void check_random(void **state)
{
    static struct tracer_batch batch;
    struct tally tally = {0};
    const size_t n_cases = case_count();
    (void)state;
    for (uint64_t i = 0; i < n_cases; i++)
        add_case(&batch, i, &tally);
    tracer_batch_finish(&batch);
    print_message(
        "%zu runs: with messages %zu, lowered like PyTorch %zu (rejected %zu), two-way "
        "%zu, with pairs %zu, with blocks %zu, copying %zu, forward-only %zu\n",
        tally.n, tally.lowered, tally.pytorch, tally.rejected, tally.two_way, tally.paired,
        tally.blocks, tally.copying, tally.forward_only);
    assert_int_equal(batch.n_run, n_cases);
    assert_true(tally.lowered > n_cases / 4);
    assert_true(tally.pytorch > n_cases / 8);
    assert_true(tally.two_way > n_cases / 8);
    assert_true(tally.paired > n_cases / 4);
    assert_true(tally.blocks > n_cases / 5);
    assert_true(tally.copying > n_cases / 3);
    assert_true(tally.forward_only > n_cases / 8);
}

int main(int argc, char **argv)
{
    launch = forked_select(argc, argv);
    const struct CMUnitTest tests[] = {
        {"random schedules", check_random, NULL, NULL, NULL},
    };
    return cmocka_run_group_tests_name("random", tests, NULL, NULL) != 0;
}
