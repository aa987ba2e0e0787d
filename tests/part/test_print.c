/* Layout strings that weft prints: weft reads them back, and Megatron's expansion of them gives the
 * same stages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "weft/part.h"

enum { MAX_TEXT = 4096 };

static struct weft_partition parsed(const char *text)
{
    struct weft_partition p = {0};
    struct weft_error err = {.msg = ""};
    if (weft_partition_parse_pattern(&p, text, strlen(text), 0, 0, &err) != WEFT_OK)
        fail_msg("%s: %s", text, err.msg);
    return p;
}

static void same(const struct weft_partition *a, const struct weft_partition *b)
{
    assert_int_equal(a->n_stages, b->n_stages);
    for (uint32_t s = 0; s < a->n_stages; s++) {
        assert_int_equal(a->at[s].first_layer, b->at[s].first_layer);
        assert_int_equal(a->at[s].end_layer, b->at[s].end_layer);
        assert_int_equal(a->at[s].embedding, b->at[s].embedding);
        assert_int_equal(a->at[s].head, b->at[s].head);
        assert_int_equal(a->at[s].n_mtp, b->at[s].n_mtp);
    }
}

/* What Megatron makes of a layout: it removes commas, replaces (x)*n by n copies of x, where x has
 * no parenthesis, and then replaces every c*n by n copies of the character c. */
static void expand(const char *text, bool groups, char *out)
{
    size_t n = 0;
    while (*text != '\0') {
        size_t len = 1;
        const char *item = text, *next = text + 1;
        if (*text == ',') {
            text++;
            continue;
        }
        if (groups && *text == '(') {
            item = text + 1;
            len = strcspn(item, ")");
            next = item + len + 1;
            assert_true(*next == '*');
        }
        unsigned long times = 1;
        if (*next == '*' && (!groups || *text == '(')) {
            char *end;
            times = strtoul(next + 1, &end, 10);
            next = end;
        }
        for (; times > 0; times--)
            for (size_t k = 0; k < len; k++) {
                assert_true(n + 1 < MAX_TEXT);
                if (item[k] != ',')
                    out[n++] = item[k];
            }
        text = next;
    }
    out[n] = '\0';
}

/* Compares the expanded text with the stages. */
static void check_expanded(const struct weft_partition *p, const char *text)
{
    char once[MAX_TEXT], flat[MAX_TEXT], want[MAX_TEXT];
    size_t n = 0;
    expand(text, true, once);
    expand(once, false, flat);
    for (uint32_t s = 0; s < p->n_stages; s++) {
        if (s > 0)
            want[n++] = '|';
        if (p->at[s].embedding)
            want[n++] = 'E';
        for (uint32_t l = p->at[s].first_layer; l < p->at[s].end_layer; l++)
            want[n++] = 't';
        for (uint32_t l = 0; l < p->at[s].n_mtp; l++)
            want[n++] = 'm';
        if (p->at[s].head)
            want[n++] = 'L';
    }
    want[n] = '\0';
    assert_string_equal(flat, want);
}

static void check_printed(const struct weft_partition *p, const char *want)
{
    char *text = NULL;
    assert_int_equal(weft_partition_print_pattern(p, &text, NULL), WEFT_OK);
    if (want != NULL)
        assert_string_equal(text, want);
    struct weft_partition again = parsed(text);
    same(p, &again);
    check_expanded(p, text);
    weft_partition_release(&again);
    free(text);
}

/* The first is the example of Megatron's documentation. */
static void examples(void **state)
{
    static const char *const cases[][2] = {
        {"Et*3|(tt|)*29,m|L", NULL},
        {"Ettt|tt|tt|mmmL", "Et*3|(tt|)*2,m*3L"},
        {"Et*4L", NULL},
        {"EtmL", NULL},
        {"E|t|t|t|L", "E|(t|)*3,L"},
        {"Et||||tL", "Et|(|)*3,tL"},
        {"E(t|)*2,t*2|L", "Et|t|tt|L"},
    };
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct weft_partition p = parsed(cases[i][0]);
        check_printed(&p, cases[i][1] != NULL ? cases[i][1] : cases[i][0]);
        weft_partition_release(&p);
    }
}

static void random_partitions(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 5000; k++) {
        struct weft_partition p = {0};
        uint32_t counts[40], n = 1 + wf_random_below(15, k, 0, 40), sum = 0;
        uint32_t most = 1 + wf_random_below(15, k, 1, 5);
        for (uint32_t s = 0; s < n; s++)
            sum += counts[s] = wf_random_below(15, k, 2 + s, most);
        counts[0] += sum == 0;
        assert_int_equal(weft_partition_init_counts(&p, counts, n, NULL), WEFT_OK);
        uint32_t stage = n - 1; /* a stage that no layer follows */
        while (stage > 0 && counts[stage] == 0 && wf_random_below(15, k, 100 + stage, 2) == 0)
            stage--;
        p.at[stage].n_mtp = wf_random_below(15, k, 99, 4);
        check_printed(&p, NULL);
        weft_partition_release(&p);
    }
}

/* m costs as much as the last layer. */
static void costs(void **state)
{
    const struct weft_item layer = {.f = 2, .i = 3, .w = 4, .state_bytes = 5, .act_bytes = 6};
    const struct weft_item embedding = {.f = 1}, head = {.f = 10, .state_bytes = 7};
    struct weft_partition p = parsed("Ett|t|mmL");
    struct weft_items items;
    struct weft_stage_sums sums;
    (void)state;
    assert_int_equal(weft_items_init_uniform(&items, 3, layer, embedding, head, NULL), WEFT_OK);
    assert_int_equal(weft_stage_sums_init(&sums, &p, &items, NULL), WEFT_OK);
    assert_true(sums.f[0] == 5 && sums.f[1] == 2 && sums.f[2] == 2 * 2 + 10);
    assert_true(sums.i[2] == 6 && sums.w[2] == 8);
    assert_int_equal(sums.state_bytes[2], 2 * 5 + 7);
    assert_int_equal(sums.act_bytes[2], 12);
    weft_stage_sums_release(&sums);
    weft_items_release(&items);
    weft_partition_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples),
        cmocka_unit_test(random_partitions),
        cmocka_unit_test(costs),
    };
    return cmocka_run_group_tests_name("layout strings", tests, NULL, NULL) != 0;
}
