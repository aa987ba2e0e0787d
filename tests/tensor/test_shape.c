/* Checks sizes, offsets and texts of tensors at a boundary against values computed by hand. */
#include "weft/tensor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static const struct weft_tensor_shape mixed[] = {
    {WEFT_DTYPE_F32, 2, {5, 3}}, /* 60 bytes per row */
    {WEFT_DTYPE_U8, 1, {1}},
    {WEFT_DTYPE_BF16, 3, {1, 2, 7}}, /* 28 bytes per row */
};

static void test_layout(void **state)
{
    size_t bytes = 0;
    (void)state;
    /* Two rows: 120 bytes, at 128: 2 bytes, at 192: 56 bytes. */
    assert_int_equal(weft_tensors_bytes(mixed, 3, 2, &bytes, NULL), WEFT_OK);
    assert_int_equal(bytes, 192 + 56);
    assert_int_equal(weft_tensors_offset(mixed, 3, 2, 0), 0);
    assert_int_equal(weft_tensors_offset(mixed, 3, 2, 1), 128);
    assert_int_equal(weft_tensors_offset(mixed, 3, 2, 2), 192);
    assert_int_equal(weft_tensors_offset(mixed, 3, 2, 3), SIZE_MAX);
    /* One row: 60 bytes, at 64: 1 byte, at 128: 28 bytes. */
    assert_int_equal(weft_tensors_bytes(mixed, 3, 1, &bytes, NULL), WEFT_OK);
    assert_int_equal(bytes, 128 + 28);
    assert_int_equal(weft_tensors_offset(mixed, 3, 1, 2), 128);
    assert_int_equal(weft_tensors_bytes(NULL, 0, 1, &bytes, NULL), WEFT_OK);
    assert_int_equal(bytes, 0);
}

static void test_text(void **state)
{
    struct weft_tensor_shape many[WEFT_MAX_TENSORS], other[WEFT_MAX_TENSORS];
    char text[96], differs[96];
    (void)state;
    weft_tensors_print(mixed, 3, 2, text, sizeof text);
    assert_string_equal(text, "f32[10,3] u8[2] bf16[2,2,7]");
    weft_tensors_print(NULL, 0, 2, text, sizeof text);
    assert_string_equal(text, "");

    /* A long list is cut off; the hash depends on the part that is not shown. */
    for (uint32_t i = 0; i < WEFT_MAX_TENSORS; i++)
        many[i] = other[i] = (struct weft_tensor_shape){WEFT_DTYPE_F64, 2, {1, 1000 + i}};
    other[WEFT_MAX_TENSORS - 1].dims[1]++;
    weft_tensors_print(many, WEFT_MAX_TENSORS, 4, text, sizeof text);
    weft_tensors_print(other, WEFT_MAX_TENSORS, 4, differs, sizeof differs);
    assert_int_equal(strlen(text), sizeof text - 1);
    assert_int_equal(text[sizeof text - 18], '#');
    assert_memory_equal(text, "f64[4,1000] f64[4,1001] ", 24);
    assert_memory_equal(text, differs, sizeof text - 17);
    assert_string_not_equal(text, differs);
}

/* Checks the types of the second reference system, with the sizes that their names state. */
static void test_types(void **state)
{
    static const struct {
        enum weft_dtype type;
        const char *name;
        size_t bytes;
    } all[] = {
        {WEFT_DTYPE_F64, "f64", 8},       {WEFT_DTYPE_F32, "f32", 4},
        {WEFT_DTYPE_F16, "f16", 2},       {WEFT_DTYPE_BF16, "bf16", 2},
        {WEFT_DTYPE_F8E4M3, "f8e4m3", 1}, {WEFT_DTYPE_F8E5M2, "f8e5m2", 1},
        {WEFT_DTYPE_I64, "i64", 8},       {WEFT_DTYPE_I32, "i32", 4},
        {WEFT_DTYPE_I16, "i16", 2},       {WEFT_DTYPE_I8, "i8", 1},
        {WEFT_DTYPE_U64, "u64", 8},       {WEFT_DTYPE_U32, "u32", 4},
        {WEFT_DTYPE_U16, "u16", 2},       {WEFT_DTYPE_U8, "u8", 1},
        {WEFT_DTYPE_BOOL, "bool", 1},     {WEFT_DTYPE_C64, "c64", 8},
        {WEFT_DTYPE_C128, "c128", 16},
    };

    (void)state;
    for (size_t i = 0; i < WEFT_LEN(all); i++) {
        assert_string_equal(weft_dtype_name(all[i].type), all[i].name);
        assert_int_equal(weft_dtype_bytes(all[i].type), all[i].bytes);
    }

    assert_int_equal(weft_dtype_bytes(WEFT_DTYPE_NONE), 0);
    assert_int_equal(weft_dtype_bytes((enum weft_dtype)99), 0);
    assert_string_equal(weft_dtype_name((enum weft_dtype)99), "?");
}

static void test_errors(void **state)
{
    static const struct {
        struct weft_tensor_shape shape;
        enum weft_status status;
        const char *message;
    } cases[] = {
        {{WEFT_DTYPE_F32, 0, {0}}, WEFT_USAGE, "tensor 0 has 0 dimensions (expected 1 to 8"},
        {{WEFT_DTYPE_F32, 9, {1}}, WEFT_USAGE, "tensor 0 has 9 dimensions"},
        {{WEFT_DTYPE_NONE, 1, {1}}, WEFT_USAGE, "tensor 0 has the element type 0"},
        {{(enum weft_dtype)77, 1, {1}}, WEFT_USAGE, "tensor 0 has the element type 77"},
        {{WEFT_DTYPE_F64, 2, {UINT64_MAX / 4, 9}}, WEFT_NOMEM, "too large"},
        {{WEFT_DTYPE_U8, 1, {UINT64_MAX / 2}}, WEFT_NOMEM, "too large"},
    };

    struct weft_tensor_shape many[WEFT_MAX_TENSORS + 1];
    struct weft_error err = {.msg = ""};
    size_t bytes = 17;

    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        assert_int_equal(weft_tensors_bytes(&cases[i].shape, 1, 1, &bytes, &err),
                         cases[i].status);
        if (strstr(err.msg, cases[i].message) == NULL)
            fail_msg("case %zu: %s", i, err.msg);
    }

    for (size_t i = 0; i < WEFT_LEN(many); i++)
        many[i] = mixed[0];
    assert_int_equal(weft_tensors_bytes(many, WEFT_LEN(many), 1, &bytes, &err), WEFT_USAGE);
    assert_int_equal(weft_tensors_bytes(NULL, 1, 1, &bytes, &err), WEFT_USAGE);
    assert_int_equal(weft_tensors_bytes(many, 1, 1, NULL, &err), WEFT_USAGE);
    assert_int_equal(bytes, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests_name("shape", tests, NULL, NULL) != 0;
}
