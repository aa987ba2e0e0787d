/* Fails every allocation and every call on a file of every command, one at a time, and checks what
 * the command does.
 *
 *     sweep --weft PROGRAM --shim LIBRARY [--examples DIR] [--case NAME]... [--kind NAME]...
 *           [--quick] [--stride N] [--jobs N] [--at N] [--keep]
 *
 * For every case, kind of fault and N = 1, 2, ... until the command makes fewer calls, it runs the
 * command in a fresh directory and lets the Nth call fail.  The command must exit with 0 and the
 * right files, or with 8, one line that names the cause, and no half-written file; a second run
 * without a fault must then give the right files.  With a stride, only every strideth N is run.
 * With --at, only that one; its directory is kept. */
#define _GNU_SOURCE

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sweep.h"

enum { MAX_JOBS = 16, MAX_NAMES = 64 };

struct options {
    struct places places;
    const char *cases[MAX_NAMES], *kinds[MAX_NAMES];
    int n_cases, n_kinds;
    bool quick, keep;
    int stride, jobs;
    int64_t at;
};

/* Counts of one case and kind, shared by the workers. */
struct counts {
    _Atomic int64_t n_runs, n_fired, n_survived, n_failed;
    _Atomic int64_t end; /* no fault fires at this number */
};

/* -- one run ------------------------------------------------------------------------------- */

/* Appends the names of the functions that made the failed call. */
static void append_callers(const struct places *p, const struct fault_record *r, char *out,
                           size_t size)
{
    char command[2 * TREE_PATH_BYTES], line[256];
    size_t n = (size_t)snprintf(command, sizeof command, "addr2line -f -e %s", p->weft);
    for (int i = 0; i < r->n_frames && n + 32 < sizeof command; i++)
        if (r->frames[i] > r->base && r->frames[i] - r->base < 1 << 28)
            n += (size_t)snprintf(command + n, sizeof command - n, " %#llx",
                                  (unsigned long long)(r->frames[i] - r->base - 1));
    FILE *in = popen(command, "r");
    size_t used = strlen(out);
    for (int i = 0; in != NULL && fgets(line, sizeof line, in) != NULL; i++) {
        line[strcspn(line, "\n")] = '\0';
        if (i % 2 == 0 && strcmp(line, "??") != 0 && used + strlen(line) + 4 < size)
            used += (size_t)snprintf(out + used, size - used, " < %s", line);
    }
    if (in != NULL)
        pclose(in);
}

static void print_failure(const struct options *o, const struct prepared *p,
                          const struct fault_kind *kind, int64_t at, const char *wrong,
                          const struct outcome *outcome, const struct slot *s)
{
    char text[4096], last[240];
    const char *line = outcome->err; /* the last line of standard error */
    for (const char *next = line; (next = strchr(next, '\n')) != NULL && *++next != '\0';)
        line = next;
    snprintf(last, sizeof last, "%.*s", (int)strcspn(line, "\n"), line);
    snprintf(text, sizeof text, "FAILED %s, %s, %lld: %s | exit %d, '%s' |", p->c->name,
             kind->name, (long long)at, wrong, outcome->exit_code, last);
    append_callers(&o->places, s->record, text, sizeof text);
    for (char *c = text; *c != '\0'; c++)
        *c = *c == '\n' ? ' ' : *c;
    printf("%s\n", text);
    fflush(stdout);
}

/* Runs a case with one fault.  Returns false if the fault did not fire. */
static bool run_fault(const struct options *o, const struct prepared *p,
                      const struct fault_kind *kind, int64_t at, const struct slot *s,
                      struct counts *counts)
{
    struct outcome first, second;
    slot_reset(s, p->before);
    run_case(&o->places, s, p->c, kind, at, &first);
    if (s->record->n_loaded == 0) {
        fprintf(stderr, "sweep: %s does not work here\n", o->places.shim);
        exit(2);
    }
    bool fired = s->record->n_fired > 0;
    const char *wrong = judge(p, s, kind, &first);
    if (wrong == NULL && first.exit_code != 0 && !is_unchanged(p, s) && !is_complete(p, s)) {
        run_case(&o->places, s, p->c, NULL, 0, &second);
        wrong = judge_recovery(p, s, kind, &second);
    }

