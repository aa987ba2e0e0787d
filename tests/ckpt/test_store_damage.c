/* Tests damaged checkpoints: every changed byte is detected and reported, and an older
 * checkpoint is used; no manifest can make the reader leave its directory or block. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

#include "base/error.h"
#include "ckpt/store_saved.h"
#include "folder.h"
#include "training/ckpt/store.h"

/* Writes two checkpoints of three ranks.  The tests damage the newer one. */
static void make_two(struct folder *f)
{
    folder_make(f);
    for (uint64_t step = 10; step <= 20; step += 10) {
        struct saved_options o = {f->at, step == 10 ? "run-1" : "run-2", step, 3, 5, 9, false};
        assert_int_equal(saved_write(&o, NULL), WEFT_OK);
    }
}

static char *newer_path(struct folder *f, const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/step-00000020/%s", f->at, name);
    return path;
}

/* Checks that the older checkpoint is used and that the message about the newer one contains
 * `want`. */
static void expect_skip(struct folder *f, const char *want)
{
    struct wf_ckpt *s = NULL;
    struct wf_text skipped = {0};
    struct weft_error err = {.msg = ""};
    bool same = false;
    assert_int_equal(wf_ckpt_open_newest(f->at, true, &s, &skipped, &err), WEFT_OK);
    if (wf_ckpt_step(s) != 10 || strstr(skipped.at, want) == NULL)
        fail_msg("step %d, skipped %s, not for '%s'", (int)wf_ckpt_step(s),
                 skipped.at == NULL ? "nothing" : skipped.at, want);
    assert_non_null(strstr(skipped.at, "step-00000020"));
    assert_int_equal(saved_compare(s, 1, &same, &err), WEFT_OK);
    assert_true(same);
    wf_ckpt_free(s);
    wf_text_release(&skipped);
}

static void expect_good(struct folder *f)
{
    struct wf_ckpt *s = NULL;
    assert_int_equal(wf_ckpt_open_newest(f->at, true, &s, NULL, NULL), WEFT_OK);
    assert_int_equal(wf_ckpt_step(s), 20);
    wf_ckpt_free(s);
}

/* -- flipped bytes ------------------------------------------------------------------------- */

static void flip(int fd, size_t at, unsigned char mask)
{
    unsigned char byte;
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= mask;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
}

/* Returns the error of opening the newer checkpoint, or NULL. */
static const char *open_newer(struct folder *f, bool verify)
{
    static struct weft_error err;
    struct wf_ckpt *s = NULL;
    enum weft_status st = wf_ckpt_open(folder_path(f, "step-00000020"), verify, &s, &err);
    wf_ckpt_free(s);
    if (st == WEFT_OK)
        return NULL;
    assert_int_equal(st, WEFT_CKPT);
    return err.msg;
}

static void check_manifest_bytes(void **state)
{
    (void)state;
    struct folder f;
    make_two(&f);
    int fd = open(newer_path(&f, "manifest.json"), O_RDWR);
    assert_true(fd >= 0);
    size_t n = (size_t)lseek(fd, 0, SEEK_END);
    for (size_t i = 0; i < n; i += SAVED_STRIDE)
        for (unsigned bit = 0; bit < 8; bit++) {
            flip(fd, i, (unsigned char)(1u << bit));
            const char *msg = open_newer(&f, false);
            if (msg == NULL || strstr(msg, "step-00000020/manifest.json") == NULL)
                fail_msg("byte %zu bit %u: %s", i, bit, msg == NULL ? "not found" : msg);
            flip(fd, i, (unsigned char)(1u << bit));
        }
    close(fd);
    expect_good(&f);
    folder_remove(f.at);
}

static size_t header_bytes(int fd)
{
    unsigned char length[8];
    assert_int_equal(pread(fd, length, 8, 0), 8);
    return 8 + (size_t)length[0] + ((size_t)length[1] << 8);
}

static void check_header_bytes(void **state)
{
    (void)state;
    struct folder f;
    make_two(&f);
    int fd = open(newer_path(&f, "rank-00001.safetensors"), O_RDWR);
    assert_true(fd >= 0);
    size_t n = header_bytes(fd);
    for (size_t i = 0; i < n; i += SAVED_STRIDE) {
        flip(fd, i, (unsigned char)(1 << i % 8));
        const char *msg = open_newer(&f, false);
        if (msg == NULL || strstr(msg, "rank-00001.safetensors: its header was") == NULL)
            fail_msg("byte %zu: %s", i, msg == NULL ? "not found" : msg);
        flip(fd, i, (unsigned char)(1 << i % 8));
    }
    close(fd);
    expect_good(&f);
    folder_remove(f.at);
}

