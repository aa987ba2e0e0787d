/* Checks every generator at all small sizes: the schedule is proven, lowered both ways, printed
 * and parsed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "deep.h"
#include "same.h"
#include "weft/timing.h"
#include "weft/verify.h"

/* Maximum sizes.  Generators that search are slower, so they are tried at fewer sizes. */
struct sizes {
    uint32_t ranks, chunks, micros;
};

static const struct sizes deep_sizes = {8, 4, 24};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const struct sizes quick_sizes = {5, 4, 12}, quick_search_sizes = {3, 2, 6};
#else
static const struct sizes quick_sizes = {6, 4, 14}, quick_search_sizes = {5, 2, 10};
#endif

static struct sizes sizes_for(const struct weft_generator *g)
{
    if (test_is_deep())
        return deep_sizes;
    return g->flags & WEFT_GEN_USES_COST ? quick_search_sizes : quick_sizes;
}

static const struct weft_channel_model buffered = {.depth = WEFT_CHANNEL_BUFFERED};
static const struct weft_channel_model rendezvous = {.depth = 0};
static const struct weft_channel_model one_queue = {.depth = 0, .by_pair = true};

static void require(bool holds, const char *what, const struct weft_gen_params *p)
{
    if (!holds)
        fail_msg("%s: P=%u V=%u M=%u", what, p->ranks, p->chunks, p->micros);
}

static bool is_valid(const struct weft_schedule *s, const struct weft_channel_model *channels)
{
    struct weft_verify_result r;
    assert_int_equal(weft_verify(s, channels, &r, NULL), WEFT_OK);
    bool valid = r.n_findings == 0;
    if (!valid)
        print_error("%s\n", r.findings[0].text);
    weft_verify_result_release(&r);
    return valid;
}

/* Compares the figures of the verifier with those of the clock, which count independently. */
static void check_figures(const struct weft_schedule *s, const struct weft_gen_params *p)
{
    struct weft_verify_result r;
    struct weft_metrics m;
    assert_int_equal(weft_verify(s, NULL, &r, NULL), WEFT_OK);
    assert_int_equal(weft_metrics_init(&m, s, NULL, NULL, NULL), WEFT_OK);
    require(r.n_findings == 0, "has findings", p);
    require(r.n_ranks == p->ranks && m.n_ranks == p->ranks, "number of ranks differs", p);
    require(r.n_compute == m.n_actions, "counts differ", p);
    for (uint32_t i = 0; i < p->ranks; i++)
        require(r.peak_activations[i] == m.peak_activations[i], "peaks differ", p);
    weft_verify_result_release(&r);
    weft_metrics_release(&m);
}

static struct weft_schedule *lower(const struct weft_schedule *s, enum weft_lowering how,
                                   const struct weft_gen_params *p)
{
    struct weft_schedule *lowered = NULL;
    require(weft_schedule_lower(s, how, &lowered, NULL) == WEFT_OK, "cannot be lowered", p);
    require(is_valid(lowered, &buffered), "has findings after lowering", p);
    require(roundtrips_text(lowered), "differs after lowering, printing and parsing", p);
    return lowered;
}

static void check_accepted(const struct weft_schedule *s, const struct weft_gen_params *p)
{
    check_figures(s, p);
    require(roundtrips_text(s), "differs after printing and parsing", p);
    weft_schedule_free(lower(s, WEFT_LOWERING_WEFT, p));
    if (weft_schedule_placement(s)->n_pipes > 1)
        return; /* PyTorch runs each stage on one rank */
    struct weft_schedule *lowered = lower(s, WEFT_LOWERING_TORCH_2_10, p);
    /* All messages follow one common order, so no channel model can block them. */
    require(is_valid(lowered, &rendezvous), "does not complete under rendezvous", p);
    require(is_valid(lowered, &one_queue), "does not complete with one queue per pair", p);
    weft_schedule_free(lowered);
}

/* Returns true if a refusal names an alternative: a number or another schedule after the
 * name of the refused one. */
static bool names_alternative(const char *msg, const char *name)
{
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    if (strncmp(msg, name, strlen(name)) != 0)
        return false;
    msg += strlen(name);
    if (strpbrk(msg, "0123456789") != NULL)
        return true;
    for (size_t i = 0; i < n; i++)
        if (strstr(msg, all[i].name) != NULL)
            return true;
    return false;
}

static size_t check_size(const struct weft_generator *g, const struct weft_gen_params *p)
{
    struct weft_schedule *s = NULL;
    struct weft_error err = {.msg = ""};
    enum weft_status st = weft_schedule_generate(g->name, p, &s, &err);
    if (st != WEFT_OK) {
        require(st == WEFT_USAGE, err.msg, p);
        require(s == NULL, "is refused, but the output is set", p);
        require(names_alternative(err.msg, g->name), err.msg, p);
        return 0;
    }
    check_accepted(s, p);
    weft_schedule_free(s);
    return 1;
}

static void check_generator(void **state)
{
    const struct weft_generator *g = *state;
    struct sizes max = sizes_for(g);
    size_t n_accepted = 0, n_tried = 0;
    struct weft_gen_params p = {0};
    for (p.ranks = 1; p.ranks <= max.ranks; p.ranks++)
        for (p.chunks = 1; p.chunks <= max.chunks; p.chunks++)
            for (p.micros = 1; p.micros <= max.micros; p.micros++, n_tried++)
                n_accepted += check_size(g, &p);
    assert_true(n_accepted > 0);
    if (g->flags & WEFT_GEN_USES_COST) /* any ranks and micros, exactly one number of chunks */
        assert_int_equal(n_accepted, max.ranks * max.micros);
    if (g->flags & WEFT_GEN_USES_CHUNKS) /* any size */
        assert_int_equal(n_accepted, n_tried);
}

int main(void)
{
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    struct CMUnitTest *tests = calloc(n, sizeof *tests);
    if (tests == NULL)
        return 1;
    for (size_t i = 0; i < n; i++)
        tests[i] =
            (struct CMUnitTest){all[i].name, check_generator, NULL, NULL, (void *)&all[i]};
    int failed = _cmocka_run_group_tests("generated", tests, n, NULL, NULL);
    free(tests);
    return failed != 0;
}
