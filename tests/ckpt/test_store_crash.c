/* Tests crashes and failures at every system call while checkpoints are written and pruned.
 *
 * This program defines the system calls itself and so intercepts those of the store.  It can
 * end the process before the n-th call, as kill -9 does, or make a call fail.  It also records
 * all changes that are not synced yet and reverts them when the process ends, as a power cut
 * may do.  Nothing is really synced, which is faster.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "ckpt/store_saved.h"
#include "folder.h"
#include "training/ckpt/store.h"

/* -- the plan of a test -------------------------------------------------------------------- */

enum loss {
    LOSE_NOTHING,    /* the process is killed, the system survives */
    LOSE_ALL,        /* everything that was not synced */
    LOSE_LAST,       /* some of the last names and all bytes */
    LOSE_BYTES,      /* files are empty, their names exist */
    LOSE_SOME_BYTES, /* the second half of files */
    N_LOSSES,
};

/* Syncs that are ignored, to prove that the test detects their absence. */
enum sabotage { NONE, NO_FILE_SYNC, NO_INNER_SYNC, NO_ROOT_SYNC, N_SABOTAGES };

static struct {
    bool on;
    long count;       /* calls so far */
    long n_changes;   /* of these, calls that change something */
    long crash_at;    /* crash before this change; 0: never */
    long fail_at;     /* this call fails; 0: none */
    bool permanent;   /* and all calls after it */
    int with;         /* errno */
    bool in_halves;   /* writes and reads process half of the bytes, with interruptions */
    bool no_exchange; /* the file system cannot exchange names */
    enum loss loss;
    enum sabotage sabotage;
    char grave[128]; /* keeps removed files for a power cut; "": not simulated */
    char root[128];
} plan;

enum change { CREATE, WRITE, RENAME, EXCHANGE, UNLINK, MKDIR, RMDIR };

enum { MAX_CHANGES = 4096 };

static struct done {
    enum change change;
    int dir;  /* of the name; WRITE: the file itself */
    ino_t in; /* the directory, or the file */
    char name[160], to[160];
} done[MAX_CHANGES];
static size_t n_done;
static long n_buried;

static ino_t inode_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static int raw_openat(int dir, const char *name, int flags, mode_t mode)
{
    return (int)syscall(SYS_openat, dir, name, flags, mode);
}

static void remember(enum change change, int fd, const char *name, const char *to)
{
    if (!plan.on || plan.grave[0] == '\0')
        return;
    if (n_done == MAX_CHANGES)
        abort();
    struct done *d = &done[n_done++];
    *d = (struct done){.change = change, .dir = fcntl(fd, F_DUPFD_CLOEXEC, 100)};
    d->in = inode_of(fd);
    snprintf(d->name, sizeof d->name, "%s", name);
    snprintf(d->to, sizeof d->to, "%s", to);
}

/* Forgets changes that are synced. */
static void forget(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return;
    bool file = S_ISREG(st.st_mode);
    struct stat root;
    bool is_root = stat(plan.root, &root) == 0 && root.st_ino == st.st_ino;
    if ((file && plan.sabotage == NO_FILE_SYNC) ||
        (!file && is_root && plan.sabotage == NO_ROOT_SYNC) ||
        (!file && !is_root && plan.sabotage == NO_INNER_SYNC))
        return;
    size_t n = 0;
    for (size_t i = 0; i < n_done; i++) {
        if (done[i].in == st.st_ino && (done[i].change == WRITE) == file)
            syscall(SYS_close, done[i].dir);
        else
            done[n++] = done[i];
    }
    n_done = n;
}

