/* Tests the directory of checkpoints: which checkpoints are kept, the lock, a full disk. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/error.h"
#include "ckpt/store_steps.h"
#include "folder.h"
#include "training/ckpt/store.h"
/* -- the directory ------------------------------------------------------------------------- */

static void check_none(void **state)
{
    (void)state;
    struct folder f;
    folder_make(&f);
    assert_int_equal(saved_newest(&f, NULL), -1);
    assert_int_equal(mkdir(folder_path(&f, "step-7"), 0777),
                     0); /* another spelling of the step */
    assert_int_equal(mkdir(folder_path(&f, "step-000000007"), 0777), 0);
    assert_int_equal(saved_newest(&f, NULL), -1);
    folder_remove(f.at);
    assert_int_equal(saved_newest(&f, NULL), -1); /* no directory at all */
}

static void check_none_usable(void **state)
{
    (void)state;
    struct folder f;
    struct wf_ckpt *s = NULL;
    struct weft_error err;
    struct wf_text skipped = {0};
    folder_make(&f);
    assert_int_equal(mkdir(folder_path(&f, "step-00000007"), 0777), 0);
    folder_put(&f, "step-00000009", "x", 1);
    assert_int_equal(wf_ckpt_open_newest(f.at, true, &s, &skipped, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "none of the 2 checkpoints in"));
    assert_non_null(strstr(skipped.at, "step-00000007: manifest.json is missing\n"));
    assert_non_null(strstr(skipped.at, "step-00000009 cannot be opened: Not a directory\n"));
    wf_text_release(&skipped);
    folder_remove(f.at);
}

static void put_manifest(struct folder *f, const char *step, const char *text)
{
    char name[64];
    snprintf(name, sizeof name, "%s/manifest.json", step);
    folder_put(f, name, text, strlen(text));
}

static void check_prune(void **state)
{
    (void)state;
    struct folder f;
    struct weft_error err = {.msg = ""};

    folder_make(&f);
    for (uint64_t step = 1; step <= 8; step++)
        saved_step(&f, step, 2);

    assert_int_equal(wf_store_prune(f.at, 0, &err), WEFT_USAGE);
    assert_int_equal(wf_store_prune(f.at, 6, &err), WEFT_OK);
    assert_int_equal(folder_count(f.at), 6);

    /* Damaged checkpoints do not count and stay while they are among the newest. */
    put_manifest(&f, "step-00000008", "broken");
    put_manifest(&f, "step-00000006", "broken");
    put_manifest(&f, "step-00000003", "broken");
    assert_int_equal(wf_store_prune(f.at, 2, &err), WEFT_OK);
    assert_int_equal(folder_count(f.at), 4); /* 8 7 6 5 */
    assert_int_equal(access(folder_path(&f, "step-00000005"), F_OK), 0);
    assert_int_equal(saved_newest(&f, NULL), 7);

    assert_int_equal(wf_store_prune(f.at, 1, &err), WEFT_OK);
    assert_int_equal(folder_count(f.at), 2);

    put_manifest(&f, "step-00000007", "broken");
    assert_int_equal(wf_store_prune(f.at, 1, &err), WEFT_OK);
    assert_int_equal(folder_count(f.at), 2); /* none is valid: none is removed */

    folder_remove(f.at);
}

/* The only valid checkpoint stays, however old it is.  Other files stay, too. */
static void check_prune_leaves(void **state)
{
    (void)state;
    struct folder f;
    folder_make(&f);
    saved_step(&f, 1, 2);
    saved_step(&f, 2, 2);
    put_manifest(&f, "step-00000002", "broken");
    assert_int_equal(wf_store_prune(f.at, 1, NULL), WEFT_OK);
    assert_int_equal(saved_newest(&f, NULL), 1);
    folder_put(&f, "step-00000001/notes.txt", "mine", 4);
    assert_int_equal(saved_newest(&f, NULL), 1);
    saved_step(&f, 3, 2);
    assert_int_equal(wf_store_prune(f.at, 1, NULL), WEFT_OK);
    assert_int_equal(folder_count(folder_path(&f, "step-00000001")), 1);
    assert_int_not_equal(access(folder_path(&f, "step-00000002"), F_OK), 0);
    assert_int_equal(saved_newest(&f, NULL), 3);
    folder_remove(f.at);
}

