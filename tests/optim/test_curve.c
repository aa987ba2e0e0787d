/* Learning rates against a reference run and against straight lines; clipping. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "compute/optim/curve.h"

static void check_near(double have, double want)
{
    if (!(fabs(have - want) <= 1e-15 * fabs(want)))
        fail_msg("want %.17g, have %.17g", want, have);
}

/* Computed in float64 by another system. */
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
    const struct weft_curve c = {WEFT_CURVE_COSINE, 0.001, 0.0001, 3, 10};
    for (size_t i = 0; i < WEFT_LEN(want); i++)
        check_near(weft_curve_lr(&c, i), want[i]);
}

static struct curve_case {
    const char *name;
    struct weft_curve curve;
    uint64_t step;
    double want;
} cases[] = {
    {"warm-up begins above nought", {WEFT_CURVE_LINEAR, 1, 0, 4, 12}, 0, 0.25},
    {"warm-up ends at lr", {WEFT_CURVE_LINEAR, 1, 0, 4, 12}, 3, 1},
    {"linear begins at lr", {WEFT_CURVE_LINEAR, 1, 0.5, 4, 12}, 4, 1},
    {"linear, halfway", {WEFT_CURVE_LINEAR, 1, 0.5, 4, 12}, 8, 0.75},
    {"linear, a quarter left", {WEFT_CURVE_LINEAR, 1, 0, 4, 12}, 10, 0.25},
    {"linear ends at min_lr", {WEFT_CURVE_LINEAR, 1, 0.5, 4, 12}, 12, 0.5},
    {"and stays there", {WEFT_CURVE_LINEAR, 1, 0.5, 4, 12}, UINT64_MAX, 0.5},
    {"cosine, no warm-up", {WEFT_CURVE_COSINE, 2, 0, 0, 10}, 0, 2},
    {"cosine, halfway", {WEFT_CURVE_COSINE, 1, 0.5, 0, 10}, 5, 0.75},
    {"cosine, a third", {WEFT_CURVE_COSINE, 1, 0, 3, 12}, 6, 0.75},
    {"cosine ends at min_lr", {WEFT_CURVE_COSINE, 1, 0.125, 3, 10}, 10, 0.125},
    {"wsd is stable", {WEFT_CURVE_WSD, 1, 0, 10, 110}, 50, 1},
    {"wsd, the last before the way down", {WEFT_CURVE_WSD, 1, 0, 10, 110}, 90, 1},
    {"wsd, a quarter down", {WEFT_CURVE_WSD, 1, 0.5, 10, 110}, 95, 0.875},
    {"wsd, halfway", {WEFT_CURVE_WSD, 1, 0, 10, 110}, 100, 0.5},
    {"wsd ends at min_lr", {WEFT_CURVE_WSD, 1, 0.125, 10, 110}, 110, 0.125},
    {"wsd of few steps has no way down", {WEFT_CURVE_WSD, 1, 0.5, 0, 4}, 3, 1},
    {"constant warms up", {WEFT_CURVE_CONSTANT, 1, 0, 4, 0}, 1, 0.5},
    {"constant stays", {WEFT_CURVE_CONSTANT, 1, 0, 4, 10}, 1000, 1},
    {"warm-up beyond the end", {WEFT_CURVE_COSINE, 1, 0.25, 20, 10}, 15, 0.8},
    {"then min_lr", {WEFT_CURVE_COSINE, 1, 0.25, 20, 10}, 20, 0.25},
    {"no steps to decay over", {WEFT_CURVE_COSINE, 1, 0.25, 0, 0}, 0, 0.25},
    {"more steps than a double counts", {WEFT_CURVE_WSD, 1, 0, 1, UINT64_MAX}, 1 << 20, 1},
};

static void check_curve(void **state)
{
    const struct curve_case *c = *state;
    check_near(weft_curve_lr(&c->curve, c->step), c->want);
}

static void check_clip(void **state)
{
    (void)state;
    check_near(weft_clip_scale(0.5, 1), 1);
    check_near(weft_clip_scale(0, 1), 1);
    check_near(weft_clip_scale(1, 1), 1 / 1.000001);
    check_near(weft_clip_scale(3.999999, 1), 0.25);
    check_near(weft_clip_scale(1e9, 0), 1);
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
