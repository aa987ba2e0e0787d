/* Tests how the MPI launcher is detected from its environment variables. */
#include "weft/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK",
                                    "SLURM_PROCID"};

static void test_launcher(void **state)
{
    static const struct {
        const char *what;
        const char *set; /* one letter per name: 1 if the variable is set */
        const char *launcher;
    } cases[] = {
        {"a plain start", "00000", NULL},
        {"Open MPI's mpirun", "10010", "openmpi"},
        {"Open MPI's mpirun inside srun", "11111", "openmpi"},
        {"MPICH's mpirun", "01100", "mpich"},
        {"MPICH's mpirun inside srun with PMIx", "01111", "mpich"},
        {"srun with PMI-2", "01101", "mpich"},
        {"srun with PMIx", "00011", "openmpi"},
        {"srun without MPI", "00001", NULL},
        {"only one variable of MPICH", "01000", NULL},
    };

    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        for (size_t k = 0; k < WEFT_LEN(names); k++)
            if (cases[i].set[k] == '1')
                setenv(names[k], "2", 1);
            else
                unsetenv(names[k]);

        const char *got = weft_comm_launcher();
        if ((got == NULL) != (cases[i].launcher == NULL) ||
            (got != NULL && strcmp(got, cases[i].launcher) != 0))
            fail_msg("%s: %s", cases[i].what, got == NULL ? "none" : got);
    }
}

static enum weft_status nothing(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    (void)comm;
    (void)arg;
    (void)err;
    return WEFT_OK;
}

static void test_no_launcher(void **state)
{
    struct weft_error err = {0};
    (void)state;
    for (size_t k = 0; k < WEFT_LEN(names); k++)
        unsetenv(names[k]);
    assert_int_equal(weft_comm_run_mpi(nothing, NULL, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "mpirun"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launcher),
        cmocka_unit_test(test_no_launcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
