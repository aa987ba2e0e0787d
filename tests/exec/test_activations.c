/* Checks the store for activations: recorded cases of a reference system, errors, reuse of
 * memory, and that only its creation allocates. */
#define _GNU_SOURCE
#include "sched/lines.h"

#include "counter.h"
#include "weft/activations.h"
#include "weft/schedule.h"

static struct weft_activations *make(uint32_t n_micros, size_t seq_len, size_t hidden_size)
{
    struct weft_activations *a = NULL;
    struct weft_error err;
    if (weft_activations_new(n_micros, seq_len, hidden_size, &a, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    return a;
}

static const float *get(const struct weft_activations *a, enum weft_boundary which,
                        uint32_t micro)
{
    const float *at = NULL;
    assert_int_equal(weft_activations_get(a, which, micro, &at, NULL), WEFT_OK);
    return at;
}

/* -- recorded cases ------------------------------------------------------------------------ */

/* Runs one operation, such as "A1:12".  A get adds "length:sum," to `gets`. */
static enum weft_status run_operation(struct weft_activations *a, char *op, char *gets,
                                      size_t size, struct weft_error *err)
{
    float data[64];
    char *end;
    enum weft_boundary which =
        op[0] == 'A' || op[0] == 'a' ? WEFT_BOUNDARY_ACTIVATION : WEFT_BOUNDARY_GRADIENT;
    uint32_t micro = (uint32_t)strtoul(op + 1, &end, 10);

    if (*end == ':') {
        size_t n = strtoul(end + 1, NULL, 10);
        assert_in_range(n, 0, 64);
        for (size_t i = 0; i < n; i++)
            data[i] = (float)(micro + 1);
        return weft_activations_store(a, which, micro, data, n, err);
    }

    const float *at = NULL;
    double sum = 0;
    enum weft_status st = weft_activations_get(a, which, micro, &at, err);
    size_t n = at == NULL ? 0 : weft_activations_size(a);
    for (size_t i = 0; i < n; i++)
        sum += (double)at[i];

    snprintf(gets + strlen(gets), size - strlen(gets), "%s%zu:%g", gets[0] != '\0' ? "," : "",
             n, sum);
    return st;
}

static void check_recorded(void **state)
{
    struct lines l;
    int n_ok = 0, n_errors = 0;
    (void)state;

    for (lines_open(&l, "activation_buffer.txt"); lines_next(&l);) {
        struct weft_activations *a =
            make(lines_count(&l, 0), lines_count(&l, 1), lines_count(&l, 2));
        struct weft_error err = {0};
        enum weft_status st = WEFT_OK;
        char gets[200] = "", *rest = NULL;

        for (char *op = strtok_r(l.fields[3], ",", &rest); op != NULL && st == WEFT_OK;
             op = strtok_r(NULL, ",", &rest))
            st = run_operation(a, op, gets, sizeof gets, &err);

        if (strcmp(l.fields[4], "err") == 0) {
            char expected[40], actual[40];
            n_errors++;
            snprintf(expected, sizeof expected, " %s", l.fields[5]);
            snprintf(actual, sizeof actual, " %s ", l.fields[6]);
            if (st != WEFT_USAGE || strstr(err.msg, expected) == NULL ||
                strstr(err.msg, actual) == NULL)
                fail_line(&l, "status %d: %s", (int)st, err.msg);
            assert_int_equal(weft_activations_bytes(a), 0);
        } else {
            n_ok++;
            if (st != WEFT_OK || weft_activations_size(a) != lines_count(&l, 4) ||
                weft_activations_bytes(a) != lines_count(&l, 5) ||
                strcmp(gets, l.fields[6]) != 0)
                fail_line(&l, "size %zu, %zu bytes, gets %s: %s", weft_activations_size(a),
                          weft_activations_bytes(a), gets, err.msg);
        }

        weft_activations_free(a);
    }

    assert_int_equal(n_ok, 3);
    assert_int_equal(n_errors, 5);
}

/* -- errors -------------------------------------------------------------------------------- */

static struct error_case {
    const char *name;
    int which;
    uint32_t micro;
    size_t n;
    bool null;
    const char *want;
} errors[] = {
    {"one float too few", WEFT_BOUNDARY_ACTIVATION, 1, 5, false,
     "activations: the activation of micro-batch 1 has 5 floats (expected 6 = 2 x 3)"},
    {"one float too many", WEFT_BOUNDARY_GRADIENT, 0, 7, false,
     "activations: the gradient of micro-batch 0 has 7 floats (expected 6 = 2 x 3)"},
    {"no such micro-batch", WEFT_BOUNDARY_ACTIVATION, 4, 6, false,
     "activations: micro-batch 4 is out of range (expected less than 4, the number of "
     "micro-batches)"},
    {"largest micro-batch", WEFT_BOUNDARY_GRADIENT, UINT32_MAX, 6, false,
     "activations: micro-batch 4294967295 is out of range (expected less than 4, the number of "
     "micro-batches)"},
    {"no data", WEFT_BOUNDARY_GRADIENT, 3, 6, true,
     "activations: the gradient of micro-batch 3 is NULL (expected 6 floats)"},
    {"neither kind", 2, 3, 6, false,
     "activations: 2 is not a kind of tensor (expected WEFT_BOUNDARY_ACTIVATION or "
     "WEFT_BOUNDARY_GRADIENT)"},
};

/* A failing call changes nothing in a store with one activation and one gradient. */
static void check_error(void **state)
{
    const struct error_case *c = *state;
    enum weft_boundary which = (enum weft_boundary)c->which;
    const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, other[8] = {0};
    struct weft_activations *a = make(4, 2, 3);
    struct weft_error err;
    assert_int_equal(weft_activations_store(a, WEFT_BOUNDARY_ACTIVATION, 1, x, 6, NULL),
                     WEFT_OK);
    assert_int_equal(weft_activations_store(a, WEFT_BOUNDARY_GRADIENT, 0, x + 1, 6, NULL),
                     WEFT_OK);

    assert_int_equal(
        weft_activations_store(a, which, c->micro, c->null ? NULL : other, c->n, &err),
        WEFT_USAGE);
    assert_string_equal(err.msg, c->want);
    if (c->micro >= 4 || c->which > 1) {
        float sentinel, *place = &sentinel;
        const float *got = &sentinel;
        assert_int_equal(weft_activations_place(a, which, c->micro, &place, &err), WEFT_USAGE);
        assert_string_equal(err.msg, c->want);
        assert_int_equal(weft_activations_get(a, which, c->micro, &got, &err), WEFT_USAGE);
        assert_string_equal(err.msg, c->want);
        assert_int_equal(weft_activations_drop(a, which, c->micro, &err), WEFT_USAGE);
        assert_string_equal(err.msg, c->want);
        assert_ptr_equal(place, &sentinel);
        assert_ptr_equal(got, &sentinel);
    }

    assert_int_equal(weft_activations_bytes(a), 2 * 6 * sizeof(float));
    assert_memory_equal(get(a, WEFT_BOUNDARY_ACTIVATION, 1), x, 6 * sizeof(float));
    assert_memory_equal(get(a, WEFT_BOUNDARY_GRADIENT, 0), x + 1, 6 * sizeof(float));
    assert_null(get(a, WEFT_BOUNDARY_GRADIENT, 3));
    weft_activations_free(a);
}

static void check_too_large(void **state)
{
    struct weft_activations *a = NULL;
    struct weft_error err;
    (void)state;
    assert_int_equal(weft_activations_new(2, SIZE_MAX / 2, 3, &a, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "2 micro-batches of 9223372036854775807 x 3 floats"));
    assert_int_equal(weft_activations_new(1, SIZE_MAX / 4, 1, &a, &err), WEFT_USAGE);
    assert_int_equal(weft_activations_new(UINT32_MAX, (size_t)1 << 33, 1, &a, &err),
                     WEFT_USAGE);
    assert_null(a);
}

/* -- memory -------------------------------------------------------------------------------- */

/* Stores, places, replaces and drops tensors of all micro-batches, and compares
 * with a model. */
static void check_operations(void **state)
{
    enum { MICROS = 5, SIZE = 21 }; /* no multiple of the alignment */
    struct weft_activations *a = make(MICROS, 3, 7);
    float want[2][MICROS][SIZE];
    bool stored[2][MICROS] = {{false}};
    size_t n_stored = 0;
    (void)state;

    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t pick = i * 2654435761U >> 8, k = pick & 1, m = pick / 2 % MICROS;
        enum weft_boundary which = k ? WEFT_BOUNDARY_GRADIENT : WEFT_BOUNDARY_ACTIVATION;

        if (i % 500 == 499) {
            weft_activations_reset(a);
            memset(stored, 0, sizeof stored);
            n_stored = 0;
        } else if (pick / 16 % 3 == 0) {
            assert_int_equal(weft_activations_drop(a, which, m, NULL), WEFT_OK);
            n_stored -= stored[k][m];
            stored[k][m] = false;
        } else {
            for (uint32_t e = 0; e < SIZE; e++)
                want[k][m][e] = (float)(i * SIZE + e);
            float *at = NULL;
            if (pick / 64 % 2 == 0) {
                assert_int_equal(weft_activations_place(a, which, m, &at, NULL), WEFT_OK);
                assert_int_equal((uintptr_t)at % 64, 0);
                memcpy(at, want[k][m], sizeof want[k][m]);
            }
            assert_int_equal(
                weft_activations_store(a, which, m, at != NULL ? at : want[k][m], SIZE, NULL),
                WEFT_OK);
            n_stored += !stored[k][m];
            stored[k][m] = true;
        }

        assert_int_equal(weft_activations_bytes(a), n_stored * SIZE * sizeof(float));
        for (uint32_t at = 0; at < 2 * MICROS; at++) {
            k = at / MICROS, m = at % MICROS;
            const float *got = get(a, k ? WEFT_BOUNDARY_GRADIENT : WEFT_BOUNDARY_ACTIVATION, m);
            if (!stored[k][m])
                assert_null(got);
            else
                assert_memory_equal(got, want[k][m], sizeof want[k][m]);
        }
    }

    weft_activations_free(a);
}

/* Counts the addresses that one stage of 1F1B uses: min(P - s, M) activations are stored at one
 * time if each is dropped after its backward. */
static void check_reuse(void **state)
{
    enum { RANKS = 4 };
    static const uint32_t micros[] = {1, 2, 3, 8, 64};
    (void)state;

    for (size_t i = 0; i < sizeof micros / sizeof micros[0]; i++) {
        struct weft_gen_params params = {.ranks = RANKS, .micros = micros[i]};
        struct weft_schedule *s = NULL;
        assert_int_equal(weft_schedule_generate("1f1b", &params, &s, NULL), WEFT_OK);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            struct weft_activations *a = make(micros[i], 4, 4);
            struct weft_action_span todo = weft_schedule_rank(s, rank);
            float *seen[64], *at = NULL;
            size_t n = 0, want = micros[i] < RANKS - rank ? micros[i] : RANKS - rank;

            for (size_t k = 0; k < todo.len; k++) {
                uint32_t micro = todo.at[k].micro;
                if (todo.at[k].kind == WEFT_ACT_B) {
                    assert_int_equal(
                        weft_activations_drop(a, WEFT_BOUNDARY_ACTIVATION, micro, NULL),
                        WEFT_OK);
                    continue;
                }

                assert_int_equal(
                    weft_activations_place(a, WEFT_BOUNDARY_ACTIVATION, micro, &at, NULL),
                    WEFT_OK);
                size_t p = 0;
                while (p < n && seen[p] != at)
                    p++;
                seen[p] = at;
                n += p == n;
            }

            assert_int_equal(n, want);
            assert_int_equal(weft_activations_bytes(a), 0);
            weft_activations_free(a);
        }
        weft_schedule_free(s);
    }
}

