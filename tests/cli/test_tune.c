/* Checks the command tune: its output, its files, its errors. */
#define _DEFAULT_SOURCE /* mkstemps */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>
#include <cmocka.h>

static char output[1 << 16];

/* Runs "weft ARGS" with both streams redirected to `output`.  Returns the exit code. */
static int run(const char *args)
{
    char line[1024];
    snprintf(line, sizeof line, "%s %s 2>&1", WEFT_BINARY, args);
    FILE *in = popen(line, "r");
    assert_non_null(in);
    size_t n = fread(output, 1, sizeof output - 1, in);
    output[n] = '\0';
    int status = pclose(in);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check_text(void **state)
{
    (void)state;
    assert_int_equal(
        run("tune -p 4 -m 8 --cost F=10,I=12,W=8,C=1 --mem-limit 3 --iterations 500 "
            "--width 80"),
        0);
    assert_non_null(strstr(
        output, "makespan 342 time units, the optimum for this memory limit (proven)\n"));
    assert_non_null(strstr(output, "rank 3"));
    assert_int_equal(run("tune -p 4 -m 12 --placement v --cost F=10,I=12,W=8 --mem-limit 4 "
                         "--iterations 300"),
                     0);
    assert_non_null(strstr(output, "% above the optimum for this memory limit\n"));
    assert_int_equal(run("tune -p 4 --layers 8 --global-batch 8 --top 3 --iterations 500"), 0);
    assert_non_null(strstr(output, "cut off by bounds"));
    assert_int_equal(
        run("tune --layers 8 --global-batch 8 --boundary-bytes 1e6 --cluster 'node:2 "
            "rank:2 intra:100GB/s,2us inter:10GB/s,8us'"),
        0);
    assert_non_null(strstr(output, "ranks x replicas"));
}

/* Checks that the order is reproducible and that `weft check` accepts it. */
static void check_file(void **state)
{
    char first[sizeof output];
    (void)state;

    assert_int_equal(run("tune -p 3 -m 5 --placement wave --chunks 3 --whole --mem-limit 4 "
                         "--iterations 2000 --metric span --format csv"),
                     0);
    memcpy(first, output, sizeof first);
    assert_int_equal(run("tune -p 3 -m 5 --placement wave --chunks 3 --whole --mem-limit 4 "
                         "--iterations 2000 --metric span --format csv"),
                     0);
    assert_string_equal(first, output);

    char path[] = "/tmp/weft-tune-XXXXXX.csv", args[256];
    int fd = mkstemps(path, 4);
    assert_true(fd >= 0);
    close(fd);

    snprintf(args, sizeof args, "tune -p 3 -m 6 --mem-limit 2 --iterations 1000 -o %s", path);
    assert_int_equal(run(args), 0);
    snprintf(args, sizeof args, "check %s", path);
    assert_int_equal(run(args), 0);
    assert_non_null(strstr(output, "correct"));

    remove(path);
}

static void check_json(void **state)
{
    json_t *j;
    (void)state;
    assert_int_equal(run("tune -p 3 -m 4 --mem-limit 2 --iterations 1000 --json"), 0);
    j = json_loads(output, 0, NULL);
    assert_non_null(j);
    assert_true(json_number_value(json_object_get(j, "makespan")) >=
                json_number_value(json_object_get(j, "bound")));
    assert_int_equal(json_array_size(json_object_get(j, "orders")), 3);
    json_decref(j);
    assert_int_equal(run("tune -p 2 --layers 4 --global-batch 4 --iterations 100 --json"), 0);
    j = json_loads(output, 0, NULL);
    assert_non_null(j);
    assert_true(json_array_size(json_object_get(j, "layouts")) > 0);
    json_decref(j);
}

/* Starts "weft ARGS..." with both streams redirected to the file at `path`. */
static pid_t start(const char *path, const char *const *args)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (freopen(path, "w", stdout) == NULL || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
            _exit(99);
        execv(WEFT_BINARY, (char *const *)(uintptr_t)args);
        _exit(98);
    }
    return child;
}

