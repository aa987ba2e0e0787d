/* Checks that functions with a status report a missing pointer, with a message, instead of a
 * crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "weft/activations.h"
#include "weft/comm.h"
#include "weft/schedule.h"
#include "weft/sync.h"

/* Checks the status and the text of an error. */
#define REPORTS(call, text)                                                                    \
    do {                                                                                       \
        struct weft_error err = {.msg = ""};                                                   \
        assert_int_equal((call), WEFT_USAGE);                                                  \
        assert_int_equal(err.status, WEFT_USAGE);                                              \
        if (strstr(err.msg, text) == NULL)                                                     \
            fail_msg("%s: %s", text, err.msg);                                                 \
    } while (0)

static void check_activations(void **state)
{
    struct weft_activations *a = NULL;
    const float x[2] = {1, 2};
    float *room;
    const float *got;
    (void)state;
    REPORTS(weft_activations_new(1, 1, 2, NULL, &err), "result");
    assert_int_equal(weft_activations_new(1, 1, 2, &a, NULL), WEFT_OK);
    REPORTS(weft_activations_store(NULL, WEFT_BOUNDARY_ACTIVATION, 0, x, 2, &err),
            "the store is NULL");
    REPORTS(weft_activations_store(a, WEFT_BOUNDARY_ACTIVATION, 0, NULL, 2, &err), "is NULL");
    REPORTS(weft_activations_place(NULL, WEFT_BOUNDARY_ACTIVATION, 0, &room, &err), "store");
    REPORTS(weft_activations_place(a, WEFT_BOUNDARY_ACTIVATION, 0, NULL, &err), "result");
    REPORTS(weft_activations_get(NULL, WEFT_BOUNDARY_ACTIVATION, 0, &got, &err), "store");
    REPORTS(weft_activations_get(a, WEFT_BOUNDARY_ACTIVATION, 0, NULL, &err), "result");
    REPORTS(weft_activations_drop(NULL, WEFT_BOUNDARY_ACTIVATION, 0, &err), "store");
    assert_int_equal(weft_activations_size(NULL) + weft_activations_bytes(NULL), 0);
    assert_int_equal(weft_activations_bytes(a), 0); /* the failed calls changed nothing */
    weft_activations_reset(NULL);
    weft_activations_free(NULL);
    weft_activations_free(a);
}

static void check_sync(void **state)
{
    struct weft_sync *s = NULL;
    float x[1] = {1};
    bool done;
    (void)state;
    REPORTS(weft_sync_new(NULL, WEFT_SYNC_SUM, &s, &err), "communicator");
    REPORTS(weft_sync_register(NULL, 0, NULL, NULL, 0, &err), "the reducer is NULL");
    REPORTS(weft_sync_register_params(NULL, 0, NULL, 0, &err), "the reducer is NULL");
    REPORTS(weft_sync_push(NULL, 0, 0, x, &err), "the reducer is NULL");
    REPORTS(weft_sync_test(NULL, 0, &done, &err), "the reducer is NULL");
    REPORTS(weft_sync_wait(NULL, 0, &err), "the reducer is NULL");
    REPORTS(weft_sync_leave(NULL, &err), "the reducer is NULL");
    assert_int_equal(weft_sync_counts(NULL).messages, 0);
    weft_sync_on_complete(NULL, NULL, NULL, NULL);
    weft_sync_free(NULL);
}

static enum weft_status use_comm(struct weft_comm *comm, void *arg, struct weft_error *out)
{
    struct weft_message m = {0};
    struct weft_sync *s = NULL;
    (void)arg;
    REPORTS(weft_comm_send(comm, NULL, &err), "the message is NULL");
    REPORTS(weft_comm_post(comm, NULL, &err), "the message is NULL");
    REPORTS(weft_comm_test(comm, NULL, &err), "the message is NULL");
    REPORTS(weft_comm_wait(comm, NULL, &err), "the message is NULL");
    REPORTS(weft_comm_send(NULL, &m, &err), "communicator");
    REPORTS(weft_comm_post(NULL, &m, &err), "communicator");
    REPORTS(weft_comm_test(NULL, &m, &err), "communicator");
    REPORTS(weft_comm_wait(NULL, &m, &err), "communicator");
    REPORTS(weft_sync_new(comm, WEFT_SYNC_SUM, NULL, &err), "result");
    WEFT_TRY(weft_sync_new(comm, WEFT_SYNC_SUM, &s, out));
    REPORTS(weft_sync_test(s, 0, NULL, &err), "result");
    weft_sync_free(s);
    return WEFT_OK;
}

static void check_comm(void **state)
{
    (void)state;
    assert_int_equal(weft_comm_run_threads(1, use_comm, NULL, NULL), WEFT_OK);
}

static void check_schedule(void **state)
{
    const struct weft_gen_params params = {.ranks = 1, .micros = 1};
    struct weft_schedule *s = NULL, *forward = NULL;
    (void)state;
    assert_int_equal(weft_schedule_generate("gpipe", &params, &s, NULL), WEFT_OK);
    REPORTS(weft_schedule_forward_only(NULL, &forward, &err), "schedule");
    REPORTS(weft_schedule_forward_only(s, NULL, &err), "result");
    assert_null(forward);
    weft_schedule_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_activations),
        cmocka_unit_test(check_sync),
        cmocka_unit_test(check_comm),
        cmocka_unit_test(check_schedule),
    };
    return cmocka_run_group_tests_name("null", tests, NULL, NULL) != 0;
}
