/* Compressed files as streams: all formats, sizes around the buffers, several members, damaged
 * and truncated data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <cmocka.h>

#include "base/error.h"
#include "training/unpack/unpack.h"

enum { ROOM = 1 << 20 };

/* Each function appends a member to `out` and returns its length. */

static size_t pack_gzip(char *out, size_t room, const char *text, size_t len)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (z_const Bytef *)text;
    z.avail_in = (uInt)len;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = z.total_out;
    deflateEnd(&z);
    return n;
}

static size_t pack_zstd(char *out, size_t room, const char *text, size_t len)
{
    ZSTD_CCtx *z = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1); /* as the zstd program does */
    size_t n = ZSTD_compress2(z, out, room, text, len);
    assert_false(ZSTD_isError(n));
    ZSTD_freeCCtx(z);
    return n;
}

static size_t pack_xz(char *out, size_t room, const char *text, size_t len)
{
    size_t n = 0;
    assert_int_equal(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, NULL, (const uint8_t *)text,
                                             len, (uint8_t *)out, &n, room),
                     LZMA_OK);
    return n;
}

static size_t pack_bzip2(char *out, size_t room, const char *text, size_t len)
{
    unsigned n = (unsigned)room;
    assert_int_equal(BZ2_bzBuffToBuffCompress(out, &n, (char *)text, (unsigned)len, 1, 0, 0),
                     BZ_OK);
    return n;
}

static struct format {
    const char *name;
    size_t (*pack)(char *out, size_t room, const char *text, size_t len);
} formats[] = {
    {"gzip", pack_gzip},
    {"zstd", pack_zstd},
    {"xz", pack_xz},
    {"bzip2", pack_bzip2},
};

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

static enum weft_status unpack(const char *data, size_t n, size_t max_bytes, char **out,
                               size_t *len, const char **packing, struct weft_error *err)
{
    struct wf_stream *s = NULL;
    FILE *in = fmemopen((char *)data, n, "rb");
    assert_non_null(in);
    enum weft_status st = wf_stream_new(in, "t", &s, err);
    if (st == WEFT_OK) {
        *packing = wf_stream_packing(s);
        st = wf_stream_read_all(s, "t", max_bytes, out, len, err);
    }
    wf_stream_free(s);
    fclose(in);
    return st;
}

static void unpacked(void **state)
{
    const struct format *f = *state;
    static const size_t sizes[] = {0, 1, 65535, 65536, 65537, 300000};
    char *data = malloc(ROOM);
    assert_non_null(data);
    for (size_t i = 0; i < WEFT_LEN(sizes); i++) {
        char *text = make_text(sizes[i]), *out = NULL;
        const char *packing = NULL;
        size_t len = 7, n = f->pack(data, ROOM, text, sizes[i]);
        n += f->pack(data + n, ROOM - n, "xy", 2); /* the result is the text of both members */
        assert_int_equal(unpack(data, n, 1 << 20, &out, &len, &packing, NULL), WEFT_OK);
        assert_string_equal(packing, f->name);
        assert_int_equal(len, sizes[i] + 2);
        assert_memory_equal(out, text, sizes[i]);
        assert_string_equal(out + sizes[i], "xy");
        free(out);
        free(text);
    }
    free(data);
}

/* A limit of n bytes admits n bytes, and no more. */
static void limited(void **state)
{
    const struct format *f = *state;
    char *text = make_text(100000), *data = malloc(ROOM), *out = NULL;
    const char *packing = NULL;
    struct weft_error err = {0};
    size_t len = 0, n = f->pack(data, ROOM, text, 100000);
    assert_int_equal(unpack(data, n, 100000, &out, &len, &packing, NULL), WEFT_OK);
    assert_int_equal(len, 100000);
    free(out);
    assert_int_equal(unpack(data, n, 99999, &out, &len, &packing, &err), WEFT_DATA);
    assert_non_null(strstr(err.msg, "larger than 99999 bytes"));
    free(data);
    free(text);
}

/* Every truncation is an error.  No changed byte crashes, and the text is never silently
 * another one: all formats have checksums. */
static void damaged(void **state)
{
    const struct format *f = *state;
    enum { LEN = 5000 };
    char *text = make_text(LEN), *data = malloc(ROOM), *out = NULL;
    const char *packing = NULL;
    struct weft_error err = {0};
    size_t len = 0, n = f->pack(data, ROOM, text, LEN);
    for (size_t cut = 12; cut < n; cut++) {
        assert_int_equal(unpack(data, cut, ROOM, &out, &len, &packing, &err), WEFT_DATA);
        assert_non_null(strstr(err.msg, "truncated"));
    }
    for (size_t i = 12; i < n; i++) {
        data[i] ^= 0x21;
        if (unpack(data, n, ROOM, &out, &len, &packing, &err) == WEFT_OK) {
            assert_int_equal(len, LEN);
            assert_memory_equal(out, text, LEN);
            free(out);
        }
        data[i] ^= 0x21;
    }
    free(data);
    free(text);
}

/* Bytes of no format are read as they are; peeking does not consume them. */
static void plain(void **state)
{
    (void)state;
    static const char text[] = "BZh9 is a word, and \x1f is a byte";
    struct wf_stream *s = NULL;
    const char *head = NULL;
    char have[sizeof text];
    size_t n = 0;
    FILE *in = fmemopen((char *)text, sizeof text, "rb");
    assert_int_equal(wf_stream_new(in, "t", &s, NULL), WEFT_OK);
    assert_null(wf_stream_packing(s));
    assert_int_equal(wf_stream_peek(s, 4, &head, &n, NULL), WEFT_OK);
    assert_int_equal(n, 4);
    assert_memory_equal(head, "BZh9", 4);
    assert_int_equal(wf_stream_read(s, have, sizeof have, &n, NULL), WEFT_OK);
    assert_int_equal(n, sizeof text);
    assert_memory_equal(have, text, sizeof text);
    assert_int_equal(wf_stream_read(s, have, 1, &n, NULL), WEFT_OK);
    assert_int_equal(n, 0);
    wf_stream_free(s);
    fclose(in);
}

int main(void)
{
    struct CMUnitTest tests[3 * WEFT_LEN(formats) + 1];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(formats); i++) {
        tests[n++] = (struct CMUnitTest){"unpacked", unpacked, NULL, NULL, &formats[i]};
        tests[n++] = (struct CMUnitTest){"limited", limited, NULL, NULL, &formats[i]};
        tests[n++] = (struct CMUnitTest){"damaged", damaged, NULL, NULL, &formats[i]};
    }
    tests[n++] = (struct CMUnitTest){"plain", plain, NULL, NULL, NULL};
    return cmocka_run_group_tests_name("stream", tests, NULL, NULL) != 0;
}
