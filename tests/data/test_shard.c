/* Tests token shards: reads across shard boundaries, damaged files, and writing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/error.h"
#include "folder.h"
#include "training/data/shard.h"

static void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

/* Writes a little-endian header and fills the file up to its size. */
static void make_header(unsigned char *bytes, uint32_t magic, uint32_t version, uint32_t count)
{
    const uint32_t words[] = {magic, version, count};
    memset(bytes, 0, 1024);
    for (size_t i = 0; i < 12; i++)
        bytes[i] = (unsigned char)(words[i / 4] >> 8 * (i % 4));
}

/* Writes a shard of tokens 7 * i + first without the code under test. */
static void write_counting(const char *path, uint32_t n, uint32_t width, uint32_t first)
{
    unsigned char bytes[1024 + 4 * 64];
    assert_true(n <= 64);
    make_header(bytes, width == 2 ? 20240520 : 20240801, width == 2 ? 1 : 7, n);
    for (uint32_t i = 0; i < n * width; i++)
        bytes[1024 + i] = (unsigned char)((first + 7 * (i / width)) >> 8 * (i % width));
    write_bytes(path, bytes, 1024 + n * width);
}

/* -- reading ------------------------------------------------------------------------------- */

enum { N_A = 5, N_B = 1, N_C = 9, N_ALL = N_A + N_B + N_C };

/* Three shards of both widths: every range equals that of the joined tokens. */
static void check_borders(void **state)
{
    (void)state;
    struct folder f = folder_new();
    write_counting(folder_in(&f, "b.bin"), N_B, 4, 70000);
    write_counting(folder_in(&f, "a.bin"), N_A, 2, 65000);
    write_counting(folder_in(&f, "c.bin"), N_C, 2, 0);
    write_bytes(folder_in(&f, "notes.txt"), "x", 1);
    write_bytes(folder_in(&f, ".hidden.bin"), "x", 1);

    int32_t want[N_ALL];
    for (int32_t i = 0; i < N_ALL; i++)
        want[i] = i < N_A         ? 65000 + 7 * i
                  : i < N_A + N_B ? 70000 + 7 * (i - N_A)
                                  : 7 * (i - N_A - N_B);

    struct wf_shards *s = NULL;
    assert_int_equal(wf_shards_open(f.path, &s, NULL), WEFT_OK);
    assert_int_equal(wf_shards_n_tokens(s), N_ALL);
    assert_int_equal(wf_shards_n_files(s), 3);
    assert_string_equal(wf_shards_path(s, 1), folder_in(&f, "b.bin"));

    for (size_t at = 0; at <= N_ALL; at++)
        for (size_t n = 0; at + n <= N_ALL; n++) {
            int32_t have[N_ALL + 1];
            memset(have, 0x55, sizeof have);
            assert_int_equal(wf_shards_read(s, at, n, 70001, have, NULL), WEFT_OK);
            assert_memory_equal(have, want + at, n * sizeof have[0]);
            assert_int_equal(have[n], 0x55555555);
        }

    wf_shards_free(s);
    folder_remove(&f);
}

/* Reads more tokens than one read returns, from more shards than stay open. */
static void check_many(void **state)
{
    (void)state;
    enum { FILES = 300, LONG = 30000 };
    struct folder f = folder_new();
    for (uint32_t i = 0; i < FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, "s%03u.bin", i);
        write_counting(folder_in(&f, name), 2, 2, i);
    }

    int32_t *tokens = malloc(sizeof *tokens * LONG), *have = malloc(sizeof *have * LONG);
    assert_true(tokens != NULL && have != NULL);
    for (int32_t i = 0; i < LONG; i++)
        tokens[i] = (int32_t)((uint32_t)i * 2654435761u % 100000);
    assert_int_equal(wf_shard_write(folder_in(&f, "t.bin"), 100000, tokens, LONG, NULL),
                     WEFT_OK);

    struct wf_shards *s = NULL;
    assert_int_equal(wf_shards_open(f.path, &s, NULL), WEFT_OK);
    assert_int_equal(wf_shards_n_tokens(s), 2 * FILES + LONG);

    assert_int_equal(wf_shards_read(s, 0, 2 * FILES, 50000, have, NULL), WEFT_OK);
    for (int32_t i = 0; i < FILES; i++)
        assert_true(have[2 * i] == i && have[2 * i + 1] == i + 7);
    assert_int_equal(wf_shards_read(s, 2 * FILES, LONG, 100000, have, NULL), WEFT_OK);
    assert_memory_equal(have, tokens, sizeof *have * LONG);

    /* A shard that is opened again has changed. */
    struct weft_error err;
    write_counting(folder_in(&f, "s299.bin"), 3, 2, 0);
    assert_int_equal(wf_shards_read(s, 598, 2, 50000, have, &err), WEFT_DATA);
    assert_non_null(strstr(err.msg, "s299.bin: has changed since it was opened"));

    wf_shards_free(s);
    free(tokens);
    free(have);
    folder_remove(&f);
}

