/* Judges what a run with a fault has left: its exit code, its error line and its files. */
#define _GNU_SOURCE

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sweep.h"

static char reason[512];

#define WRONG(...) (snprintf(reason, sizeof reason, __VA_ARGS__), reason)

/* -- runs without faults ------------------------------------------------------------------- */

struct difference {
    struct prepared *p;
    const char *other;
};

static bool note_variable(const char *relative, bool is_directory, void *context)
{
    struct difference *d = context;
    char a[TREE_PATH_BYTES], b[TREE_PATH_BYTES];
    tree_join(a, d->p->after, relative);
    tree_join(b, d->other, relative);
    if (!is_directory && !tree_same(a, b)) {
        if (d->p->n_variable == MAX_VARIABLE || access(b, F_OK) != 0) {
            fprintf(stderr, "sweep: %s: two runs differ in %s\n", d->p->c->name, relative);
            exit(2);
        }
        snprintf(d->p->variable[d->p->n_variable++], sizeof d->p->variable[0], "%s", relative);
    }
    return true;
}

static void copy_needs(const struct places *p, const char *needs, const char *to)
{
    char from[TREE_PATH_BYTES], target[TREE_PATH_BYTES], name[64];
    mkdir(to, 0777);
    for (const char *at = needs; at != NULL && *(at += strspn(at, " ")) != '\0';) {
        size_t len = strcspn(at, " ");
        snprintf(name, sizeof name, "fixture/%.*s", (int)len, at);
        tree_join(from, p->base, name);
        tree_join(target, to, name + strlen("fixture/"));
        tree_copy(from, target);
        at += len;
    }
}

void prepare_case(const struct places *p, const struct fault_case *c, struct prepared *out)
{
    char dir[TREE_PATH_BYTES];
    struct slot slot;
    struct outcome o;
    *out = (struct prepared){.c = c};
    tree_join(dir, p->base, "case");
    tree_remove(dir);
    mkdir(dir, 0777);
    tree_join(out->before, dir, "before");
    tree_join(out->after, dir, "after");
    copy_needs(p, c->needs, out->before);

    slot_make(p, 99, &slot);
    for (int i = 0; i < 4; i++) {
        slot_reset(&slot, out->before);
        run_case(p, &slot, c, NULL, 0, &o);
        if (o.exit_code != 0) {
            fprintf(stderr, "sweep: %s: exit code %d without a fault: %s\n", c->name,
                    o.exit_code, o.err);
            exit(2);
        }
        if (i == 0)
            tree_copy(slot.root, out->after);
        out->n_variable = i == 0 ? 0 : out->n_variable;
        if (i > 0)
            tree_walk(out->after, note_variable, &(struct difference){out, slot.root});
    }
    snprintf(out->err, sizeof out->err, "%s", o.err);
}

/* -- files --------------------------------------------------------------------------------- */

struct files {
    const struct prepared *p;
    const struct slot *s;
    bool finished;   /* the files must be those of a run without a fault */
    bool stdout_too; /* so must its standard output */
    bool may_lack;   /* files may be missing: the run has warned of it */
    bool may_leave;  /* temporary files may remain: they could not be removed */
    bool resumed;    /* a training run was resumed or restarted */
    bool stopped;    /* a training run was stopped: a checkpoint may be in progress */
};

/* Returns true for what only a resumed run has: the records of the run that it replaces, and traces
 * of its first steps. */
static bool is_of_resumed(const char *relative)
{
    return strstr(relative, "/metrics-") != NULL || strstr(relative, "/samples-") != NULL ||
           strstr(relative, "/trace") != NULL;
}

static bool is_variable(const struct prepared *p, const char *relative)
{
    for (int i = 0; i < p->n_variable; i++)
        if (strcmp(p->variable[i], relative) == 0)
            return true;
    return false;
}

/* Returns true for a file of a checkpoint that the run would have removed: it may stay if the run
 * could not tell that newer ones are valid. */
static bool is_old_checkpoint(const struct files *f, const char *relative)
{
    return f->p->c->trains && strstr(relative, "/checkpoints/") != NULL;
}

/* Checks a file that exists after the run. */
static bool check_present(const char *relative, bool is_directory, void *context)
{
    const struct files *f = context;
    char now[TREE_PATH_BYTES], before[TREE_PATH_BYTES], after[TREE_PATH_BYTES];
    tree_join(now, f->s->root, relative);
    tree_join(before, f->p->before, relative);
    tree_join(after, f->p->after, relative);
    bool was = access(before, F_OK) == 0, is_result = access(after, F_OK) == 0;
    if (!f->stdout_too && strcmp(relative, "stdout") == 0)
        return true;
    if (!was && !is_result) {
        bool known = f->may_leave || (f->resumed && is_of_resumed(relative)) ||
                     (f->stopped && strstr(relative, "/checkpoints/.") != NULL);
        if (!known)
            WRONG("left behind: %s", relative);
        return known;
    }
    if (is_directory || tree_same(now, after) || (is_result && is_variable(f->p, relative)) ||
        (tree_same(now, before) &&
         (!f->finished || f->may_lack || is_old_checkpoint(f, relative))))
        return true;
    WRONG("%s: %s", f->finished ? "wrong result" : "half-written", relative);
    return false;
}

/* Checks that a file of a run without a fault exists. */
static bool check_absent(const char *relative, bool is_directory, void *context)
{
    const struct files *f = context;
    char now[TREE_PATH_BYTES];
    (void)is_directory;
    tree_join(now, f->s->root, relative);
    if (access(now, F_OK) == 0 || f->may_lack ||
        (f->resumed && strstr(relative, "/checkpoints/") != NULL))
        return true;
    WRONG("missing: %s", relative);
    return false;
}