/* Reading a damaged piece detects the damage without a prior verification. */
static void expect_read_finds(struct folder *f, const char *said)
{
    struct wf_ckpt *s = NULL;
    struct weft_error err = {.msg = ""};
    bool same = false;
    assert_int_equal(wf_ckpt_open(folder_path(f, "step-00000020"), false, &s, NULL), WEFT_OK);
    assert_int_equal(saved_compare(s, 77, &same, &err), WEFT_CKPT);
    assert_string_equal(err.msg, said);
    wf_ckpt_free(s);
}

static void check_data_bits(void **state)
{
    (void)state;
    enum { FLIPS = 10000 / SAVED_STRIDE };
    struct folder f;

    make_two(&f);
    int fds[3];
    size_t begin[3], end[3];

    for (int r = 0; r < 3; r++) {
        char name[32];
        snprintf(name, sizeof name, "rank-%05d.safetensors", r);
        fds[r] = open(newer_path(&f, name), O_RDWR);
        assert_true(fds[r] >= 0);
        begin[r] = header_bytes(fds[r]);
        end[r] = (size_t)lseek(fds[r], 0, SEEK_END);
    }

    uint64_t seed = 4;
    for (int i = 0; i < FLIPS; i++) {
        size_t r = (size_t)saved_draw(&seed, 3);
        size_t at = begin[r] + (size_t)saved_draw(&seed, end[r] - begin[r]);
        unsigned char mask = (unsigned char)(1 << saved_draw(&seed, 8));
        char want[64], said[500];

        flip(fds[r], at, mask);
        const char *msg = open_newer(&f, true);
        snprintf(want, sizeof want, "step-00000020: rank-%05zu.safetensors: '", r);
        if (msg == NULL || strstr(msg, want) == NULL || strstr(msg, "of parameter '") == NULL)
            fail_msg("byte %zu of file %zu: %s", at, r, msg == NULL ? "not found" : msg);

        snprintf(said, sizeof said, "%s", msg);
        if (i % 500 == 0) {
            expect_read_finds(&f, said);
            expect_skip(&f, said);
        }
        flip(fds[r], at, mask);
    }

    for (int r = 0; r < 3; r++)
        close(fds[r]);
    expect_good(&f);
    folder_remove(f.at);
}

/* The message has the right name. */
static void check_names_the_tensor(void **state)
{
    (void)state;
    struct folder f;
    float x = 1, y = 2;
    uint64_t two = 2;
    struct wf_store_writer *w = NULL;
    char *blob = NULL;
    size_t bytes;

    folder_make(&f);
    assert_int_equal(wf_store_writer_new(f.at, 20, "r", 4, &w, NULL), WEFT_OK);

    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(
            wf_store_writer_add(w, "a", 1, &two, WF_STORE_FIELD_VALUE, i, &x, 1, NULL),
            WEFT_OK);
        assert_int_equal(
            wf_store_writer_add(w, "b", 1, &two, WF_STORE_FIELD_VALUE, i, &y, 1, NULL),
            WEFT_OK);
    }

    assert_int_equal(wf_store_writer_finish(w, &blob, &bytes, NULL), WEFT_OK);
    struct wf_store_commit_info parts = {f.at,   20, "r",  "",  "", (const char *const *)&blob,
                                         &bytes, 1,  NULL, NULL};
    assert_int_equal(wf_store_commit(&parts, 1, NULL), WEFT_OK);

    wf_store_writer_free(w);
    free(blob);

    int fd = open(newer_path(&f, "rank-00004.safetensors"), O_RDWR);
    flip(fd, header_bytes(fd) + 3 * sizeof(float), 1);
    assert_non_null(strstr(open_newer(&f, true), "rank-00004.safetensors: 'value' of parameter "
                                                 "'b', elements 1 .. 1, does not match"));

    close(fd);
    folder_remove(f.at);
}

/* -- files --------------------------------------------------------------------------------- */