static struct list_case {
    const char *name, *list; /* '@' is the folder */
    uint64_t want;           /* tokens; a.bin has 1, b.bin 2, "c,d.bin" 4 */
    int32_t first;           /* token: 100, 200, 300 */
    const char *error;
} lists[] = {
    {"a file", "@/b.bin", 2, 200, NULL},
    {"a folder", "@", 7, 100, NULL},
    {"a folder with a slash", "@/", 7, 100, NULL},
    {"a list in the order written", "@/b.bin,@/a.bin", 3, 200, NULL},
    {"a pattern", "@/[ab].bin", 3, 100, NULL},
    {"a pattern and a file", "@/b*,@/a.bin", 3, 200, NULL},
    {"a file twice", "@/a.bin,@/a.bin", 2, 100, NULL},
    {"a name with a comma", "@/c,d.bin", 4, 300, NULL},
    {"nothing", "", 0, 0, "an empty name in the list of shards ''"},
    {"a comma at the end", "@/a.bin,", 0, 0, "an empty name in the list"},
    {"a missing file", "@/x.bin", 0, 0, "/x.bin: no such file or folder"},
    {"a pattern without matches", "@/x*", 0, 0, "/x*: no such file or folder"},
    {"a folder without shards", "@/empty", 0, 0, "/empty: no *.bin file in this folder"},
    {"a pipe", "@/pipe", 0, 0, "/pipe: is not a regular file"},
};

static void check_list(void **state)
{
    const struct list_case *c = *state;
    struct folder f = folder_new();
    write_counting(folder_in(&f, "a.bin"), 1, 2, 100);
    write_counting(folder_in(&f, "b.bin"), 2, 2, 200);
    write_counting(folder_in(&f, "c,d.bin"), 4, 2, 300);
    assert_int_equal(mkdir(folder_in(&f, "empty"), 0777), 0);
    assert_int_equal(mkfifo(folder_in(&f, "pipe"), 0666), 0);

    char list[256] = "";
    for (const char *at = c->list; *at != '\0'; at++) {
        const char one[] = {*at, '\0'};
        strcat(list, *at == '@' ? f.path : one);
    }

    struct wf_shards *s = NULL;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_shards_open(list, &s, &err);
    assert_int_equal(st, c->error == NULL ? WEFT_OK : WEFT_DATA);

    if (c->error != NULL) {
        if (strstr(err.msg, c->error) == NULL)
            fail_msg("want \"%s\", have \"%s\"", c->error, err.msg);
    } else {
        int32_t token = 0;
        assert_int_equal(wf_shards_n_tokens(s), c->want);
        assert_int_equal(wf_shards_read(s, 0, 1, 50257, &token, NULL), WEFT_OK);
        assert_int_equal(token, c->first);
    }

    wf_shards_free(s);
    folder_remove(&f);
}

/* -- refused files ------------------------------------------------------------------------- */

static struct broken_case {
    const char *name;
    uint32_t magic, version, count;
    size_t bytes; /* of the file */
    const char *error;
} broken[] = {
    {"no bytes", 20240520, 1, 4, 0, "0 bytes are not a token shard, whose header has 1024"},
    {"half a header", 20240520, 1, 4, 1023, "1023 bytes are not a token shard"},
    {"another magic", 20240326, 3, 4, 1032,
     "begins with 20240326 (expected 20240520 or 20240801)"},
    {"the version of the other format", 20240520, 7, 4, 1032,
     "unknown version 7 of shard 20240520"},
    {"an unknown version", 20240801, 1, 4, 1040, "unknown version 1 of shard 20240801"},
    {"no tokens", 20240520, 1, 0, 1024, "at byte 8: a count of 0 tokens: the shard is empty"},
    {"a negative count", 20240520, 1, 0xffffffff, 1032,
     "a count of 4294967295 tokens is too large"},
    {"2^31", 20240801, 7, 0x80000000, 1032, "a count of 2147483648 tokens is too large"},
    {"one byte missing", 20240520, 1, 4, 1031,
     "has 1031 bytes (expected 1032 for 4 tokens); it is"},
    {"one byte too many", 20240520, 1, 4, 1033, "for 4 tokens); other bytes follow"},
    {"no body", 20240801, 7, 2147483647, 1024, "1024 bytes (expected 8589935612 for"},
};

