/* Sets of processors. */
#define _GNU_SOURCE /* sched_setaffinity */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cores.h"

static void check_own(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    struct wf_cores all = wf_cores_affinity();
    assert_int_equal(wf_cores_count(&all), CPU_COUNT(&before));
    assert_int_equal(wf_cores_count(&all), wf_cores_available());
    int first = 0;
    while (!CPU_ISSET(first, &before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    struct wf_cores single = wf_cores_affinity();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(wf_cores_count(&single), 1);
    assert_true(single.words[first / 64] == UINT64_C(1) << first % 64);
    wf_cores_union(&single, &all); /* already in the set */
    assert_int_equal(wf_cores_count(&single), wf_cores_count(&all));
}

static void check_union(void **state)
{
    (void)state;
    struct wf_cores a = {{0x3, 0}}, b = {{0x6, [15] = UINT64_C(1) << 63}}, none = {{0}};
    wf_cores_union(&a, &b);
    assert_int_equal(wf_cores_count(&a), 4); /* 0, 1, 2 and 1023 */
    assert_int_equal(wf_cores_count(&none), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_own),
                                       cmocka_unit_test(check_union)};
    return cmocka_run_group_tests_name("cores", tests, NULL, NULL) != 0;
}