static void take_back(const struct done *d)
{
    struct stat st;

    switch (d->change) {
    case CREATE:
        syscall(SYS_unlinkat, d->dir, d->name, 0);
        break;
    case WRITE:
        if (fstat(d->dir, &st) == 0 &&
            ftruncate(d->dir, plan.loss == LOSE_SOME_BYTES ? st.st_size / 2 : 0) == 0 &&
            plan.loss == LOSE_SOME_BYTES)
            if (ftruncate(d->dir, st.st_size) != 0) /* zeros, as on real file systems */
                abort();
        break;
    case RENAME:
        syscall(SYS_renameat2, d->dir, d->to, d->dir, d->name, 0);
        break;
    case EXCHANGE:
        syscall(SYS_renameat2, d->dir, d->to, d->dir, d->name, RENAME_EXCHANGE);
        break;
    case UNLINK:
        syscall(SYS_linkat, AT_FDCWD, d->to, d->dir, d->name, 0);
        break;
    case RMDIR:
        syscall(SYS_renameat2, AT_FDCWD, d->to, d->dir, d->name, 0);
        break;
    case MKDIR:
        syscall(SYS_unlinkat, d->dir, d->name, AT_REMOVEDIR);
        break;
    }
}

static void lose(void)
{
    if (plan.loss == LOSE_NOTHING)
        return;
    for (size_t i = 0; i < n_done; i++)
        if (done[i].change == WRITE)
            take_back(&done[i]);
    if (plan.loss == LOSE_BYTES || plan.loss == LOSE_SOME_BYTES)
        return;
    size_t stop = plan.loss == LOSE_LAST ? n_done / 2 + (size_t)plan.crash_at % 3 : 0;
    for (size_t i = n_done; i > stop; i--)
        if (done[i - 1].change != WRITE)
            take_back(&done[i - 1]);
}

/* Runs at the start of every call.  Returns true and sets errno if the call must fail.  Crashes
 * between two changes are equivalent, so only changes are counted for them. */
static bool hit(bool changes)
{
    if (!plan.on)
        return false;
    plan.count++;
    plan.n_changes += changes;
    if (changes && plan.n_changes == plan.crash_at) {
        lose();
        _exit(77);
    }
    if (plan.fail_at == 0 ||
        (plan.permanent ? plan.count < plan.fail_at : plan.count != plan.fail_at))
        return false;
    errno = plan.with;
    return true;
}

/* -- the calls ----------------------------------------------------------------------------- */

int openat(int dir, const char *name, int flags, ...)
{
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list args;
        va_start(args, flags);
        mode = (mode_t)va_arg(args, int);
        va_end(args);
    }
    if (hit((flags & O_CREAT) != 0))
        return -1;
    int fd = raw_openat(dir, name, flags, mode);
    if (fd >= 0 && (flags & O_CREAT))
        remember(CREATE, dir, name, "");
    return fd;
}

int open(const char *name, int flags, ...)
{
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list args;
        va_start(args, flags);
        mode = (mode_t)va_arg(args, int);
        va_end(args);
    }
    return hit((flags & O_CREAT) != 0) ? -1 : raw_openat(AT_FDCWD, name, flags, mode);
}

int mkdirat(int dir, const char *name, mode_t mode)
{
    if (hit(true))
        return -1;
    int result = (int)syscall(SYS_mkdirat, dir, name, mode);
    if (result == 0)
        remember(MKDIR, dir, name, "");
    return result;
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    if (hit(true))
        return -1;
    remember(WRITE, fd, "", "");
    if (plan.on && plan.in_halves) {
        if (plan.count % 3 == 0) {
            errno = EINTR;
            return -1;
        }
        n = (n + 1) / 2;
    }
    return syscall(SYS_write, fd, bytes, n);
}

ssize_t pread(int fd, void *bytes, size_t n, off_t at)
{
    if (hit(false))
        return -1;
    if (plan.on && plan.in_halves) {
        if (plan.count % 3 == 0) {
            errno = EINTR;
            return -1;
        }
        n = (n + 1) / 2;
    }
    return syscall(SYS_pread64, fd, bytes, n, at);
}

int fsync(int fd)
{
    if (hit(true))
        return -1;
    if (plan.on)
        forget(fd);
    return 0;
}

