/* Compares learning rates with a reference run and with formulas, and tests clipping. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "compute/optim/lr_curve.h"

static void check_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-15 * fabs(want)))
        fail_msg("want %.17g, got %.17g", want, got);
}

/* Another system computed the expected values in float64. */
static void check_reference(void **state)
{
    (void)state;
    static const double want[] = {
        0.0003333333333333333,
        0.0006666666666666666,
        0.001,
        0.001,
        0.0009554359905560886,
        0.0008305704108364302,
        0.0006501344202803415,
        0.00044986557971965854,
    };
    const struct wf_lr_curve c = {WF_LR_CURVE_COSINE, 0.001, 0.0001, 3, 10};
    for (size_t i = 0; i < WEFT_LEN(want); i++)
        check_near(wf_lr_curve_at(&c, i), want[i]);
}

static struct curve_case {
    const char *name;
    struct wf_lr_curve curve;
    uint64_t step;
    double want;
} cases[] = {
    {"warm-up begins above 0", {WF_LR_CURVE_LINEAR, 1, 0, 4, 12}, 0, 0.25},
    {"warm-up ends at lr", {WF_LR_CURVE_LINEAR, 1, 0, 4, 12}, 3, 1},
    {"linear begins at lr", {WF_LR_CURVE_LINEAR, 1, 0.5, 4, 12}, 4, 1},
    {"linear, halfway", {WF_LR_CURVE_LINEAR, 1, 0.5, 4, 12}, 8, 0.75},
    {"linear, a quarter remains", {WF_LR_CURVE_LINEAR, 1, 0, 4, 12}, 10, 0.25},
    {"linear ends at min_lr", {WF_LR_CURVE_LINEAR, 1, 0.5, 4, 12}, 12, 0.5},
    {"linear stays at min_lr", {WF_LR_CURVE_LINEAR, 1, 0.5, 4, 12}, UINT64_MAX, 0.5},
    {"cosine, no warm-up", {WF_LR_CURVE_COSINE, 2, 0, 0, 10}, 0, 2},
    {"cosine, halfway", {WF_LR_CURVE_COSINE, 1, 0.5, 0, 10}, 5, 0.75},
    {"cosine, a third", {WF_LR_CURVE_COSINE, 1, 0, 3, 12}, 6, 0.75},
    {"cosine ends at min_lr", {WF_LR_CURVE_COSINE, 1, 0.125, 3, 10}, 10, 0.125},
    {"wsd is stable", {WF_LR_CURVE_WSD, 1, 0, 10, 110}, 50, 1},
    {"wsd, the last stable step", {WF_LR_CURVE_WSD, 1, 0, 10, 110}, 90, 1},
    {"wsd, a quarter of the decay", {WF_LR_CURVE_WSD, 1, 0.5, 10, 110}, 95, 0.875},
    {"wsd, halfway", {WF_LR_CURVE_WSD, 1, 0, 10, 110}, 100, 0.5},
    {"wsd ends at min_lr", {WF_LR_CURVE_WSD, 1, 0.125, 10, 110}, 110, 0.125},
    {"wsd of few steps has no decay", {WF_LR_CURVE_WSD, 1, 0.5, 0, 4}, 3, 1},
    {"constant warms up", {WF_LR_CURVE_CONSTANT, 1, 0, 4, 0}, 1, 0.5},
    {"constant stays", {WF_LR_CURVE_CONSTANT, 1, 0, 4, 10}, 1000, 1},
    {"warm-up beyond the end", {WF_LR_CURVE_COSINE, 1, 0.25, 20, 10}, 15, 0.8},
    {"min_lr after the warm-up", {WF_LR_CURVE_COSINE, 1, 0.25, 20, 10}, 20, 0.25},
    {"no steps to decay over", {WF_LR_CURVE_COSINE, 1, 0.25, 0, 0}, 0, 0.25},
    {"more steps than a double counts", {WF_LR_CURVE_WSD, 1, 0, 1, UINT64_MAX}, 1 << 20, 1},
};

static void check_curve(void **state)
{
    const struct curve_case *c = *state;
    check_near(wf_lr_curve_at(&c->curve, c->step), c->want);
}

static void check_clip(void **state)
{
    (void)state;
    check_near(wf_clip_scale(0.5, 1), 1);
    check_near(wf_clip_scale(0, 1), 1);
    check_near(wf_clip_scale(1, 1), 1 / 1.000001);
    check_near(wf_clip_scale(3.999999, 1), 0.25);
    check_near(wf_clip_scale(1e9, 0), 1);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + 2] = {
        cmocka_unit_test(check_reference),
        cmocka_unit_test(check_clip),
    };
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[i + 2] = (struct CMUnitTest){cases[i].name, check_curve, NULL, NULL, &cases[i]};
    return cmocka_run_group_tests_name("curve", tests, NULL, NULL) != 0;
}