static void check_broken(void **state)
{
    const struct broken_case *c = *state;
    struct folder f = folder_new();
    unsigned char bytes[1100] = {0};
    make_header(bytes, c->magic, c->version, c->count);
    write_bytes(folder_in(&f, "x.bin"), bytes, c->bytes);
    struct wf_shards *s = NULL;
    struct weft_error err = {.msg = ""};
    assert_int_equal(wf_shards_open(f.path, &s, &err), WEFT_DATA);
    assert_null(s);
    if (strstr(err.msg, c->error) == NULL || strstr(err.msg, "/x.bin: ") == NULL)
        fail_msg("want \"%s\", have \"%s\"", c->error, err.msg);
    folder_remove(&f);
}

static void check_vocabulary(void **state)
{
    (void)state;
    struct folder f = folder_new();
    int32_t out[8];
    struct weft_error err;
    struct wf_shards *s = NULL;

    write_counting(folder_in(&f, "a.bin"), 4, 2, 0);
    write_counting(folder_in(&f, "b.bin"), 4, 4, 0x80000000u - 7);
    assert_int_equal(wf_shards_open(f.path, &s, NULL), WEFT_OK);

    assert_int_equal(wf_shards_read(s, 0, 4, 22, out, NULL), WEFT_OK);
    assert_int_equal(wf_shards_read(s, 0, 4, 21, out, &err), WEFT_DATA);
    assert_non_null(
        strstr(err.msg, "/a.bin: token 3 (at byte 1030) is 21: the vocabulary has 21"));

    assert_int_equal(wf_shards_read(s, 4, 1, UINT32_MAX, out, NULL), WEFT_OK);
    assert_int_equal(out[0], 0x7ffffff9);

    /* A token beyond int32_t is refused with any vocabulary. */
    assert_int_equal(wf_shards_read(s, 4, 2, UINT32_MAX, out, &err), WEFT_DATA);
    assert_non_null(strstr(err.msg, "/b.bin: token 1 (at byte 1028) is 2147483648"));

    assert_int_equal(wf_shards_read(s, 0, 9, 50257, out, &err), WEFT_DATA);
    assert_string_equal(err.msg, "tokens 0 to 9 are out of range: there are 8");
    assert_int_equal(wf_shards_read(s, UINT64_MAX, 1, 50257, out, NULL), WEFT_DATA);

    wf_shards_free(s);
    folder_remove(&f);
}

static void check_cut_while_open(void **state)
{
    (void)state;
    struct folder f = folder_new();
    const char *path = folder_in(&f, "a.bin");
    int32_t out[8];
    struct weft_error err;
    struct wf_shards *s = NULL;
    write_counting(path, 8, 2, 0);
    assert_int_equal(wf_shards_open(path, &s, NULL), WEFT_OK);
    assert_int_equal(truncate(path, 1031), 0);
    assert_int_equal(wf_shards_read(s, 0, 3, 50257, out, NULL), WEFT_OK);
    assert_int_equal(wf_shards_read(s, 0, 8, 50257, out, &err), WEFT_DATA);
    assert_non_null(
        strstr(err.msg, "/a.bin: there is no byte 1031, but its header has 8 tokens"));
    wf_shards_free(s);
    folder_remove(&f);
}

/* -- writing ------------------------------------------------------------------------------- */

static void check_written(void **state)
{
    (void)state;
    static const int32_t tokens[] = {1, 258, 65535};
    struct folder f = folder_new();
    for (uint32_t width = 2; width <= 4; width += 2) {
        unsigned char want[1024 + 12] = {0}, have[1024 + 13];
        make_header(want, width == 2 ? 20240520 : 20240801, width == 2 ? 1 : 7, 3);
        for (uint32_t i = 0; i < 3 * width; i++)
            want[1024 + i] = (unsigned char)(tokens[i / width] >> 8 * (i % width));
        const char *path = folder_in(&f, "x.bin");
        assert_int_equal(wf_shard_write(path, width == 2 ? 65536 : 65537, tokens, 3, NULL),
                         WEFT_OK);
        FILE *in = fopen(path, "rb");
        assert_int_equal(fread(have, 1, sizeof have, in), 1024 + 3 * width);
        fclose(in);
        assert_memory_equal(have, want, 1024 + 3 * width);
    }
    assert_int_equal(folder_count(&f), 1);
    folder_remove(&f);
}