int close(int fd)
{
    bool failed = hit(false); /* the descriptor is closed in any case */
    int why = errno, result = (int)syscall(SYS_close, fd);
    if (!failed)
        return result;
    errno = why;
    return -1;
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    if (hit(true))
        return -1;
    int result = (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
    if (result == 0)
        remember(RENAME, from_dir, from, to);
    return result;
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (hit(true))
        return -1;
    if (plan.on && plan.no_exchange) {
        errno = EINVAL;
        return -1;
    }
    int result = (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
    if (result == 0)
        remember(EXCHANGE, from_dir, from, to);
    return result;
}

/* Returns true if a directory has no entries.  Removed files are in `grave`. */
static bool is_empty(int dir, const char *name)
{
    int fd = raw_openat(dir, name, O_RDONLY | O_DIRECTORY, 0);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    size_t n = 0;
    if (d == NULL)
        return true;
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n == 2;
}

int unlinkat(int dir, const char *name, int flags)
{
    if (hit(true))
        return -1;

    if (!plan.on || plan.grave[0] == '\0')
        return (int)syscall(SYS_unlinkat, dir, name, flags);

    char buried[160];
    snprintf(buried, sizeof buried, "%s/%ld", plan.grave, n_buried++);
    if (flags & AT_REMOVEDIR) {
        if (!is_empty(dir, name)) {
            errno = ENOTEMPTY;
            return -1;
        }
        int result = (int)syscall(SYS_renameat2, dir, name, AT_FDCWD, buried, 0);
        if (result == 0)
            remember(RMDIR, dir, name, buried);
        return result;
    }

    syscall(SYS_linkat, dir, name, AT_FDCWD, buried, 0);
    int result = (int)syscall(SYS_unlinkat, dir, name, 0);
    if (result == 0)
        remember(UNLINK, dir, name, buried);
    return result;
}

/* -- crashes ------------------------------------------------------------------------------- */

/* Three checkpoints, of which two are kept.  The last one is saved twice,
 * with two divisions. */
enum { N_SAVES = 4 };
static const uint64_t steps[N_SAVES] = {10, 20, 30, 30};

static struct saved_options save_options(const char *root, size_t i)
{
    static const char *const runs[N_SAVES] = {"a", "a", "a", "b"};
    return (struct saved_options){root, runs[i], steps[i], i == 3 ? 2 : 3, 5 + i, 2, true};
}

/* Makes the folder in memory if possible, since nothing needs to survive. */
static void make_folder(struct folder *f)
{
    snprintf(f->at, sizeof f->at, "/dev/shm/weft-test-XXXXXX");
    if (mkdtemp(f->at) == NULL)
        folder_make(f);
}

static void set_plan(const struct folder *f)
{
    memset(&plan, 0, sizeof plan);
    n_done = 0;
    snprintf(plan.root, sizeof plan.root, "%.60s/root", f->at);
    snprintf(plan.grave, sizeof plan.grave, "%.60s/grave", f->at);
}

/* Reports acknowledged steps through the pipe. */
static void save_all(int ack)
{
    plan.on = true;
    for (size_t i = 0; i < N_SAVES; i++) {
        struct saved_options o = save_options(plan.root, i);
        if (saved_write(&o, NULL) != WEFT_OK)
            _exit(1);
        unsigned char step = (unsigned char)steps[i];
        if (syscall(SYS_write, ack, &step, 1) != 1)
            _exit(1);
    }
    if (plan.loss != LOSE_NOTHING) /* and a power cut at the very end */
        lose();
    _exit(0);
}

/* Returns the newest step if all of it is correct; 0: none, -1: something is wrong. */
static int found_step(void)
{
    struct wf_ckpt *s = NULL;
    bool same = true;
    if (wf_ckpt_open_newest(plan.root, true, &s, NULL, NULL) != WEFT_OK)
        return -1;
    if (s == NULL)
        return 0;
    int step = (int)wf_ckpt_step(s);
    if (saved_compare(s, 9, &same, NULL) != WEFT_OK || !same)
        step = -1;
    wf_ckpt_free(s);
    return step;
}

static size_t count_hidden(const char *path)
{
    DIR *d = opendir(path);
    assert_non_null(d);
    size_t n = 0;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        n += strncmp(e->d_name, ".step", 5) == 0;
    closedir(d);
    return n;
}

/* The next run cleans up, resumes and saves. */
static void check_next_run(void)
{
    struct saved_options o = {plan.root, "next", 40, 2, 1, 1, true};
    assert_int_equal(wf_store_prepare(plan.root, NULL, NULL), WEFT_OK);
    assert_int_equal(count_hidden(plan.root), 0);
    assert_int_equal(saved_write(&o, NULL), WEFT_OK);
    assert_int_equal(found_step(), 40);
    assert_int_equal(folder_count(plan.root), 1);
}

/* Crashes before change `at`.  Returns true if the newest acknowledged checkpoint or a newer
 * one is found bit for bit.  Sets *ended if there are fewer changes. */
static bool survives(long at, enum loss loss, enum sabotage sabotage, bool no_exchange,
                     bool *ended)
{
    struct folder f;
    int ack[2], status, newest = 0;
    unsigned char step;

    make_folder(&f);
    set_plan(&f);
    assert_int_equal(mkdir(plan.root, 0777) | mkdir(plan.grave, 0777), 0);
    assert_int_equal(pipe(ack), 0);

    plan.crash_at = at;
    plan.loss = loss;
    plan.sabotage = sabotage;
    plan.no_exchange = no_exchange;

    /* Reads the steps that the process acknowledged. */
    pid_t pid = fork();
    if (pid == 0)
        save_all(ack[1]);
    close(ack[1]);
    while (read(ack[0], &step, 1) == 1)
        newest = step;
    close(ack[0]);

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 0));
    *ended = WEXITSTATUS(status) == 0;

    int found = found_step();
    bool good = found >= newest;
    if (good && sabotage == NONE)
        check_next_run();
    else if (!good && sabotage == NONE)
        print_message("change %ld, loss %d: acknowledged %d, found %d\n", at, loss, newest,
                      found);

    folder_remove(f.at);
    return good;
}