    counts->n_runs++;
    counts->n_fired += fired;
    counts->n_survived += fired && first.exit_code == 0;
    if (wrong != NULL) {
        counts->n_failed++;
        print_failure(o, p, kind, at, wrong, &first, s);
    }
    return fired;
}

/* -- one case and kind --------------------------------------------------------------------- */

static void work(const struct options *o, const struct prepared *p,
                 const struct fault_kind *kind, int64_t first, int64_t step, int number,
                 struct counts *counts)
{
    struct slot slot;
    slot_make(&o->places, number, &slot);
    for (int64_t at = first; at < counts->end; at += step)
        if (!run_fault(o, p, kind, at, &slot, counts) && at < counts->end)
            counts->end = at;
    fflush(stdout);
    _exit(0);
}

static void sweep_kind(const struct options *o, const struct prepared *p,
                       const struct fault_kind *kind, int64_t offset, struct counts *counts)
{
    pid_t workers[MAX_JOBS];
    int64_t stride = o->stride > p->c->every ? o->stride : p->c->every;
    counts->end = INT64_MAX;
    fflush(stdout);
    for (int i = 0; i < o->jobs; i++) {
        workers[i] = fork();
        if (workers[i] == 0)
            work(o, p, kind, 1 + offset % stride + i * stride, o->jobs * stride, i, counts);
    }
    for (int i = 0; i < o->jobs; i++) {
        int status;
        if (waitpid(workers[i], &status, 0) < 0 || status != 0) {
            fputs("sweep: a worker ended\n", stderr);
            exit(2);
        }
    }
}

static bool is_selected(const char *name, const char *const *names, int n)
{
    bool found = n == 0;
    for (int i = 0; i < n; i++)
        found = found || strcmp(name, names[i]) == 0;
    return found;
}

/* Sweeps one case and prints its row. */
static void sweep_case(const struct options *o, const struct fault_case *c,
                       struct counts *counts, struct counts *total)
{
    static struct prepared p;
    time_t start = time(NULL);
    prepare_case(&o->places, c, &p);
    int64_t before[3] = {total->n_fired, total->n_survived, total->n_failed};
    char row[256];
    int len = snprintf(row, sizeof row, "%-20s", c->name);
    for (int k = 0; k < n_fault_kinds; k++) {
        const struct fault_kind *kind = &fault_kinds[k];
        if (!is_selected(kind->name, o->kinds, o->n_kinds))
            continue;
        memset(counts, 0, sizeof *counts);
        if (o->at > 0) {
            struct slot slot;
            slot_make(&o->places, 0, &slot);
            run_fault(o, &p, kind, o->at, &slot, counts);
        } else {
            sweep_kind(o, &p, kind, (int64_t)(c - fault_cases + k), counts);
        }
        total->n_runs += counts->n_runs;
        total->n_fired += counts->n_fired;
        total->n_survived += counts->n_survived;
        total->n_failed += counts->n_failed;
        len +=
            snprintf(row + len, sizeof row - (size_t)len, " %6lld", (long long)counts->n_fired);
    }
    printf("%s | %7lld %7lld %7lld %6ld s\n", row, (long long)(total->n_fired - before[0]),
           (long long)(total->n_survived - before[1]), (long long)(total->n_failed - before[2]),
           (long)(time(NULL) - start));
    fflush(stdout);
}

/* -- main ---------------------------------------------------------------------------------- */

