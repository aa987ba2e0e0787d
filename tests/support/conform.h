/* Runs the conformance suite and checks that every case passes. */
#ifndef SUPPORT_CONFORM_H
#define SUPPORT_CONFORM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "weft/conformance.h"

static inline void conform_report(void *arg, const struct weft_conformance_case *c,
                                  const struct weft_error *failure)
{
    (void)arg;
    if (failure != NULL)
        print_error("%s: %s\n", c->name, failure->msg);
}

/* Runs the selected cases; `n_expected` is the number of cases that must pass, 0 for all that
 * the setup permits. */
static inline void conform(const struct weft_conformance_setup *setup, size_t n_expected)
{
    struct weft_conformance_result result = {0};
    struct weft_error err = {.msg = ""};
    size_t n_cases, n_killing = 0;
    const struct weft_conformance_case *cases = weft_conformance_cases(&n_cases);
    for (size_t i = 0; i < n_cases; i++)
        n_killing += cases[i].kills && !setup->processes; /* threads cannot be killed */
    if (n_expected == 0)
        n_expected = n_cases - n_killing;
    assert_int_equal(weft_transport_conformance(setup, conform_report, NULL, &result, &err),
                     WEFT_OK);
    assert_int_equal(result.n_failed, 0);
    assert_int_equal(result.n_passed, n_expected);
    assert_int_equal(result.n_skipped, n_cases - n_expected);
}

#endif
