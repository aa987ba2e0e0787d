/* Compares even splits with reference systems, and tests their verification and the split of a
 * batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "weft/part.h"

/* -- recorded cases ------------------------------------------------------------------------ */

static unsigned long next(char **text)
{
    char *end;
    unsigned long n = strtoul(*text, &end, 10);
    assert_ptr_not_equal(end, *text);
    *text = end;
    return n;
}

static void replay_all(uint32_t n_layers, uint32_t n_stages, char *rest)
{
    struct weft_partition p;
    assert_int_equal(weft_partition_init_even(&p, n_layers, n_stages, NULL), WEFT_OK);
    uint32_t first = 0;
    for (uint32_t s = 0; s < n_stages; s++) {
        assert_int_equal(p.at[s].first_layer, first);
        assert_int_equal(p.at[s].end_layer, first = (uint32_t)next(&rest));
    }
    weft_partition_release(&p);
}

static void replay_one(uint32_t n_layers, uint32_t n_stages, char *rest)
{
    struct weft_partition p;
    assert_int_equal(weft_partition_init_even(&p, n_layers, n_stages, NULL), WEFT_OK);
    const struct weft_stage_range *stage = &p.at[next(&rest)];
    assert_int_equal(stage->first_layer, next(&rest));
    assert_int_equal(stage->end_layer, next(&rest));
    assert_int_equal(stage->embedding, next(&rest));
    assert_int_equal(stage->head, next(&rest));
    weft_partition_release(&p);
}

/* A partition without layers and a stage out of range are errors. */
static void replay_refuse(uint32_t n_layers, uint32_t n_stages, char *rest)
{
    struct weft_partition p = {0};
    if (n_layers == 0) {
        assert_int_equal(weft_partition_init_even(&p, 0, n_stages, NULL), WEFT_USAGE);
        return;
    }
    assert_int_equal(weft_partition_init_even(&p, n_layers, n_stages, NULL), WEFT_OK);
    assert_true(next(&rest) >= p.n_stages);
    weft_partition_release(&p);
}

static void replay_split(size_t n_items, size_t n_parts, char *rest)
{
    size_t bounds[128];
    assert_true(n_parts < WEFT_LEN(bounds));
    assert_int_equal(weft_split_ranges(n_items, n_parts, bounds, NULL), WEFT_OK);
    assert_int_equal(bounds[0], 0);
    for (size_t k = 1; k <= n_parts; k++)
        assert_int_equal(bounds[k], next(&rest));
}

static void check_recorded(void **state)
{
    (void)state;
    FILE *file = fopen(WEFT_TEST_DATA "/part_even.txt", "r");

    assert_non_null(file);
    char line[1024], word[16];
    int n_read, n_cases = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned a, b;
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%15s %u %u%n", word, &a, &b, &n_read), 3);
        char *rest = line + n_read;
        if (strcmp(word, "all") == 0)
            replay_all(a, b, rest);
        else if (strcmp(word, "one") == 0)
            replay_one(a, b, rest);
        else if (strcmp(word, "refuse") == 0)
            replay_refuse(a, b, rest);
        else if (strcmp(word, "split") == 0)
            replay_split(a, b, rest);
        else
            assert_int_equal(weft_split_ranges(a, b, NULL, NULL), WEFT_USAGE);
        n_cases++;
    }
    fclose(file);
    assert_int_equal(n_cases, 268);
}

/* -- errors -------------------------------------------------------------------------------- */

enum call { EVEN, FILLED, SPLIT };

/* clang-format off */
static struct error_case {
    const char *name;
    enum call call;
    uint32_t a, b;
    const char *want;
} errors[] = {
    {"even without layers", EVEN, 0, 4, "0 layers; give at least 1"},
    {"even without stages", EVEN, 4, 0, "0 stages; give at least 1"},
    {"even, too many layers", EVEN, (1 << 20) + 1, 1, "1048577 layers; give at most 1048576"},
    {"even, too many stages", EVEN, 1, (1 << 24) + 1, "16777217 stages; give at most 16777216"},
    {"filled without layers", FILLED, 0, 4, "0 layers"},
    {"filled without stages", FILLED, 4, 0, "0 stages"},
    {"more stages than layers", FILLED, 12, 16,
     "12 layers cannot fill 16 stages; use at most 12 stages (ranks x chunks) or an explicit "
     "layout"},
    {"one layer", FILLED, 1, 2, "1 layer cannot fill 2 stages; use at most 1 stage (ranks"},
    {"no micros", SPLIT, 5, 0, "0 micros; give at least 1"},
    {"no sequences and no micros", SPLIT, 0, 0, "0 micros"},
    {"too few sequences", SPLIT, 3, 4, "3 sequences cannot fill 4 micros; use at most 3"},
    {"one sequence", SPLIT, 1, 2, "1 sequence cannot fill 2 micros"},
};
/* clang-format on */