/* Counts crashes that lose something, at changes 1, 1 + stride, ... and after the last one. */
static size_t sweep(enum loss loss, enum sabotage sabotage, long stride, bool no_exchange,
                    long *n_points)
{
    size_t n_lost = 0;
    bool ended = false;
    for (long at = 1; !ended; at += stride) {
        n_lost += !survives(at, loss, sabotage, no_exchange, &ended);
        ++*n_points;
    }
    return n_lost;
}

static void check_crashes(void **state)
{
    enum loss loss = *(enum loss *)*state;
    long n_points = 0;
    assert_int_equal(sweep(loss, NONE, SAVED_STRIDE, false, &n_points), 0);
    print_message("%ld crashes\n", n_points);
    assert_true(n_points > 100 / SAVED_STRIDE);
}

/* Without an exchange of names step 30 is missing for a moment, but there is
 * always a checkpoint. */
static void check_crashes_without_exchange(void **state)
{
    (void)state;
    long n_points = 0;
    assert_true(sweep(LOSE_NOTHING, NONE, SAVED_STRIDE, true, &n_points) <= 1);
}

/* A missing sync must be detected. */
static void check_teeth(void **state)
{
    enum sabotage sabotage = *(enum sabotage *)*state;
    long n_points = 0;
    assert_true(sweep(LOSE_ALL, sabotage, 3, false, &n_points) > 0);
}

/* -- failures ------------------------------------------------------------------------------ */

static size_t count_open(void)
{
    return folder_count("/proc/self/fd");
}