/* A failure leaves the old file unchanged and no other files. */
static void check_not_written(void **state)
{
    (void)state;
    static const int32_t bad[] = {1, 2, 300}, negative[] = {-1};
    struct folder f = folder_new();
    const char *path = folder_in(&f, "x.bin");
    struct weft_error err;

    write_bytes(path, "old", 3);
    assert_int_equal(wf_shard_write(path, 300, bad, 3, &err), WEFT_DATA);
    assert_non_null(strstr(err.msg, "/x.bin: token 2 is 300: the vocabulary has 300"));
    assert_int_equal(wf_shard_write(path, 300, negative, 1, NULL), WEFT_DATA);
    assert_int_equal(wf_shard_write(path, 300, bad, 0, &err), WEFT_DATA);
    assert_non_null(strstr(err.msg, "no tokens to write"));

    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 3);
    assert_int_equal(folder_count(&f), 1);

    assert_int_equal(wf_shard_write(folder_in(&f, "no/x.bin"), 300, bad, 2, &err), WEFT_IO);
    assert_non_null(strstr(err.msg, "cannot be written"));
    assert_int_equal(wf_shard_write("/dev/null", 300, bad, 2, &err), WEFT_IO);
    assert_non_null(strstr(err.msg, "not a regular file"));

    folder_remove(&f);
}

/* -- masks --------------------------------------------------------------------------------- */

/* The header's extension, the tokens and the mask, byte by byte. */
static void check_mask_bytes(void **state)
{
    (void)state;
    static const int32_t tokens[10] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    static const bool counted[10] = {true, false, true, true,  true,
                                     true, true,  true, false, true};
    struct folder f = folder_new();
    struct wf_shard_writer *w = NULL;
    unsigned char want[1024 + 22] = {0}, have[1024 + 23];
    const char *path = folder_in(&f, "x.bin");
    make_header(want, 20240520, 1, 10);
    memcpy(want + 12, "WEFT\1\0\0\0\1\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11", 20);
    for (int i = 0; i < 10; i++)
        want[1024 + 2 * i] = (unsigned char)tokens[i];
    want[1024 + 20] = 0xfd;
    want[1024 + 21] = 0x02;

    assert_int_equal(wf_shard_writer_new(path, 10, &w, NULL), WEFT_OK);
    wf_shard_writer_set_hash(w, UINT64_C(0x1122334455667788));
    assert_int_equal(wf_shard_writer_add(w, tokens, 1, NULL), WEFT_OK);
    assert_int_equal(wf_shard_writer_add_masked(w, tokens + 1, counted + 1, 8, NULL), WEFT_OK);
    assert_int_equal(wf_shard_writer_add(w, tokens + 9, 1, NULL), WEFT_OK);
    assert_int_equal(wf_shard_writer_finish(w, NULL), WEFT_OK);
    wf_shard_writer_free(w);

    FILE *in = fopen(path, "rb");
    assert_int_equal(fread(have, 1, sizeof have, in), sizeof want);
    fclose(in);
    assert_memory_equal(have, want, sizeof want);
    folder_remove(&f);
}

/* Any range of shards with and without a mask, and with a mask that is longer than a read. */
static void check_masked(void **state)
{
    (void)state;
    enum { FIRST = 11, SECOND = 300000, ALL = FIRST + SECOND };
    struct folder f = folder_new();
    struct wf_shard_writer *w = NULL;
    int32_t *tokens = malloc(ALL * sizeof *tokens);
    bool *counted = malloc(ALL * sizeof *counted);
    assert_true(tokens != NULL && counted != NULL);
    for (int32_t i = 0; i < ALL; i++) {
        tokens[i] = i % 1000;
        counted[i] = i < FIRST || (uint32_t)i * 2654435761u >> 31 != 0;
    }
    assert_int_equal(wf_shard_write(folder_in(&f, "a.bin"), 1000, tokens, FIRST, NULL),
                     WEFT_OK);
    assert_int_equal(wf_shard_writer_new(folder_in(&f, "b.bin"), 1000, &w, NULL), WEFT_OK);
    for (size_t at = FIRST; at < ALL;) { /* in pieces of odd sizes */
        size_t n = at % 777 + 1 < ALL - at ? at % 777 + 1 : ALL - at;
        assert_int_equal(wf_shard_writer_add_masked(w, tokens + at, counted + at, n, NULL),
                         WEFT_OK);
        at += n;
    }
    assert_int_equal(wf_shard_writer_finish(w, NULL), WEFT_OK);
    wf_shard_writer_free(w);

    struct wf_shards *s = NULL;
    assert_int_equal(wf_shards_open(f.path, &s, NULL), WEFT_OK);
    assert_true(wf_shards_masked(s));
    assert_int_equal(wf_shards_file_hash(s, 1), 0);
    assert_int_equal(wf_shards_width(s, 1), 2);
    static const size_t ranges[][2] = {{0, ALL}, {0, 5},  {5, 20},
                                       {10, 1},  {13, 7}, {12, 200001}};
    int32_t *have = malloc(ALL * sizeof *have);
    for (size_t r = 0; r < WEFT_LEN(ranges); r++) {
        size_t at = ranges[r][0], n = ranges[r][1];
        assert_int_equal(wf_shards_read(s, at, n, 1000, have, NULL), WEFT_OK);
        assert_memory_equal(have, tokens + at, n * sizeof *have);
        assert_int_equal(wf_shards_mask(s, at, n, have, NULL), WEFT_OK);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(have[i], counted[at + i] ? tokens[at + i] : -1);
    }
    wf_shards_free(s);
    free(have);
    free(tokens);
    free(counted);
    folder_remove(&f);
}