static void parse(int argc, char **argv, struct options *o)
{
    static const struct option known[] = {
        {"weft", required_argument, NULL, 'w'},
        {"shim", required_argument, NULL, 's'},
        {"examples", required_argument, NULL, 'e'},
        {"case", required_argument, NULL, 'c'},
        {"kind", required_argument, NULL, 'k'},
        {"quick", no_argument, NULL, 'q'},
        {"stride", required_argument, NULL, 'n'},
        {"jobs", required_argument, NULL, 'j'},
        {"at", required_argument, NULL, 'a'},
        {"keep", no_argument, NULL, 'K'},
        {"limit", required_argument, NULL, 'l'},
        {"preload", required_argument, NULL, 'p'},
        {0},
    };
    struct places *p = &o->places;
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (c) {
        case 'w':
            snprintf(p->weft, sizeof p->weft, "%s", optarg);
            break;
        case 's':
            snprintf(p->shim, sizeof p->shim, "%s", optarg);
            break;
        case 'e':
            snprintf(p->examples, sizeof p->examples, "%s", optarg);
            break;
        case 'c':
            o->cases[o->n_cases++ % MAX_NAMES] = optarg;
            break;
        case 'k':
            o->kinds[o->n_kinds++ % MAX_NAMES] = optarg;
            break;
        case 'q':
            o->quick = true;
            break;
        case 'K':
            o->keep = true;
            break;
        case 'n':
            o->stride = atoi(optarg);
            break;
        case 'j':
            o->jobs = atoi(optarg);
            break;
        case 'a':
            o->at = atoll(optarg);
            break;
        case 'l':
            p->limit_s = atoi(optarg);
            break;
        default:
            exit(2);
        }
    }
    if (p->weft[0] == '\0' || p->shim[0] == '\0' || o->stride < 1 || o->jobs < 1 ||
        o->jobs > MAX_JOBS) {
        fputs("usage: sweep --weft PROGRAM --shim LIBRARY [--examples DIR] [--case NAME] "
              "[--kind NAME] [--quick] [--stride N] [--jobs N] [--at N] [--limit SECONDS]\n",
              stderr);
        exit(2);
    }
}

/* Makes a path absolute: commands run in other directories. */
static void make_absolute(char *path)
{
    char full[PATH_MAX];
    if (path[0] == '\0')
        return;
    if (realpath(path, full) == NULL || strlen(full) >= TREE_PATH_BYTES) {
        perror(path);
        exit(2);
    }
    strcpy(path, full);
}

/* Memory is the fastest disk: a sweep writes and syncs many small files. */
static void make_base(struct places *p)
{
    const char *dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    tree_join(p->base, dir, "weft-faults-XXXXXX");
    if (mkdtemp(p->base) == NULL) {
        perror(p->base);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    static struct options o = {.stride = 1, .jobs = 2, .places.limit_s = 120};
    struct counts *counts = mmap(NULL, 2 * sizeof *counts, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED)
        return 2;
    parse(argc, argv, &o);
    make_absolute(o.places.weft);
    make_absolute(o.places.shim);
    make_absolute(o.places.examples);
    setenv("LC_ALL", "C", 1);
    make_base(&o.places);
    fixture_make(&o.places);

    int n_cases = 0;
    for (int i = 0; i < n_fault_cases; i++) {
        const struct fault_case *c = &fault_cases[i];
        if (!is_selected(c->name, o.cases, o.n_cases) || (o.quick && c->deep))
            continue;
        sweep_case(&o, c, counts, counts + 1);
        n_cases++;
    }

    if (o.keep || o.at > 0)
        printf("kept %s\n", o.places.base);
    else
        tree_remove(o.places.base);
    printf("%lld faults in %d commands: %lld survived, %lld refused, %lld failures\n",
           (long long)counts[1].n_fired, n_cases, (long long)counts[1].n_survived,
           (long long)(counts[1].n_fired - counts[1].n_survived),
           (long long)counts[1].n_failed);
    return counts[1].n_failed > 0 || counts[1].n_fired == 0;
}
