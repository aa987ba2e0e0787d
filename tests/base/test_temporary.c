/* Tests temporary files and directories: those of killed processes are removed, those of live
 * processes and other files are not. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary.h"
#include "folder.h"

static bool exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

static void put(const char *path)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fclose(out), 0);
}

/* Starts a process that creates a temporary file and a temporary directory with a file in it,
 * and then waits to be killed. */
static pid_t start_writer(const struct folder *f)
{
    int pipes[2];
    char ready = 0;
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct wf_atomic_file file;
        char *tmp = NULL, path[600];
        int lock;
        if (wf_atomic_file_open(&file, folder_in(f, "out.csv"), NULL) != WEFT_OK ||
            wf_temporary_new_dir(folder_in(f, "model"), &tmp, &lock, NULL) != WEFT_OK)
            _exit(1);
        snprintf(path, sizeof path, "%s/inner", tmp);
        if (mkdir(path, 0777) != 0 || write(pipes[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    close(pipes[1]);
    assert_int_equal(read(pipes[0], &ready, 1), 1);
    close(pipes[0]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void check_killed(void **state)
{
    (void)state;
    struct folder f = folder_new();
    pid_t pid = start_writer(&f);

    wf_temporary_clean_dir(f.path);
    wf_temporary_clean(folder_in(&f, "out.csv"));
    assert_int_equal(folder_count(&f), 2); /* nothing of a live process is removed */

    end(pid);
    wf_temporary_clean(folder_in(&f, "out.cs"));
    wf_temporary_clean(folder_in(&f, "other"));
    assert_int_equal(folder_count(&f), 2); /* they belong to other paths */
    wf_temporary_clean(folder_in(&f, "out.csv"));
    assert_int_equal(folder_count(&f), 1);
    wf_temporary_clean_dir(f.path);
    assert_int_equal(folder_count(&f), 0);
    folder_remove(&f);
}

/* A new temporary directory of the same path removes that of the killed process. */
static void check_next_start(void **state)
{
    (void)state;
    struct folder f = folder_new();
    char *tmp = NULL;
    int lock = -1;
    end(start_writer(&f));
    assert_int_equal(wf_temporary_new_dir(folder_in(&f, "model"), &tmp, &lock, NULL), WEFT_OK);
    assert_true(exists(tmp));
    assert_int_equal(folder_count(&f), 2); /* the new one, and the file of the other path */
    close(lock);
    free(tmp);
    folder_remove(&f);
}

/* The lock protects a temporary of a process that cannot be seen from here, such as one on
 * another machine.  Its id in the name is then meaningless. */
static void check_lock(void **state)
{
    (void)state;
    struct folder f = folder_new();
    char *tmp = NULL;
    int fd = -1;
    pid_t dead = fork();
    if (dead == 0)
        _exit(0);
    waitpid(dead, NULL, 0);

    char name[64];
    snprintf(name, sizeof name, "out.csv.tmp-%ld-0", (long)dead);
    assert_int_equal(wf_temporary_new_file(folder_in(&f, "out.csv"), &tmp, &fd, NULL), WEFT_OK);
    assert_int_equal(rename(tmp, folder_in(&f, name)), 0);
    wf_temporary_clean_dir(f.path);
    assert_true(exists(folder_in(&f, name)));
    close(fd);
    wf_temporary_clean_dir(f.path);
    assert_false(exists(folder_in(&f, name)));
    free(tmp);
    folder_remove(&f);
}

static void check_other_files(void **state)
{
    (void)state;
    static const char *const names[] = {"out.tmp",    "out.tmp-",    "out.tmp-1x-0",
                                        "out.tmp-99", "out.tmp-99-", "out.tmp-99-0.csv",
                                        ".tmp-99-0"};
    struct folder f = folder_new();
    for (size_t i = 0; i < WEFT_LEN(names); i++)
        put(folder_in(&f, names[i]));
    assert_int_equal(symlink("/", folder_in(&f, "link.tmp-4194303-0")), 0);
    assert_int_equal(mkfifo(folder_in(&f, "pipe.tmp-4194303-0"), 0666), 0);
    wf_temporary_clean_dir(f.path);
    for (size_t i = 0; i < WEFT_LEN(names); i++)
        assert_true(exists(folder_in(&f, names[i])));
    assert_true(exists(folder_in(&f, "link.tmp-4194303-0")));
    assert_true(exists(folder_in(&f, "pipe.tmp-4194303-0")));
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_killed),
        cmocka_unit_test(check_next_start),
        cmocka_unit_test(check_lock),
        cmocka_unit_test(check_other_files),
    };
    return cmocka_run_group_tests_name("temporary", tests, NULL, NULL) != 0;
}
