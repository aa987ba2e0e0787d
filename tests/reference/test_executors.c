/* Compares schedules, timing and proofs with recordings of boostr, the second reference
 * system: makespans of its executors, whether they complete, its message tags, and sizes that
 * it should refuse. */
#include "records.h"
#include "weft/reference.h"
#include "weft/verify.h"

static struct weft_schedule *generate(const struct records *r, int field)
{
    struct weft_gen_params params = {.ranks = lines_count(&r->l, field + 1),
                                     .micros = lines_count(&r->l, field + 3)};
    struct weft_schedule *s = NULL;
    struct weft_error err;
    if (strcmp(r->l.fields[field], "gpipe") == 0)
        params.chunks = lines_count(&r->l, field + 2);
    if (weft_schedule_generate(r->l.fields[field], &params, &s, &err) != WEFT_OK)
        fail_line(&r->l, "%s", err.msg);
    return s;
}

/* Checks the makespan of the same order, the work of each rank, and the largest number of saved
 * micro-batches. */
static void expect_makespan(const struct records *r)
{
    struct weft_schedule *s = generate(r, 1);
    struct weft_metrics m;
    double peaks[16];
    assert_int_equal(weft_metrics_init(&m, s, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(lines_list(&r->l, 7, peaks, 16), m.n_ranks);
    if (m.makespan != lines_number(&r->l, 5))
        fail_line(&r->l, "makespan %g", m.makespan);
    for (uint32_t k = 0; k < m.n_ranks; k++)
        if (m.busy[k] != lines_number(&r->l, 6) || (double)m.peak_activations[k] != peaks[k])
            fail_line(&r->l, "rank %u: work %g, peak %zu", k, m.busy[k], m.peak_activations[k]);
    weft_metrics_release(&m);
    weft_schedule_free(s);
}

/* Proves that the lowered schedule completes, also where the executors of boostr deadlock.
 * With rendezvous or without tags, messages need the common order of PyTorch's lowering. */
static void expect_completion(const struct records *r)
{
    bool ignored = r->l.fields[5][0] == 'i', rendezvous = r->l.fields[6][0] == 'r';
    struct weft_channel_model model = {rendezvous ? 0 : WEFT_CHANNEL_BUFFERED, ignored};
    struct weft_schedule *s = generate(r, 1), *lowered = NULL;
    struct weft_verify_result result;
    enum weft_lowering how =
        rendezvous || ignored ? WEFT_LOWERING_TORCH_2_10 : WEFT_LOWERING_WEFT;
    assert_int_equal(weft_schedule_lower(s, how, &lowered, NULL), WEFT_OK);
    assert_int_equal(weft_verify(lowered, &model, &result, NULL), WEFT_OK);
    if (result.n_findings > 0)
        fail_line(&r->l, "%s", result.findings[0].text);
    weft_verify_result_release(&result);
    weft_schedule_free(lowered);
    weft_schedule_free(s);
}

static void expect_tag(const struct records *r)
{
    struct weft_error err = {0};
    uint32_t tag = 0;
    enum weft_status st =
        weft_reference_activation_tag(records_number(r, 1), records_number(r, 2) != 0,
                                      (uint32_t)records_number(r, 3), &tag, &err);
    if (r->n_texts > 0 ? st != WEFT_NUMERIC || strcmp(err.msg, r->texts[0]) != 0
                       : st != WEFT_OK || tag != records_number(r, 4))
        fail_line(&r->l, "%u: %s", tag, err.msg);
}

static void check_executors(void **state)
{
    struct records r;
    int makespans = 0, completed = 0, deadlocks = 0, tags = 0;

    (void)state;
    for (records_open(&r, "reference_exec.txt"); records_next(&r);)
        switch (r.l.fields[0][0]) {
        case 'm':
            expect_makespan(&r);
            makespans++;
            break;
        case 'r':
            expect_completion(&r);
            *(r.l.fields[7][0] == 'd' ? &deadlocks : &completed) += 1;
            break;
        default:
            expect_tag(&r);
            tags++;
        }

    assert_int_equal(makespans, 39);
    assert_int_equal(completed + deadlocks, 213);
    assert_in_range(deadlocks, 50, 213);
    assert_int_equal(tags, 11);
}

/* 0 ranks, 0 micro-batches and ranks that do not exist are errors.  0 chunks
 * mean the default. */
static void check_refused(void **state)
{
    struct records r;
    int n = 0;
    (void)state;
    for (records_open(&r, "reference_refused.txt"); records_next(&r); n++) {
        bool is_gpipe = strcmp(r.l.fields[0], "gpipe") == 0;
        struct weft_gen_params params = {.ranks = lines_count(&r.l, 1),
                                         .chunks = is_gpipe ? lines_count(&r.l, 2) : 0,
                                         .micros = lines_count(&r.l, 3)};
        struct weft_schedule *s = NULL;
        struct weft_error err = {0};
        char *row = NULL;

        enum weft_status st = weft_schedule_generate(r.l.fields[0], &params, &s, &err);
        if (params.ranks == 0 || params.micros == 0) {
            if (st != WEFT_USAGE || s != NULL)
                fail_line(&r.l, "status %d: %s", (int)st, err.msg);
            continue;
        }

        if (st != WEFT_OK)
            fail_line(&r.l, "%s", err.msg);
        if (params.chunks == 0 && is_gpipe)
            assert_int_equal(weft_schedule_n_chunks(s), 1);

        st = weft_schedule_print_rank(s, lines_count(&r.l, 4), " ", &row, &err);
        if (st != (lines_count(&r.l, 4) >= params.ranks ? WEFT_USAGE : WEFT_OK))
            fail_line(&r.l, "status %d: %s", (int)st, err.msg);

        free(row);
        weft_schedule_free(s);
    }

    assert_int_equal(n, 187);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_executors),
        cmocka_unit_test(check_refused),
    };
    return cmocka_run_group_tests_name("executors", tests, NULL, NULL) != 0;
}