static void check_allocations(void **state)
{
    enum { MICROS = 8 };
    float x[12] = {0}, *at = NULL;
    const float *got = NULL;
    (void)state;

    if (!COUNTER_WORKS)
        skip();
    size_t before = counter_calls();
    struct weft_activations *a = make(MICROS, 3, 4);
    size_t created = counter_calls();
    assert_true(created > before); /* the counter works */

    for (int step = 0; step < 3; step++) {
        enum weft_status st = WEFT_OK;
        for (uint32_t m = 0; m < MICROS; m++) {
            st |= weft_activations_store(a, WEFT_BOUNDARY_ACTIVATION, m, x, 12, NULL);
            st |= weft_activations_place(a, WEFT_BOUNDARY_GRADIENT, m, &at, NULL);
            st |= weft_activations_get(a, WEFT_BOUNDARY_GRADIENT, m, &got, NULL);
            st |= weft_activations_drop(a, WEFT_BOUNDARY_ACTIVATION, m / 2, NULL);
        }

        assert_int_equal(st, WEFT_OK);
        assert_int_equal(weft_activations_store(a, WEFT_BOUNDARY_ACTIVATION, 0, x, 11, NULL),
                         WEFT_USAGE);
        weft_activations_reset(a);
        assert_int_equal(weft_activations_bytes(a), 0);
    }

    assert_int_equal(counter_calls(), created);
    weft_activations_free(a);
}

int main(void)
{
    enum { N_ERRORS = sizeof errors / sizeof errors[0] };
    struct CMUnitTest tests[N_ERRORS + 5] = {
        cmocka_unit_test(check_recorded), cmocka_unit_test(check_too_large),
        cmocka_unit_test(check_operations), cmocka_unit_test(check_reuse),
        cmocka_unit_test(check_allocations)};
    for (size_t i = 0; i < N_ERRORS; i++)
        tests[5 + i] = (struct CMUnitTest){errors[i].name, check_error, NULL, NULL, &errors[i]};
    return cmocka_run_group_tests_name("activations", tests, NULL, NULL) != 0;
}