static void copy(const char *from, const char *to)
{
    size_t n;
    char *bytes = folder_get(from, &n);
    FILE *out = fopen(to, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
    free(bytes);
}

static void do_truncate(struct folder *f)
{
    struct stat st;
    assert_int_equal(stat(newer_path(f, "rank-00002.safetensors"), &st), 0);
    assert_int_equal(truncate(newer_path(f, "rank-00002.safetensors"), st.st_size - 1), 0);
}

static void do_empty(struct folder *f)
{
    assert_int_equal(truncate(newer_path(f, "rank-00000.safetensors"), 0), 0);
}

static void do_append(struct folder *f)
{
    FILE *out = fopen(newer_path(f, "rank-00000.safetensors"), "ab");
    fputc(0, out);
    fclose(out);
}

static void do_remove(struct folder *f)
{
    assert_int_equal(unlink(newer_path(f, "rank-00001.safetensors")), 0);
}

static void do_remove_manifest(struct folder *f)
{
    assert_int_equal(unlink(newer_path(f, "manifest.json")), 0);
}

static void do_cut_manifest(struct folder *f)
{
    assert_int_equal(truncate(newer_path(f, "manifest.json"), 1000), 0);
}

static void do_empty_manifest(struct folder *f)
{
    assert_int_equal(truncate(newer_path(f, "manifest.json"), 0), 0);
}

static void do_extra(struct folder *f)
{
    folder_put(f, "step-00000020/rank-00003.safetensors", "x", 1);
}

static void do_swap(struct folder *f)
{
    char a[300], b[300], c[300];
    snprintf(a, sizeof a, "%s", newer_path(f, "rank-00000.safetensors"));
    snprintf(b, sizeof b, "%s", newer_path(f, "rank-00001.safetensors"));
    snprintf(c, sizeof c, "%s", newer_path(f, "x"));
    assert_int_equal(rename(a, c) | rename(b, a) | rename(c, b), 0);
}

/* Copies a file of another run and step.  It has the same length, since both are divided in the
 * same way. */
static void do_stale(struct folder *f)
{
    copy(folder_path(f, "step-00000010/rank-00001.safetensors"),
         newer_path(f, "rank-00001.safetensors"));
}

static void do_stale_manifest(struct folder *f)
{
    copy(folder_path(f, "step-00000010/manifest.json"), newer_path(f, "manifest.json"));
}

static void put_other(struct folder *f, const char *name, int kind)
{
    char *path = newer_path(f, name), kept[320];
    snprintf(kept, sizeof kept, "%s/kept", f->at);
    assert_int_equal(rename(path, kept), 0);
    if (kind == 0)
        assert_int_equal(symlink(kept, path),
                         0); /* the right bytes, but links are not followed */
    else if (kind == 1)
        assert_int_equal(mkfifo(path, 0666), 0);
    else
        assert_int_equal(mkdir(path, 0777), 0);
}

static void do_link(struct folder *f)
{
    put_other(f, "rank-00000.safetensors", 0);
}

static void do_fifo(struct folder *f)
{
    put_other(f, "rank-00000.safetensors", 1);
}

static void do_folder(struct folder *f)
{
    put_other(f, "rank-00000.safetensors", 2);
}

static void do_manifest_link(struct folder *f)
{
    put_other(f, "manifest.json", 0);
}

static void do_manifest_fifo(struct folder *f)
{
    put_other(f, "manifest.json", 1);
}

static void do_step_link(struct folder *f)
{
    char path[300], kept[300];
    snprintf(path, sizeof path, "%s/step-00000020", f->at);
    snprintf(kept, sizeof kept, "%s/kept", f->at);
    assert_int_equal(rename(path, kept), 0);
    assert_int_equal(symlink("kept", path), 0);
}

static struct damage {
    const char *name;
    void (*make)(struct folder *f);
    const char *want;
} damages[] = {
    {"a file is truncated", do_truncate, "step-00000020: rank-00002.safetensors has "},
    {"a file is empty", do_empty, "rank-00000.safetensors has 0 bytes (expected "},
    {"a file is longer", do_append, "rank-00000.safetensors has "},
    {"a file is missing", do_remove, "rank-00001.safetensors is missing"},
    {"the manifest is missing", do_remove_manifest, "step-00000020: manifest.json is missing"},
    {"the manifest is truncated", do_cut_manifest, "manifest.json: its hash does not match"},
    {"the manifest is empty", do_empty_manifest, "manifest.json: its hash does not match"},
    {"an extra file", do_extra, "rank-00003.safetensors does not belong to this checkpoint"},
    {"two files are swapped", do_swap, "rank-00000.safetensors"},
    {"a file of another run", do_stale, "rank-00001.safetensors"},
    {"the manifest of another step", do_stale_manifest, "its manifest is of step 10"},
    {"a link", do_link, "rank-00000.safetensors is not a regular file"},
    {"a pipe", do_fifo, "rank-00000.safetensors is not a regular file"},
    {"a directory", do_folder, "rank-00000.safetensors is not a regular file"},
    {"the manifest is a link", do_manifest_link, "manifest.json is not a regular file"},
    {"the manifest is a pipe", do_manifest_fifo, "manifest.json is not a regular file"},
    {"the checkpoint is a link", do_step_link, "step-00000020 cannot be opened: "},
};

static void check_damage(void **state)
{
    const struct damage *d = *state;
    struct folder f;
    make_two(&f);
    expect_good(&f);
    d->make(&f);
    expect_skip(&f, d->want);
    folder_remove(f.at);
}

/* A file that is truncated after it was opened causes an error, not a signal. */
static void check_cut_while_open(void **state)
{
    (void)state;
    struct folder f;
    struct wf_ckpt *s = NULL;
    struct weft_error err;
    bool same;
    make_two(&f);
    assert_int_equal(wf_ckpt_open_newest(f.at, true, &s, NULL, NULL), WEFT_OK);
    do_truncate(&f);
    assert_int_equal(saved_compare(s, 1, &same, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "rank-00002.safetensors"));
    wf_ckpt_free(s);
    folder_remove(f.at);
}

/* Writing does not follow links and overwrites nothing. */
static void check_writer_follows_nothing(void **state)
{
    (void)state;
    struct folder f;
    struct wf_store_writer *w = NULL;
    struct weft_error err;
    char *blob = NULL;
    size_t bytes, n;

    folder_make(&f);
    folder_put(&f, "victim", "untouched", 9);
    assert_int_equal(mkdir(folder_path(&f, "elsewhere"), 0777), 0);
    assert_int_equal(symlink("elsewhere", folder_path(&f, ".step-00000001.r.tmp")), 0);

    assert_int_equal(wf_store_writer_new(f.at, 1, "r", 0, &w, &err), WEFT_IO);
    assert_int_equal(wf_store_abort(f.at, 1, "r", &err), WEFT_IO);

    assert_int_equal(mkdir(folder_path(&f, ".step-00000002.r.tmp"), 0777), 0);
    assert_int_equal(
        symlink("../victim", folder_path(&f, ".step-00000002.r.tmp/rank-00000.safetensors")),
        0);
    assert_int_equal(
        symlink("../victim", folder_path(&f, ".step-00000002.r.tmp/manifest.json")), 0);

    assert_int_equal(wf_store_writer_new(f.at, 2, "r", 0, &w, &err), WEFT_OK);
    assert_int_equal(wf_store_writer_finish(w, &blob, &bytes, &err), WEFT_CKPT);
    wf_store_writer_free(w);
    assert_int_equal(wf_store_abort(f.at, 2, "r", &err), WEFT_OK);

    char *text = folder_get(folder_path(&f, "victim"), &n);
    assert_string_equal(text, "untouched");
    free(text);
    folder_remove(f.at);
}

/* -- malicious manifests with a correct hash ----------------------------------------------- */

/* Replaces the hash at the end by the right one, computed with the other form
 * of the function. */
static void seal(char *text, size_t n)
{
    const size_t tail = 3, digits = 32;
    char hex[33];
    XXH3_state_t *state = XXH3_createState();
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, text, n - tail - digits);
    XXH128_hash_t h = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)h.high64,
             (unsigned long long)h.low64);
    memcpy(text + n - tail - digits, hex, digits);
}

