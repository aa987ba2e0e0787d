/* Starts commands, with or without a fault, and waits for them with a time limit. */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sweep.h"

/* The words of a command line. */
struct words {
    char *at[MAX_WORDS];
    int n;
    char bytes[8192];
    size_t used;
};

static void add_word(struct words *w, const char *word, size_t len)
{
    if (w->n + 1 >= MAX_WORDS || w->used + len + 1 > sizeof w->bytes) {
        fputs("sweep: a command has too many words\n", stderr);
        exit(2);
    }
    w->at[w->n++] = memcpy(w->bytes + w->used, word, len);
    w->bytes[w->used + len] = '\0';
    w->used += len + 1;
    w->at[w->n] = NULL;
}

static void add_words(struct words *w, const char *text)
{
    while (*(text += strspn(text, " ")) != '\0') {
        size_t len = strcspn(text, " ");
        add_word(w, text, len);
        text += len;
    }
}

/* Under mpirun only the ranks load the library. */
static void build_command(const struct places *p, const struct fault_case *c, bool preload,
                          struct words *out)
{
    char text[2 * TREE_PATH_BYTES + 32];
    out->n = 0;
    out->used = 0;
    if (c->launch == LAUNCH_OPENMPI)
        add_words(out, "mpirun.openmpi --allow-run-as-root --oversubscribe "
                       "--mca mpi_yield_when_idle 1 -n 2");
    if (c->launch == LAUNCH_MPICH)
        add_words(out, "mpirun.mpich -n 2");
    if (preload && c->launch != LAUNCH_PLAIN) {
        snprintf(text, sizeof text, "LD_PRELOAD=%s", p->shim);
        add_words(out, "env");
        add_word(out, text, strlen(text));
    }
    if (c->program != NULL) {
        tree_join(text, p->examples, c->program);
        add_word(out, text, strlen(text));
    } else {
        add_word(out, p->weft, strlen(p->weft));
    }
    add_words(out, c->command);
}

static void redirect(const char *path, int flags, int to)
{
    int fd = open(path, flags, 0666);
    if (fd < 0 || dup2(fd, to) < 0)
        _exit(126);
    close(fd);
}

/* Starts a command in its own process group and session. */
static pid_t start(const struct words *w, const char *preload, const char *dir, const char *out,
                   const char *err)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (chdir(dir) != 0)
        _exit(126);
    redirect("/dev/null", O_RDONLY, 0);
    redirect(out, O_WRONLY | O_CREAT | O_TRUNC, 1);
    redirect(err, O_WRONLY | O_CREAT | O_TRUNC, 2);
    if (preload[0] != '\0')
        setenv("LD_PRELOAD", preload, 1);
    execvp(w->at[0], w->at);
    _exit(127);
}

/* Waits for the end of a process group, and kills it after the time limit. */
static int wait_for(pid_t pid, int limit_s, bool *timed_out)
{
    int status, fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd ends = {.fd = fd, .events = POLLIN};
    int n;
    do
        n = poll(&ends, 1, limit_s * 1000);
    while (n < 0 && errno == EINTR);
    *timed_out = n == 0;
    if (*timed_out)
        kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    close(fd);
    return status;
}

static void read_err(const char *path, char *out)
{
    out[0] = '\0';
    FILE *in = fopen(path, "rb");
    if (in == NULL)
        return;
    out[fread(out, 1, ERR_BYTES - 1, in)] = '\0';
    fclose(in);
}

void run_case(const struct places *p, const struct slot *s, const struct fault_case *c,
              const struct fault_kind *kind, int64_t at, struct outcome *out)
{
    struct words words;
    char spec[96];
    build_command(p, c, kind != NULL, &words);
    unsetenv("WEFT_FAULT");
    if (kind != NULL) {
        snprintf(spec, sizeof spec, "%u %d %lld %d", kind->calls, kind->error, (long long)at,
                 kind->ever);
        memset(s->record, 0, sizeof *s->record);
        setenv("WEFT_FAULT", spec, 1);
        setenv("WEFT_FAULT_ROOT", s->root, 1);
        setenv("WEFT_FAULT_RECORD", s->record_path, 1);
    }

    *out = (struct outcome){0};
    bool direct = kind != NULL && c->launch == LAUNCH_PLAIN;
    pid_t pid = start(&words, direct ? p->shim : "", s->root, "stdout", s->err);
    int status = wait_for(pid, p->limit_s, &out->timed_out);
    out->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    out->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    read_err(s->err, out->err);
}

void run_or_die(const struct places *p, const char *dir, const char *command)
{
    struct words words;
    struct fault_case c = {.command = command};
    bool timed_out;
    char err[ERR_BYTES];
    char path[TREE_PATH_BYTES];
    tree_join(path, p->base, "err");
    build_command(p, &c, false, &words);
    int status = wait_for(start(&words, "", dir, "/dev/null", path), p->limit_s, &timed_out);
    read_err(path, err);
    if (timed_out || status != 0) {
        fprintf(stderr, "sweep: weft %s: status %d\n%s", command, status, err);
        exit(2);
    }
}

void slot_make(const struct places *p, int number, struct slot *out)
{
    char dir[TREE_PATH_BYTES], name[32];
    snprintf(name, sizeof name, "slot-%02d", number); /* paths of all workers have one length */
    tree_join(dir, p->base, name);
    tree_join(out->root, dir, "root");
    tree_join(out->err, dir, "err");
    tree_join(out->record_path, dir, "record");
    mkdir(dir, 0777);
    int fd = open(out->record_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || ftruncate(fd, sizeof *out->record) != 0 ||
        (out->record = mmap(NULL, sizeof *out->record, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                            0)) == MAP_FAILED) {
        perror(out->record_path);
        exit(2);
    }
    close(fd);
}

void slot_reset(const struct slot *s, const char *before)
{
    tree_remove(s->root);
    tree_copy(before, s->root);
}