static void set_failing(struct folder *f)
{
    make_folder(f);
    set_plan(f);
    plan.grave[0] = '\0';
    assert_int_equal(mkdir(plan.root, 0777), 0);
    for (size_t i = 0; i < 2; i++) {
        struct saved_options o = save_options(plan.root, i);
        assert_int_equal(saved_write(&o, NULL), WEFT_OK);
    }
}

static const struct failure {
    int with;
    bool permanent;
} failures[] = {{EIO, false}, {EIO, true}, {ENOSPC, false}};

/* After a failure of the n-th call, acknowledged checkpoints stay, nothing leaks, an error has
 * a message, and the next checkpoint succeeds. */
static bool fail_at(long at, const struct failure *how)
{
    struct folder f;
    struct weft_error err = {.msg = ""};

    set_failing(&f);
    size_t n_open = count_open();
    struct saved_options o = save_options(plan.root, 2);

    plan.fail_at = at;
    plan.with = how->with;
    plan.permanent = how->permanent;
    plan.on = true;
    enum weft_status st = saved_write(&o, &err);
    plan.on = false;

    bool reached = plan.count >= at;
    assert_int_equal(count_open(), n_open);
    assert_true(st == WEFT_OK || (err.status == st && err.msg[0] != '\0'));
    int found = found_step();

    if (found < (st == WEFT_OK ? 30 : 20))
        fail_msg("call %ld: found %d after '%s'", at, found, err.msg);
    if (!how->permanent && st != WEFT_OK && found == 20 && count_hidden(plan.root) != 0)
        fail_msg("call %ld: a temporary directory is left after '%s'", at, err.msg);

    check_next_run();
    folder_remove(f.at);
    return reached;
}

static void check_failures(void **state)
{
    const struct failure *how = *state;
    long at = 1;
    while (fail_at(at, how))
        at += SAVED_STRIDE;
    print_message("up to call %ld\n", at - 1);
    assert_true(at > 60);
}

static void check_halves(void **state)
{
    (void)state;
    struct folder f;
    set_failing(&f);
    struct saved_options o = save_options(plan.root, 2);
    plan.in_halves = true;
    plan.on = true;
    assert_int_equal(saved_write(&o, NULL), WEFT_OK);
    int found = found_step();
    plan.on = false;
    assert_int_equal(found, 30);
    folder_remove(f.at);
}

/* ------------------------------------------------------------------------------------------ */

int main(void)
{
    static enum loss losses[] = {LOSE_NOTHING, LOSE_ALL, LOSE_LAST, LOSE_BYTES,
                                 LOSE_SOME_BYTES};
    static enum sabotage sabotages[] = {NO_FILE_SYNC, NO_INNER_SYNC, NO_ROOT_SYNC};
    static const char *const loss_names[] = {
        "killed", "unsynced is lost", "the last names are lost", "unsynced files are empty",
        "unsynced files are half"};
    static const char *const sabotage_names[] = {
        "files are not synced", "directories are not synced", "the root is not synced"};
    static const char *const failure_names[] = {"EIO once", "EIO permanently", "ENOSPC once"};
    struct CMUnitTest tests[2 + WEFT_LEN(losses) + WEFT_LEN(sabotages) + WEFT_LEN(failures)] = {
        cmocka_unit_test(check_halves), cmocka_unit_test(check_crashes_without_exchange)};

    size_t n = 2;
    for (size_t i = 0; i < WEFT_LEN(losses); i++)
        tests[n++] = (struct CMUnitTest){loss_names[i], check_crashes, NULL, NULL, &losses[i]};
    for (size_t i = 0; i < WEFT_LEN(sabotages); i++)
        tests[n++] =
            (struct CMUnitTest){sabotage_names[i], check_teeth, NULL, NULL, &sabotages[i]};
    for (size_t i = 0; i < WEFT_LEN(failures); i++)
        tests[n++] = (struct CMUnitTest){failure_names[i], check_failures, NULL, NULL,
                                         (void *)&failures[i]};

    return cmocka_run_group_tests_name("store_crash", tests, NULL, NULL) != 0;
}