static void check_error(void **state)
{
    const struct error_case *c = *state;
    struct weft_error err;
    struct weft_partition p = {0};
    enum weft_status st = WEFT_OK;
    switch (c->call) {
    case EVEN:
        st = weft_partition_init_even(&p, c->a, c->b, &err);
        break;
    case FILLED:
        st = weft_partition_check_filled(c->a, c->b, &err);
        break;
    case SPLIT:
        st = weft_split_ranges(c->a, c->b, NULL, &err);
        break;
    }
    assert_int_equal(st, WEFT_USAGE);
    assert_non_null(strstr(err.msg, c->want));
    assert_null(p.at);
}

static void check_filled(void **state)
{
    (void)state;
    assert_int_equal(weft_partition_check_filled(12, 12, NULL), WEFT_OK);
    assert_int_equal(weft_partition_check_filled(1, 1, NULL), WEFT_OK);
}

/* -- verification -------------------------------------------------------------------------- */

/* clang-format off */
static struct verify_case {
    const char *name;
    uint32_t n_layers, n_stages;
    struct weft_stage_range at[3];
    const char *want; /* NULL: correct */
} verify_cases[] = {
    {"one stage", 4, 1, {{0, 4, true, true, 0}}, NULL},
    {"an empty stage in the middle", 4, 3,
     {{0, 2, true, false, 0}, {2, 2, false, false, 0}, {2, 4, false, true, 0}}, NULL},
    {"empty first and last stages", 4, 3,
     {{0, 0, true, false, 0}, {0, 4, false, false, 0}, {4, 4, false, true, 0}}, NULL},
    {"no stages", 4, 0, {{0, 4, true, true, 0}}, "0 stages"},
    {"a missing layer", 4, 2, {{0, 1, true, false, 0}, {2, 4, false, true, 0}},
     "stage 1 starts at layer 2, but layer 1 is on no earlier stage"},
    {"a layer twice", 4, 2, {{0, 3, true, false, 0}, {2, 4, false, true, 0}},
     "stage 1 starts at layer 2, but the previous stage ends at layer 3"},
    {"the first layer missing", 4, 1, {{1, 4, true, true, 0}}, "stage 0 starts at layer 1"},
    {"the last layer missing", 4, 1, {{0, 3, true, true, 0}}, "have 3 layers, the model has 4"},
    {"too many layers", 4, 1, {{0, 5, true, true, 0}}, "have 5 layers, the model has 4"},
    {"a negative range", 4, 2, {{0, 3, true, false, 0}, {3, 2, false, true, 0}},
     "stage 1 ends at layer 2, before its first layer, 3"},
    {"no embedding", 4, 1, {{0, 4, false, true, 0}}, "stage 0 has no embedding"},
    {"two embeddings", 4, 2, {{0, 3, true, false, 0}, {3, 4, true, true, 0}},
     "stage 1 has an embedding: only the first"},
    {"no head", 4, 2, {{0, 3, true, false, 0}, {3, 4, false, false, 0}}, "stage 1 has no head"},
    {"two heads", 4, 2, {{0, 3, true, true, 0}, {3, 4, false, true, 0}},
     "stage 0 has a head: only the last"},
    {"layers for multi-token prediction", 4, 3,
     {{0, 4, true, false, 0}, {4, 4, false, false, 2}, {4, 4, false, true, 0}}, NULL},
    {"these on two stages", 4, 2, {{0, 4, true, false, 1}, {4, 4, false, true, 1}},
     "stage 1 has layers, but an earlier stage has the layers for multi-token prediction"},
    {"a layer after them", 4, 2, {{0, 3, true, false, 1}, {3, 4, false, true, 0}},
     "stage 1 has layers, but an earlier stage"},
};
/* clang-format on */

static void check_verify(void **state)
{
    struct verify_case *c = *state;
    struct weft_partition p = {c->n_stages, c->at};
    struct weft_error err;
    enum weft_status st = weft_partition_verify(&p, c->n_layers, &err);
    assert_int_equal(st, c->want == NULL ? WEFT_OK : WEFT_USAGE);
    if (c->want != NULL)
        assert_non_null(strstr(err.msg, c->want));
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(errors) + WEFT_LEN(verify_cases) + 2];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(errors); i++)
        tests[n++] = (struct CMUnitTest){errors[i].name, check_error, NULL, NULL, &errors[i]};
    for (size_t i = 0; i < WEFT_LEN(verify_cases); i++)
        tests[n++] = (struct CMUnitTest){verify_cases[i].name, check_verify, NULL, NULL,
                                         &verify_cases[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_recorded);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_filled);
    return cmocka_run_group_tests_name("even", tests, NULL, NULL) != 0;
}
