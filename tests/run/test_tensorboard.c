/* Compares TensorBoard event files byte by byte with known records. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "folder.h"
#include "training/run/tensorboard.h"

static void check_crc(void **state)
{
    unsigned char zeros[32] = {0};
    assert_int_equal(wf_crc32c("123456789", 9), 0xe3069283u);
    assert_int_equal(wf_crc32c(zeros, sizeof zeros), 0x8a9136aau); /* RFC 3720, B.4 */
    memset(zeros, 0xff, sizeof zeros);
    assert_int_equal(wf_crc32c(zeros, sizeof zeros), 0x62a8ab43u);
    assert_int_equal(wf_crc32c("", 0), 0);
    (void)state;
}

static void check_bytes(const unsigned char *bytes, size_t len, const char *hex)
{
    assert_int_equal(len, strlen(hex) / 2);
    for (size_t i = 0; i < len; i++) {
        unsigned want;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &want), 1);
        assert_int_equal(bytes[i], want);
    }
}

static const char version_hex[] =
    "0f000000000000006d532b091a0d627261696e2e4576656e743a32fc985129";
static const char loss_hex[] =
    "1a00000000000000129bd82d09000000000000004010072a0d0a0b0a046c6f7373"
    "15000060409df5e2d4";

static void check_golden(void **state)
{
    char *bytes = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&bytes, &len);
    wf_tensorboard_put_version(out, 0);
    fclose(out);
    check_bytes((unsigned char *)bytes, len, version_hex);
    free(bytes);
    out = open_memstream(&bytes, &len);
    wf_tensorboard_put_scalar(out, 7, "loss", 3.5, 2.0);
    fclose(out);
    check_bytes((unsigned char *)bytes, len, loss_hex);
    free(bytes);
    (void)state;
}

/* Field 2 is the step 29, field 7 a message whose field 1 is START = 1. */
static void check_start(void **state)
{
    static const unsigned char want[] = {0x10, 29, 0x3a, 2, 0x08, 1};
    char *bytes = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&bytes, &len);
    wf_tensorboard_put_start(out, 29, 0);
    fclose(out);
    assert_int_equal(len, 12 + sizeof want + 4);
    assert_memory_equal(bytes + 12, want, sizeof want);
    free(bytes);
    (void)state;
}

/* A clock of whole seconds would return a whole number in every call. */
static void check_clock(void **state)
{
    int fractions = 0;
    for (int i = 0; i < 20; i++) {
        double now = wf_tensorboard_now();
        fractions += now != floor(now);
    }
    assert_true(fractions > 0);
    (void)state;
}

static uint64_t little(const unsigned char *at, int n)
{
    uint64_t value = 0;
    for (int i = n; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

/* Parses all records, independently of the writer, and returns their number. */
static size_t count_records(const unsigned char *at, size_t len)
{
    size_t n = 0, i = 0;
    while (i < len) {
        assert_true(len - i >= 16);
        uint64_t size = little(at + i, 8);
        assert_true(size <= len - i - 16);
        uint32_t crc = wf_crc32c(at + i, 8), data = wf_crc32c(at + i + 12, size);
        assert_int_equal(little(at + i + 8, 4),
                         (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8u));
        assert_int_equal(little(at + i + 12 + size, 4),
                         (uint32_t)((data >> 15 | data << 17) + 0xa282ead8u));
        i += 16 + size;
        n++;
    }
    return n;
}

static size_t read_only_file(const struct folder *f, unsigned char *out, size_t capacity)
{
    DIR *dir = opendir(f->path);
    size_t len = 0, n = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        assert_true(strncmp(entry->d_name, "events.out.tfevents.", 20) == 0);
        FILE *in = fopen(folder_in(f, entry->d_name), "rb");
        assert_non_null(in);
        len = fread(out, 1, capacity, in);
        fclose(in);
        n++;
    }
    closedir(dir);
    assert_int_equal(n, 1);
    return len;
}

static void check_file(void **state)
{
    struct folder f = folder_new();
    struct wf_tensorboard *tb = NULL;
    unsigned char bytes[4096];
    const struct wf_metrics_record r = {.step = 300, .loss = NAN, .grad_norm = 1, .lr = 3e-4};

    assert_int_equal(wf_tensorboard_new(f.path, 1, &tb, NULL), WEFT_OK);
    assert_int_equal(count_records(bytes, read_only_file(&f, bytes, sizeof bytes)), 2);

    wf_tensorboard_step(tb, &r, 1.5e9);
    wf_tensorboard_scalar(tb, 300, "val_loss", 2.5, 1.5e9);
    assert_int_equal(wf_tensorboard_flush(tb, NULL), WEFT_OK);
    size_t len = read_only_file(&f, bytes, sizeof bytes);
    assert_int_equal(count_records(bytes, len), 9); /* before it is closed */

    /* A tag of four letters, followed by NaN as a float. */
    static const unsigned char nan_loss[] = {0x0a, 4, 'l', 'o',  's', 's',
                                             0x15, 0, 0,   0xc0, 0x7f};
    size_t at = 0;
    while (at + sizeof nan_loss < len && memcmp(bytes + at, nan_loss, sizeof nan_loss) != 0)
        at++;
    assert_true(at + sizeof nan_loss < len);

    static const unsigned char step[] = {0x10, 0xac, 0x02}; /* 300 as a varint */
    assert_memory_equal(bytes + at - 7, step, sizeof step);

    wf_tensorboard_free(tb);
    wf_tensorboard_free(NULL);
    folder_remove(&f);
    (void)state;
}

/* A tag of any length fits into a record. */
static void check_long_tag(void **state)
{
    char tag[1000], *bytes = NULL;
    size_t len = 0;
    memset(tag, 'x', sizeof tag);
    tag[sizeof tag - 1] = '\0';
    FILE *out = open_memstream(&bytes, &len);
    wf_tensorboard_put_scalar(out, UINT64_MAX, tag, 1, 1);
    fclose(out);
    assert_int_equal(count_records((unsigned char *)bytes, len), 1);
    free(bytes);
    (void)state;
}

static void check_errors(void **state)
{
    struct wf_tensorboard *tb = NULL;
    struct weft_error err = {.msg = ""};
    assert_int_equal(wf_tensorboard_new("/dev/null/x", 1, &tb, &err), WEFT_IO);
    assert_true(err.msg[0] != '\0' && tb == NULL);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_crc),    cmocka_unit_test(check_golden),
        cmocka_unit_test(check_file),   cmocka_unit_test(check_long_tag),
        cmocka_unit_test(check_errors), cmocka_unit_test(check_start),
        cmocka_unit_test(check_clock),
    };
    return cmocka_run_group_tests_name("tensorboard", tests, NULL, NULL) != 0;
}