static const char *check_files(const struct files *f)
{
    if (!tree_walk(f->s->root, check_present, (void *)f) ||
        (f->finished && !tree_walk(f->p->after, check_absent, (void *)f)))
        return reason;
    return NULL;
}

/* -- messages ------------------------------------------------------------------------------ */

/* Returns true if a text names the cause of a fault. */
static bool names_cause(const char *text, const struct fault_kind *kind)
{
    if ((kind->calls & FAULT_ALLOC) != 0)
        return strcasestr(text, "memory") != NULL;
    if ((kind->calls & FAULT_THREAD) != 0)
        return strcasestr(text, "thread") != NULL;
    return strstr(text, strerror(kind->error)) != NULL;
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Counts the error lines of weft; warnings and notes are not errors.  Under mpirun, other lines are
 * those of MPI. */
static int count_errors(const struct prepared *p, const char *err, bool *named, bool *warned,
                        bool *strange, const struct fault_kind *kind)
{
    char line[ERR_BYTES];
    int n = 0;
    *named = *warned = *strange = false;
    for (const char *at = err; *at != '\0';) {
        size_t len = strcspn(at, "\n");
        snprintf(line, sizeof line, "%.*s", (int)len, at);
        at += len + (at[len] == '\n');
        if (strstr(p->err, line) != NULL) {
            continue; /* a note, as without a fault */
        } else if (starts_with(line, "weft: warning: ")) {
            *warned = *warned || names_cause(line, kind);
        } else if (starts_with(line, "weft: ")) {
            n++;
            *named = *named || names_cause(line, kind);
        } else if (p->c->launch == LAUNCH_PLAIN && line[0] != '\0') {
            *strange = true;
        }
    }
    return n;
}

/* MPICH's mpirun combines the code 8 with the signal by which it ends a rank that is late: 8 | 9. */
static const char *judge_end(const struct fault_case *c, const struct outcome *o)
{
    bool killed_late = c->launch == LAUNCH_MPICH && o->exit_code == (8 | SIGKILL);
    if (o->timed_out)
        return WRONG("hangs");
    if (o->signal != 0)
        return WRONG("signal %d", o->signal);
    return o->exit_code == 0 || o->exit_code == 8 || killed_late
               ? NULL
               : WRONG("exit code %d", o->exit_code);
}

const char *judge(const struct prepared *p, const struct slot *s, const struct fault_kind *kind,
                  const struct outcome *o)
{
    if (judge_end(p->c, o) != NULL)
        return reason;
    bool named, warned, strange;
    int n_errors = count_errors(p, o->err, &named, &warned, &strange, kind);
    bool plain = p->c->launch == LAUNCH_PLAIN;
    struct files files = {
        .p = p,
        .s = s,
        .finished = o->exit_code == 0,
        .stdout_too = o->exit_code == 0 && !p->c->times,
        .may_lack = p->c->trains && warned,
        .stopped = p->c->trains && o->exit_code != 0,
        .may_leave = kind->ever || s->record->call == FAULT_UNLINK,
    };
    if (strange)
        return WRONG("a line that is not weft's");
    if (o->exit_code != 0 && kind->error == FAULT_SHORT)
        return WRONG("a short transfer is an error");
    if (o->exit_code != 0 && s->record->n_fired == 0)
        return WRONG("an error without a fault");
    if (o->exit_code != 0 && (n_errors < 1 || (plain && n_errors > 1)))
        return WRONG("%d error lines", n_errors);
    if (o->exit_code != 0 && !named)
        return WRONG("the error does not name the cause");
    return check_files(&files);
}

static bool is_as_before(const char *relative, bool is_directory, void *context)
{
    const struct files *f = context;
    char now[TREE_PATH_BYTES], before[TREE_PATH_BYTES];
    (void)is_directory;
    tree_join(now, f->s->root, relative);
    tree_join(before, f->p->before, relative);
    return strcmp(relative, "stdout") == 0 || tree_same(now, before);
}

/* Checks that an entry of the start still exists. */
static bool still_exists(const char *relative, bool is_directory, void *context)
{
    const struct files *f = context;
    char now[TREE_PATH_BYTES];
    (void)is_directory;
    tree_join(now, f->s->root, relative);
    return access(now, F_OK) == 0;
}

bool is_unchanged(const struct prepared *p, const struct slot *s)
{
    struct files files = {.p = p, .s = s};
    return tree_walk(s->root, is_as_before, &files) &&
           tree_walk(p->before, still_exists, &files);
}

bool is_complete(const struct prepared *p, const struct slot *s)
{
    struct files files = {.p = p, .s = s, .finished = true, .may_leave = true};
    return check_files(&files) == NULL;
}

const char *judge_recovery(const struct prepared *p, const struct slot *s,
                           const struct fault_kind *kind, const struct outcome *o)
{
    static char text[600];
    const char *wrong;
    struct files files = {
        .p = p, .s = s, .finished = true, .stdout_too = !p->c->times, .resumed = p->c->trains};
    if (p->c->refuses && kind->ever && (kind->calls & FAULT_UNLINK) != 0 && o->exit_code == 2 &&
        strstr(o->err, "remove them") != NULL)
        wrong = NULL; /* what the first run could not remove */
    else if (o->exit_code != 0)
        wrong = WRONG("exit code %d: %.200s", o->exit_code, o->err);
    else
        wrong = check_files(&files);
    if (wrong != NULL)
        snprintf(text, sizeof text, "the next run: %s", wrong);
    return wrong != NULL ? text : NULL;
}