/* clang-format off */
static struct lie {
    const char *name, *from, *to, *want;
} lies[] = {
    {"up", "rank-00000.safetensors\"", "../../../../../etc/passwd\"", "'../../../../../etc/passwd' is not a valid file name"},
    {"absolute", "rank-00000.safetensors\"", "/etc/passwd\"", "'/etc/passwd' is not a valid file name"},
    {"a folder", "rank-00000.safetensors\"", "a/rank-00000.safetensors\"", "is not a valid file name"},
    {"empty", "rank-00000.safetensors\"", "\"", "'' is not a valid file name"},
    {"NUL", "rank-00000.safetensors\"", "rank-00000.safetensors\\u0000\"", "it is not valid JSON"},
    {"six digits", "rank-00000.safetensors\"", "rank-000000.safetensors\"", "is not a valid file name"},
    {"itself", "rank-00000.safetensors\"", "manifest.json\"", "'manifest.json' is not a valid file name"},
    {"a file twice", "rank-00000.safetensors\"", "rank-00001.safetensors\"", "file rank-00001.safetensors is listed twice"},
    {"a newer format", "\"version\":2", "\"version\":3", "it has format version 3 (maximum 2)"},
    {"the keys of version 2 in version 1", "\"version\":2", "\"version\":1", "its step, run, config, model, tokenizer or data is invalid"},
    {"no format", "\"weft checkpoint\"", "\"something\"", "it is not the manifest of a checkpoint"},
    {"another step", "\"step\":20", "\"step\":21", "its manifest is of step 21"},
    {"a negative step", "\"step\":20", "\"step\":-1", "its step, run, config, model, tokenizer or data is invalid"},
    {"a fractional step", "\"step\":20", "\"step\":20.0", "is invalid"},
    {"a bad run", "\"run-2\"", "\"run/2\"", "is invalid"},
    {"an extra key", "\"step\":20", "\"step\":20,\"x\":1", "is invalid"},
    {"a key twice", "\"step\":20", "\"step\":20,\"step\":20", "it is not valid JSON: duplicate object key"},
    {"another shape", "\"shape\":[50,8]", "\"shape\":[50,9]", "of parameter 'wte.weight' are missing"},
    {"huge", "\"shape\":[50,8]", "\"shape\":[9223372036854775807,8]", "has too many elements"},
    {"no elements", "\"shape\":[50,8]", "\"shape\":[0,8]", "has no elements"},
    {"a parameter twice", "\"name\":\"scale\"", "\"name\":\"wte.weight\"", "the entry of 'wte.weight' is invalid"},
    {"a name with an escape", "\"name\":\"scale\"", "\"name\":\"a\\u001b[1m\"", "the name of parameter 'a?[1m' has bytes"},
    {"an unknown field", "\"what\":\"m\"", "\"what\":\"n\"", "is invalid"},
    {"a file beyond", "\"file\":2", "\"file\":9", "is outside of its file"},
    {"in the header", "\"at\":", "\"at\":0,\"x\":", "is invalid"},
    {"header beyond the file", "\"header_bytes\":", "\"header_bytes\":99999", "is invalid"},
};
/* clang-format on */

