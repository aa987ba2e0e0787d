/* Which instructions are used: the best, or less when WEFT_ISA says so. */
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

/* What a new process chooses when WEFT_ISA is `wish`; NULL: not set. */
static int choice(const char *wish)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (wish == NULL)
            unsetenv("WEFT_ISA");
        else
            setenv("WEFT_ISA", wish, 1);
        _exit((int)weft_isa());
    }
    int status;
    assert_true(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void check_choice(void **state)
{
    (void)state;
    int best = choice(NULL);
    assert_in_range(best, WEFT_ISA_PORTABLE, WEFT_ISA_AVX512_BF16);
    for (int isa = WEFT_ISA_PORTABLE; isa <= WEFT_ISA_AVX512_BF16; isa++)
        assert_int_equal(choice(weft_isa_name((enum weft_isa)isa)), isa < best ? isa : best);
    assert_int_equal(choice("quantum"), best);
    assert_int_equal(choice(""), best);
}

static void check_names(void **state)
{
    (void)state;
    assert_string_equal(weft_isa_name(WEFT_ISA_PORTABLE), "portable");
    assert_string_equal(weft_isa_name(WEFT_ISA_AVX2), "avx2");
    assert_string_equal(weft_isa_name(WEFT_ISA_AVX512), "avx512");
    assert_string_equal(weft_isa_name(WEFT_ISA_AVX512_BF16), "avx512_bf16");
}

/* Every member of every table is there, and the tables are what weft_ops() chooses from. */
static void check_tables(void **state)
{
    (void)state;
    assert_ptr_equal(weft_ops(), weft_ops_of(weft_isa()));
    assert_non_null(weft_ops_of(WEFT_ISA_PORTABLE));
    for (int isa = -1; isa <= WEFT_ISA_AVX512_BF16; isa++) {
        const struct weft_ops *ops = isa < 0 ? &weft_ops_ref : weft_ops_of((enum weft_isa)isa);
        assert_int_equal(ops != NULL, isa <= (int)weft_isa());
        for (size_t i = 0; ops != NULL && i < sizeof *ops / sizeof(void (*)(void)); i++)
            assert_non_null(((void *const *)(const void *)ops)[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_choice), /* first: it must decide before this process has */
        cmocka_unit_test(check_names),
        cmocka_unit_test(check_tables),
    };
    return cmocka_run_group_tests_name("isa", tests, NULL, NULL) != 0;
}