/* The error names what cannot be removed; the rest is removed. */
static void check_prune_continues(void **state)
{
    (void)state;
    struct folder f;
    struct weft_error err;
    folder_make(&f);
    folder_put(&f, "step-00000001", "a file", 6);
    folder_put(&f, "step-00000003", "a file", 6);
    saved_step(&f, 2, 2);
    saved_step(&f, 4, 2);
    assert_int_equal(wf_store_prune(f.at, 1, &err), WEFT_IO);
    assert_non_null(strstr(err.msg, "step-00000001 cannot be removed: Not a directory"));
    assert_int_not_equal(access(folder_path(&f, "step-00000002"), F_OK), 0);
    assert_int_equal(saved_newest(&f, NULL), 4);
    folder_remove(f.at);
}

static void check_commit_keeps(void **state)
{
    (void)state;
    struct folder f;
    folder_make(&f);
    for (uint64_t step = 10; step <= 60; step += 10) {
        struct saved_options o = saved_step_options(&f, step, 3);
        o.keep = 2;
        assert_int_equal(saved_write(&o, NULL), WEFT_OK);
        assert_int_equal(folder_count(f.at), step == 10 ? 1 : 2);
        assert_int_equal(saved_newest(&f, NULL), step);
    }
    folder_remove(f.at);
}

static void check_stale(void **state)
{
    (void)state;
    struct folder f;
    struct wf_store_writer *w = NULL;
    struct weft_error err = {.msg = ""};
    struct wf_text removed = {0};
    char root[256];

    folder_make(&f);
    snprintf(root, sizeof root, "%s", folder_path(&f, "checkpoints"));
    assert_int_equal(wf_store_prepare(root, &removed, &err), WEFT_OK);

    assert_int_equal(wf_store_writer_new(root, 1, "alive", 0, &w, &err), WEFT_OK);
    assert_int_equal(mkdir(folder_path(&f, "checkpoints/.step-00000003.dead.tmp"), 0777), 0);
    folder_put(&f, "checkpoints/.step-00000003.dead.tmp/rank-00000.safetensors", "x", 1);
    folder_put(&f, "checkpoints/.step-00000003.dead.tmp/manifest.json", "x", 1);
    assert_int_equal(symlink("/", folder_path(&f, "checkpoints/.step-00000004.link.tmp")), 0);

    assert_int_equal(wf_store_prepare(root, &removed, &err), WEFT_OK);
    assert_non_null(strstr(removed.at, "/.step-00000003.dead.tmp: removed"));
    assert_null(strstr(removed.at, "alive"));
    assert_null(strstr(removed.at, "link"));
    assert_int_not_equal(access(folder_path(&f, "checkpoints/.step-00000003.dead.tmp"), F_OK),
                         0);
    assert_int_equal(access(folder_path(&f, "checkpoints/.step-00000001.alive.tmp"), F_OK), 0);

    wf_store_writer_free(w);
    assert_int_equal(wf_store_prepare(root, NULL, &err), WEFT_OK);
    assert_int_not_equal(access(folder_path(&f, "checkpoints/.step-00000001.alive.tmp"), F_OK),
                         0);

    wf_text_release(&removed);
    folder_remove(f.at);
}

static void check_prepare_fails(void **state)
{
    (void)state;
    struct folder f;
    struct weft_error err;
    folder_make(&f);
    assert_int_equal(wf_store_prepare(folder_path(&f, "a/b"), NULL, &err), WEFT_IO);
    assert_non_null(strstr(err.msg, "a/b cannot be created: No such file"));
    folder_put(&f, "file", "x", 1);
    assert_int_equal(wf_store_prepare(folder_path(&f, "file"), NULL, &err), WEFT_IO);
    assert_int_equal(wf_store_prepare("/proc/self", NULL, &err), WEFT_IO);
    assert_non_null(strstr(err.msg, "checkpoints cannot be written to /proc/self: "));
    folder_remove(f.at);
}

/* -- the lock ------------------------------------------------------------------------------ */

static void check_lock(void **state)
{
    (void)state;
    struct folder f;
    struct wf_store_lock *lock = NULL, *second = NULL;
    struct weft_error err;
    char want[64];

    folder_make(&f);
    assert_int_equal(wf_store_is_locked(f.at), -1); /* there is no lock file */

    assert_int_equal(wf_store_lock(f.at, &lock, &err), WEFT_OK);
    assert_int_equal(wf_store_is_locked(f.at), 1);
    assert_int_equal(wf_store_lock(f.at, &second, &err), WEFT_USAGE);
    snprintf(want, sizeof want, "is locked by pid %ld on host ", (long)getpid());
    assert_non_null(strstr(err.msg, want));
    assert_non_null(strstr(err.msg, " since 20"));

    wf_store_unlock(lock);
    assert_int_equal(wf_store_is_locked(f.at), 0);
    assert_int_equal(wf_store_lock(f.at, &second, &err), WEFT_OK);
    wf_store_unlock(second);
    wf_store_unlock(NULL);

    folder_remove(f.at);
    assert_int_equal(wf_store_lock(f.at, &lock, &err), WEFT_IO);
}