static struct extension_case {
    const char *name;
    unsigned char bytes[12];
    size_t file;       /* bytes of the file; it has 8 tokens */
    const char *error; /* NULL: the file is read */
} extensions[] = {
    {"no extension", {0}, 1040, NULL},
    {"other bytes are ignored", {'x', 'y', 1, 2, 3, 4}, 1040, NULL},
    {"an extension without a mask", {'W', 'E', 'F', 'T', 1, 0, 0, 0, 0}, 1040, NULL},
    {"a mask", {'W', 'E', 'F', 'T', 1, 0, 0, 0, 1}, 1041, NULL},
    {"a mask that is missing", {'W', 'E', 'F', 'T', 1, 0, 0, 0, 1}, 1040, "truncated"},
    {"a mask that is too long", {'W', 'E', 'F', 'T', 1, 0, 0, 0, 1}, 1042, "other bytes"},
    {"another version", {'W', 'E', 'F', 'T', 2, 0, 0, 0, 0}, 1040, "unknown extension 2"},
    {"another flag", {'W', 'E', 'F', 'T', 1, 0, 0, 0, 2}, 1040, "with flags 2"},
};

static void check_extension(void **state)
{
    const struct extension_case *c = *state;
    struct folder f = folder_new();
    unsigned char bytes[1100] = {0};
    struct weft_error err = {.msg = ""};
    struct wf_shards *s = NULL;
    make_header(bytes, 20240520, 1, 8);
    memcpy(bytes + 12, c->bytes, sizeof c->bytes);
    write_bytes(folder_in(&f, "x.bin"), (char *)bytes, c->file);
    enum weft_status st = wf_shards_open(f.path, &s, &err);
    if (c->error == NULL) {
        assert_int_equal(st, WEFT_OK);
        assert_int_equal(wf_shards_masked(s), c->bytes[8] == 1);
    } else {
        assert_int_equal(st, WEFT_DATA);
        if (strstr(err.msg, c->error) == NULL)
            fail_msg("'%s' lacks '%s'", err.msg, c->error);
    }
    wf_shards_free(s);
    folder_remove(&f);
}

int main(void)
{
    static const struct CMUnitTest single[] = {
        cmocka_unit_test(check_mask_bytes), cmocka_unit_test(check_masked),
        cmocka_unit_test(check_borders),    cmocka_unit_test(check_many),
        cmocka_unit_test(check_vocabulary), cmocka_unit_test(check_cut_while_open),
        cmocka_unit_test(check_written),    cmocka_unit_test(check_not_written),
    };
    struct CMUnitTest
        tests[WEFT_LEN(single) + WEFT_LEN(lists) + WEFT_LEN(broken) + WEFT_LEN(extensions)];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(single); i++)
        tests[n++] = single[i];
    for (size_t i = 0; i < WEFT_LEN(lists); i++)
        tests[n++] = (struct CMUnitTest){lists[i].name, check_list, NULL, NULL, &lists[i]};
    for (size_t i = 0; i < WEFT_LEN(broken); i++)
        tests[n++] = (struct CMUnitTest){broken[i].name, check_broken, NULL, NULL, &broken[i]};
    for (size_t i = 0; i < WEFT_LEN(extensions); i++)
        tests[n++] = (struct CMUnitTest){extensions[i].name, check_extension, NULL, NULL,
                                         &extensions[i]};
    return cmocka_run_group_tests_name("shard", tests, NULL, NULL) != 0;
}
