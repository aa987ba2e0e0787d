/* Runs the conformance suite on ranks that are threads. */
#include "conform.h"

static enum weft_status launch(void *arg, uint32_t n, weft_rank_fn *fn, void *fn_arg,
                               struct weft_error *err)
{
    (void)arg;
    return weft_comm_run_threads(n, fn, fn_arg, err);
}

static void test_conformance(void **state)
{
    const struct weft_conformance_setup setup = {.launch = launch};
    (void)state;
    conform(&setup, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_conformance)};
    return cmocka_run_group_tests_name("inproc", tests, NULL, NULL) != 0;
}