static void check_lie(void **state)
{
    const struct lie *c = *state;
    struct folder f;
    size_t n;

    make_two(&f);
    char *text = folder_get(newer_path(&f, "manifest.json"), &n);
    char *at = strstr(text, c->from);
    assert_non_null(at);

    size_t n_from = strlen(c->from), n_to = strlen(c->to);
    char *lied = malloc(n - n_from + n_to + 1);
    assert_non_null(lied);

    memcpy(lied, text, (size_t)(at - text));
    memcpy(lied + (at - text), c->to, n_to);
    strcpy(lied + (at - text) + n_to, at + n_from);
    n = n - n_from + n_to;
    seal(lied, n);
    folder_put(&f, "step-00000020/manifest.json", lied, n);

    expect_skip(&f, c->want);
    free(text);
    free(lied);
    folder_remove(f.at);
}

/* ------------------------------------------------------------------------------------------ */

int main(void)
{
    const struct CMUnitTest plain[] = {
        cmocka_unit_test(check_manifest_bytes), cmocka_unit_test(check_header_bytes),
        cmocka_unit_test(check_data_bits),      cmocka_unit_test(check_names_the_tensor),
        cmocka_unit_test(check_cut_while_open), cmocka_unit_test(check_writer_follows_nothing),
    };
    struct CMUnitTest tests[WEFT_LEN(plain) + WEFT_LEN(damages) + WEFT_LEN(lies)];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(plain); i++)
        tests[n++] = plain[i];
    for (size_t i = 0; i < WEFT_LEN(damages); i++)
        tests[n++] =
            (struct CMUnitTest){damages[i].name, check_damage, NULL, NULL, &damages[i]};
    for (size_t i = 0; i < WEFT_LEN(lies); i++)
        tests[n++] = (struct CMUnitTest){lies[i].name, check_lie, NULL, NULL, &lies[i]};
    return cmocka_run_group_tests_name("store_damage", tests, NULL, NULL) != 0;
}
