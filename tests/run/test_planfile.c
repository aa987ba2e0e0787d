/* Checks that plan.json is read back as it was written, and that invalid
 * changes are rejected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "folder.h"
#include "training/run/planfile.h"

static const char good[] =
    "{\"format\":\"weft plan\",\"version\":1,\"model\":{\"arch\":\"llama\",\"layers\":3,\"dim\":64,"
    "\"heads\":4,\"kv_heads\":2,\"ffn\":96,\"vocab\":500,\"ctx\":128,\"residual_block_layers\":2,"
    "\"tied\":false,\"params\":9007199254740993},\"pp\":2,\"dp\":3,\"chunks\":1,"
    "\"schedule\":\"zb-h1\",\"bubble_plan\":0.25,"
    "\"stages\":[{\"first_layer\":0,\"layers\":1,\"embedding\":true,\"head\":false,\"ranks\":[0,2]}],"
    "\"ranks\":[{\"rank\":4,\"stages\":[0],\"planned_bytes\":77,\"bytes\":{\"weights\":1,"
    "\"gradients\":2,\"packed\":3,\"activations\":4,\"messages\":5,\"scratch\":6,\"moments\":7,"
    "\"total\":28}}],"
    "\"links\":[{\"from\":0,\"to\":1,\"forward_bytes\":10,\"backward_bytes\":20,"
    "\"forward_bytes_without_cache\":30,\"backward_bytes_without_cache\":40}]}";

static void check_read(void **state)
{
    struct wf_planfile p;
    struct weft_error err = {.msg = ""};
    assert_int_equal(wf_planfile_parse(good, strlen(good), "x", &p, &err), WEFT_OK);
    assert_int_equal(p.model.arch, WEFT_ARCH_LLAMA);
    assert_true(p.model.layers == 3 && p.model.kv_heads == 2 && !p.model.tied);
    assert_true(p.n_params == 9007199254740993 && p.pp == 2 && p.dp == 3 && p.chunks == 1);
    assert_string_equal(p.schedule, "zb-h1");
    assert_true(p.bubble_plan == 0.25);
    assert_true(p.n_stages == 1 && p.stages[0].n_ranks == 2 && p.stages[0].ranks[1] == 2);
    assert_true(p.n_ranks == 1 && p.ranks[0].rank == 4 && p.ranks[0].planned_bytes == 77);
    assert_true(p.ranks[0].bytes.scratch == 6 && p.ranks[0].bytes.total == 28);
    assert_true(p.n_links == 1 && p.links[0].backward_bytes_without_cache == 40);
    wf_planfile_release(&p);
    (void)state;
}

/* Writing, reading and writing again gives the same bytes. */
static void check_round_trip(void **state)
{
    struct folder f = folder_new();
    struct wf_planfile p, again;
    char first[2000], second[2000];
    assert_int_equal(wf_planfile_parse(good, strlen(good), "x", &p, NULL), WEFT_OK);
    assert_int_equal(wf_planfile_write(folder_in(&f, "a"), &p, NULL), WEFT_OK);
    assert_int_equal(wf_planfile_read(folder_in(&f, "a"), &again, NULL), WEFT_OK);
    assert_int_equal(wf_planfile_write(folder_in(&f, "b"), &again, NULL), WEFT_OK);
    FILE *a = fopen(folder_in(&f, "a"), "rb"), *b = fopen(folder_in(&f, "b"), "rb");
    size_t n = fread(first, 1, sizeof first, a);
    assert_int_equal(n, strlen(good) + 1); /* and a newline */
    assert_int_equal(fread(second, 1, sizeof second, b), n);
    assert_memory_equal(first, second, n);
    fclose(a);
    fclose(b);
    wf_planfile_release(&p);
    wf_planfile_release(&again);
    folder_remove(&f);
    (void)state;
}

static const struct {
    const char *from, *to, *error; /* the change, and part of the expected error */
} changes[] = {
    {"weft plan", "weft flan", "format"},
    {"\"version\":1", "\"version\":2", "version"},
    {"\"version\":1", "\"version\":1.0", "version"},
    {"\"pp\":2", "\"pp\":-2", "pp"},
    {"\"pp\":2", "\"pp\":4294967296", "pp"},
    {"\"pp\":2,", "", "plan"},
    {"\"pp\":2,", "\"pp\":2,\"more\":1,", "plan"},
    {"\"pp\":2,", "\"pp\":2,\"pp\":2,", "not valid JSON"},
    {"\"arch\":\"llama\"", "\"arch\":\"alpaca\"", "arch"},
    {"\"tied\":false", "\"tied\":0", "tied"},
    {"\"schedule\":\"zb-h1\"", "\"schedule\":7", "schedule"},
    {"\"bubble_plan\":0.25", "\"bubble_plan\":\"x\"", "bubble_plan"},
    {"\"ranks\":[0,2]", "\"ranks\":[0,-2]", "ranks"},
    {"\"ranks\":[0,2]", "\"ranks\":7", "ranks"},
    {"\"stages\":[0]", "\"stages\":[\"0\"]", "stages"},
    {"\"moments\":7,", "", "bytes"},
    {"\"from\":0", "\"from\":null", "from"},
    {"\"links\":[{", "\"links\":[3,{", "links"},
    {"]}", "", "not valid JSON"},
};

static void check_errors(void **state)
{
    for (size_t i = 0; i < WEFT_LEN(changes); i++) {
        char text[2000];
        const char *at = strstr(good, changes[i].from);
        struct wf_planfile p;
        struct weft_error err = {.msg = ""};
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, changes[i].to,
                 at + strlen(changes[i].from));
        assert_int_equal(wf_planfile_parse(text, strlen(text), "x", &p, &err), WEFT_DATA);
        assert_non_null(strstr(err.msg, changes[i].error));
    }
    struct wf_planfile p;
    assert_int_equal(wf_planfile_read("/nowhere/plan.json", &p, NULL), WEFT_DATA);
    (void)state;
}

/* Every proper prefix is rejected. */
static void check_prefixes(void **state)
{
    struct wf_planfile p;
    for (size_t n = 0; n < strlen(good); n++)
        assert_int_equal(wf_planfile_parse(good, n, "x", &p, NULL), WEFT_DATA);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_read), cmocka_unit_test(check_round_trip),
        cmocka_unit_test(check_errors), cmocka_unit_test(check_prefixes)};
    return cmocka_run_group_tests_name("planfile", tests, NULL, NULL) != 0;
}
