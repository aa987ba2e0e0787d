/* Tests the choice of the instruction set: the best one, or a lower one by WEFT_ISA. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "compute/kern/isa.h"
#include "compute/kern/ops.h"

/* Returns the choice of a new process with WEFT_ISA = `requested`; NULL leaves it unset. */
static int choice(const char *requested)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (requested == NULL)
            unsetenv("WEFT_ISA");
        else
            setenv("WEFT_ISA", requested, 1);
        _exit((int)wf_isa());
    }
    int status;
    assert_true(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void check_choice(void **state)
{
    (void)state;
    int best = choice(NULL);
    assert_in_range(best, WF_ISA_PORTABLE, WF_ISA_AVX512_BF16);
    for (int isa = WF_ISA_PORTABLE; isa <= WF_ISA_AVX512_BF16; isa++)
        assert_int_equal(choice(wf_isa_name((enum wf_isa)isa)), isa < best ? isa : best);
    assert_int_equal(choice("quantum"), best);
    assert_int_equal(choice(""), best);
}

static void check_names(void **state)
{
    (void)state;
    assert_string_equal(wf_isa_name(WF_ISA_PORTABLE), "portable");
    assert_string_equal(wf_isa_name(WF_ISA_AVX2), "avx2");
    assert_string_equal(wf_isa_name(WF_ISA_AVX512), "avx512");
    assert_string_equal(wf_isa_name(WF_ISA_AVX512_BF16), "avx512_bf16");
}

/* Checks that every table is complete and that wf_ops() returns one of them. */
static void check_tables(void **state)
{
    (void)state;
    assert_ptr_equal(wf_ops(), wf_ops_of(wf_isa()));
    assert_non_null(wf_ops_of(WF_ISA_PORTABLE));
    for (int isa = -1; isa <= WF_ISA_AVX512_BF16; isa++) {
        const struct wf_ops *ops = isa < 0 ? &wf_ops_ref : wf_ops_of((enum wf_isa)isa);
        assert_int_equal(ops != NULL, isa <= (int)wf_isa());
        for (size_t i = 0; ops != NULL && i < sizeof *ops / sizeof(void (*)(void)); i++)
            assert_non_null(((void *const *)(const void *)ops)[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_choice), /* first: must run before this process has chosen */
        cmocka_unit_test(check_names),
        cmocka_unit_test(check_tables),
    };
    return cmocka_run_group_tests_name("isa", tests, NULL, NULL) != 0;
}
