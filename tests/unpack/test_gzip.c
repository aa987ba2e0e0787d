/* Decompression: sizes around the limit, several members, damaged and truncated data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>
#include <cmocka.h>

#include "base/error.h"
#include "unpack/unpack.h"

enum { ROOM = 1 << 20 };

/* Appends a member to `out` and returns the new length. */
static size_t pack(char *out, size_t used, const char *text, size_t len)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (z_const Bytef *)text;
    z.avail_in = (uInt)len;
    z.next_out = (Bytef *)out + used;
    z.avail_out = (uInt)(ROOM - used);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = z.total_out;
    deflateEnd(&z);
    return used + n;
}

/* A text of `len` bytes that compresses well. */
static char *make_text(size_t len)
{
    char *text = malloc(len + 1);
    assert_non_null(text);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)('a' + i / 1000 % 26);
    text[len] = '\0';
    return text;
}

static void unpacked(void **state)
{
    static const size_t sizes[] = {0, 1, 65535, 65536, 65537, 300000};
    char *data = malloc(ROOM);
    (void)state;
    assert_non_null(data);
    for (size_t i = 0; i < WEFT_LEN(sizes); i++) {
        char *text = make_text(sizes[i]), *out = NULL;
        size_t len = 7, n = pack(data, 0, text, sizes[i]);
        n = pack(data, n, "xy", 2); /* the result is the text of both members */
        assert_int_equal(wf_unpack_gzip(data, n, "t", 1 << 20, &out, &len, NULL), WEFT_OK);
        assert_int_equal(len, sizes[i] + 2);
        assert_memory_equal(out, text, sizes[i]);
        assert_string_equal(out + sizes[i], "xy");
        free(out);
        free(text);
    }
    free(data);
}

/* A small file must not allocate more than the limit. */
static void limited(void **state)
{
    char *data = malloc(ROOM), *text = make_text(100000), *out = NULL;
    struct weft_error err = {.msg = ""};
    size_t len, n;
    (void)state;
    assert_non_null(data);
    n = pack(data, 0, text, 100000);
    assert_true(n < 1000);
    assert_int_equal(wf_unpack_gzip(data, n, "t", 100000, &out, &len, NULL), WEFT_OK);
    assert_int_equal(len, 100000);
    free(out);
    out = NULL;
    assert_int_equal(wf_unpack_gzip(data, n, "t", 99999, &out, &len, &err), WEFT_DATA);
    assert_non_null(strstr(err.msg, "t: larger than 99999 bytes after decompression"));
    assert_null(out);
    free(text);
    free(data);
}

static void damaged(void **state)
{
    char *data = malloc(ROOM), *text = make_text(5000), *out = NULL;
    struct weft_error err = {.msg = ""};
    size_t len, n;
    (void)state;
    assert_non_null(data);
    n = pack(data, 0, text, 5000);
    for (size_t cut = 2; cut < n; cut++) {
        assert_int_equal(wf_unpack_gzip(data, cut, "t", ROOM, &out, &len, &err), WEFT_DATA);
        assert_non_null(strstr(err.msg, "t: the compressed data is truncated"));
    }
    /* Every changed byte is detected or is one that the format ignores. */
    for (size_t i = 0; i < n; i++) {
        data[i] = (char)(data[i] ^ 0x55);
        if (wf_unpack_gzip(data, n, "t", ROOM, &out, &len, &err) == WEFT_OK) {
            assert_int_equal(len, 5000);
            assert_memory_equal(out, text, 5000);
            free(out);
        }
        data[i] = (char)(data[i] ^ 0x55);
    }
    data[n - 6] ^= 1; /* the checksum */
    assert_int_equal(wf_unpack_gzip(data, n, "t", ROOM, &out, &len, &err), WEFT_DATA);
    assert_non_null(strstr(err.msg, "t: the compressed data is damaged"));
    free(text);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unpacked),
        cmocka_unit_test(limited),
        cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests_name("gzip", tests, NULL, NULL) != 0;
}