/* Returns the processor time of a process in seconds, from /proc. */
static double cpu_seconds(pid_t child)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_non_null(fgets(text, sizeof text, in));
    fclose(in);
    /* fields 14 and 15; the name of the program in field 2 ends with the last ')' */
    assert_int_equal(sscanf(strrchr(text, ')') + 1,
                            " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                            &kernel),
                     2);
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

/* SIGINT ends a search that would take an hour.  The best result so far is printed and written,
 * and the exit code is 130.  The signal is sent once the process has run for some processor
 * time, when the handler is installed. */
static void check_interrupt(void **state)
{
    char log[] = "/tmp/weft-tune-XXXXXX", best[] = "/tmp/weft-tune-XXXXXX.csv", args[256];
    int fd = mkstemp(log), fd_best = mkstemps(best, 4);
    assert_true(fd >= 0 && fd_best >= 0);

    const char *const order[] = {
        "weft",      "tune",        "-p", "8",      "-m",
        "24",        "--mem-limit", "6",  "--cost", "F=10,I=12,W=8,C=1",
        "--seconds", "3600",        "-o", best,     NULL};
    const char *const layouts[] = {"weft",
                                   "tune",
                                   "--layers",
                                   "64",
                                   "--global-batch",
                                   "5040",
                                   "--boundary-bytes",
                                   "1e6",
                                   "--cluster",
                                   "node:8 rank:8 intra:100GB/s,2us inter:10GB/s,8us",
                                   "--seconds",
                                   "3600",
                                   NULL};
    const char *const *const both[] = {order, layouts};

    (void)state;
    for (int i = 0; i < 2; i++) {
        int status = 0;
        pid_t child = start(log, both[i]);
        while (cpu_seconds(child) < 0.5)
            usleep(20000);
        assert_int_equal(waitpid(child, &status, WNOHANG), 0);
        assert_int_equal(kill(child, SIGINT), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 130);
    }

    FILE *in = fopen(log, "r");
    assert_non_null(in);
    output[fread(output, 1, sizeof output - 1, in)] = '\0';
    fclose(in);
    assert_non_null(strstr(output, "stopped before all layouts were tried"));

    snprintf(args, sizeof args, "check %s", best);
    assert_int_equal(run(args), 0);

    close(fd);
    close(fd_best);
    remove(log);
    remove(best);
}

static void check_errors(void **state)
{
    static const char *const all[] = {
        "tune",
        "tune -p 4",
        "tune -p 0 -m 1",
        "tune -p 4 -m 8 --cost F=-1",
        "tune -p 4 -m 8 --cost F=nan",
        "tune -p 4 -m 8 --cost F=1:2:3",
        "tune -p 4 -m 8 --cost X=1",
        "tune -p 4 -m 8 --mem-limit inf",
        "tune -p 4 -m 8 --mem-limit -2",
        "tune -p 4 -m 8 --mem-limit 0.5",
        "tune -p 4 -m 8 --placement zig",
        "tune -p 4 -m 8 --chunks 3",
        "tune -p 4 -m 8 --seconds 0",
        "tune -p 4 -m 8 --seconds x",
        "tune -p 4 -m 8 --iterations 0",
        "tune -p 4 -m 8 --metric time",
        "tune -p 4 -m 8 --json --format csv",
        "tune -p 4 --layers 8",
        "tune -p 4 --layers 2 --global-batch 8",
        "tune -p 4 --layers 8 --global-batch 8 -m 4",
        "tune -p 4 --model none --global-batch 8",
        "tune -p 4 --layers 8 --global-batch 8 --seconds 1e-9",
        "tune -p 4 --layers 8 --global-batch 8 --tflops 3",
        "tune -p 4 --layers 8 --global-batch 8 --layer-cost F=-1",
        "tune --model d12 --global-batch 8 --cluster 'node:1 rank:2 intra:1GB/s,1us'",
        "tune --layers 8 --global-batch 8 --cluster 'node:x'",
        "tune -p 2 --layers 8 --global-batch 8 --layer-cost bytes=100 --bytes-limit 10",
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int code = run(all[i]);
        if (code != 2 || strncmp(output, "weft: ", 6) != 0 ||
            strchr(output, '\n') != output + strlen(output) - 1) {
            print_error("weft %s: exit %d, %s\n", all[i], code, output);
            fail();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_text),   cmocka_unit_test(check_file),
        cmocka_unit_test(check_json),   cmocka_unit_test(check_interrupt),
        cmocka_unit_test(check_errors),
    };
    return cmocka_run_group_tests_name("tune command", tests, NULL, NULL) != 0;
}
