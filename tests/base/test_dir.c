/* Tests whether a directory has an entry: present, absent, a dangling link, and no answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/file.h"

static char dir[] = "/tmp/weft-dir-XXXXXX";

static int make_directory(void **state)
{
    (void)state;
    char *link;
    if (mkdtemp(dir) == NULL || (link = wf_path_join(dir, "link")) == NULL)
        return -1;
    int failed = symlink("nowhere", link);
    free(link);
    return failed;
}

static int remove_directory(void **state)
{
    (void)state;
    char *link = wf_path_join(dir, "link");
    int failed = link == NULL || unlink(link) != 0 || rmdir(dir) != 0;
    free(link);
    return failed;
}

static void test_has(void **state)
{
    bool found = false;
    (void)state;
    assert_int_equal(wf_dir_has(dir, "link", &found, NULL), WEFT_OK);
    assert_true(found);
    assert_int_equal(wf_dir_has(dir, "absent", &found, NULL), WEFT_OK);
    assert_false(found);
    assert_int_equal(wf_dir_has("/nowhere/at/all", "link", &found, NULL), WEFT_OK);
    assert_false(found);
}

static void test_finds_the_first_name(void **state)
{
    static const char *const names[] = {"absent", "link", "."};
    size_t found = 9;
    (void)state;
    assert_int_equal(wf_dir_find(dir, names, 3, &found, NULL), WEFT_OK);
    assert_int_equal(found, 1);
    assert_int_equal(wf_dir_find(dir, names, 1, &found, NULL), WEFT_OK);
    assert_int_equal(found, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_has),
        cmocka_unit_test(test_finds_the_first_name),
    };
    return cmocka_run_group_tests_name("dir", tests, make_directory, remove_directory) != 0;
}