/* The lock of a killed process is released. */
static void check_lock_of_the_dead(void **state)
{
    (void)state;
    struct folder f;
    struct wf_store_lock *lock = NULL;
    struct weft_error err;
    int ready[2];
    char byte, want[40];

    folder_make(&f);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (wf_store_lock(f.at, &lock, NULL) == WEFT_OK && write(ready[1], "x", 1) == 1)
            pause();
        _exit(1);
    }

    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(wf_store_lock(f.at, &lock, &err), WEFT_USAGE);
    snprintf(want, sizeof want, "locked by pid %ld ", (long)pid);
    assert_non_null(strstr(err.msg, want));

    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(wf_store_lock(f.at, &lock, &err), WEFT_OK);
    wf_store_unlock(lock);

    close(ready[0]);
    close(ready[1]);
    folder_remove(f.at);
}

static void check_lock_is_a_file(void **state)
{
    (void)state;
    struct folder f;
    struct wf_store_lock *lock = NULL;
    folder_make(&f);
    assert_int_equal(mkfifo(folder_path(&f, "lock"), 0666), 0);
    assert_int_equal(wf_store_lock(f.at, &lock, NULL), WEFT_IO);
    assert_int_equal(unlink(f.path), 0);
    folder_put(&f, "victim", "x", 1);
    assert_int_equal(symlink("victim", folder_path(&f, "lock")), 0);
    assert_int_equal(wf_store_lock(f.at, &lock, NULL), WEFT_IO);
    folder_remove(f.at);
}

/* -- a full disk --------------------------------------------------------------------------- */

static void check_full_disk(void **state)
{
    (void)state;
    struct folder f;
    struct weft_error err = {.msg = ""};

    folder_make(&f);
    if (mount("weft-test", f.at, "tmpfs", 0, "size=256k") != 0) {
        folder_remove(f.at);
        print_message("no small file system can be mounted: %s\n", strerror(errno));
        skip();
    }
    saved_step(&f, 1, 2);

    size_t n = 1 << 20;
    float *many = calloc(n, sizeof *many);
    struct wf_store_writer *w = NULL;
    char *blob = NULL;
    size_t bytes;
    uint64_t shape = n;
    assert_int_equal(wf_store_writer_new(f.at, 2, "r", 0, &w, &err), WEFT_OK);
    assert_int_equal(
        wf_store_writer_add(w, "p", 1, &shape, WF_STORE_FIELD_VALUE, 0, many, n, &err),
        WEFT_OK);

    enum weft_status st = wf_store_writer_finish(w, &blob, &bytes, &err);
    wf_store_writer_free(w);
    wf_store_abort(f.at, 2, "r", NULL);
    free(many);

    /* Save until the disk is full; then there is an error, and older checkpoints stay. */
    size_t n_saved = 1, step = 2;
    struct weft_error full = {.msg = ""};
    for (; step < 40; step++) {
        struct saved_options o = saved_step_options(&f, step, 4);
        if (saved_write(&o, &full) != WEFT_OK)
            break;
        n_saved++;
    }

    size_t n_left = folder_count(f.at), n_hidden = 0;
    int64_t best = saved_newest(&f, NULL);
    DIR *dir = opendir(f.at);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        n_hidden += strncmp(e->d_name, ".step", 5) == 0;
    closedir(dir);

    /* Asserts after the unmount, so that a failure leaves nothing mounted. */
    assert_int_equal(umount(f.at), 0);
    rmdir(f.at);
    assert_int_equal(st, WEFT_IO);
    assert_non_null(strstr(err.msg, "a checkpoint needs 4.0 MiB, but only "));
    assert_true(step < 40 && step > 3);
    assert_int_equal(full.status, WEFT_IO);
    assert_true(strstr(full.msg, "free some space") != NULL ||
                strstr(full.msg, "No space left") != NULL);
    assert_int_equal(n_left, n_saved);
    assert_int_equal(best, step - 1);
    assert_int_equal(n_hidden, 0);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_none),           cmocka_unit_test(check_none_usable),
        cmocka_unit_test(check_prune),          cmocka_unit_test(check_prune_leaves),
        cmocka_unit_test(check_commit_keeps),   cmocka_unit_test(check_prune_continues),
        cmocka_unit_test(check_stale),          cmocka_unit_test(check_prepare_fails),
        cmocka_unit_test(check_lock),           cmocka_unit_test(check_lock_of_the_dead),
        cmocka_unit_test(check_lock_is_a_file), cmocka_unit_test(check_full_disk),
    };
    return cmocka_run_group_tests_name("store_dir", tests, NULL, NULL) != 0;
}
