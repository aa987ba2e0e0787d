/* Reads the flight records of a run's ranks and finds the rank that was lost. */
#define _DEFAULT_SOURCE /* gethostname */
#include "training/inspect/flights.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"

enum { MAX_RANKS = 1 << 20 };

/* -- reading ------------------------------------------------------------------------------- */

enum weft_status wf_flights_read_one(const char *path, struct weft_flight *out,
                                     struct weft_error *err)
{
    struct stat info; /* the file type is checked first, because opening a pipe would block */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return WEFT_FAIL(err, WEFT_DATA, "%.200s is not a flight record", path);
    return weft_flight_read(path, out, err);
}

/* Parses a rank number as weft writes it: no sign, no leading zero. */
static bool parse_rank(const char *name, uint32_t *rank)
{
    size_t n = strlen(name);
    if (n == 0 || n > 7 || strspn(name, "0123456789") != n || (name[0] == '0' && n > 1))
        return false;
    *rank = (uint32_t)strtoul(name, NULL, 10);
    return *rank < MAX_RANKS;
}

static enum weft_status add_record(struct wf_flights *f, const char *dir, const char *name,
                                   struct weft_error *err)
{
    uint32_t rank;
    if (!parse_rank(name, &rank))
        return WEFT_FAIL(err, WEFT_DATA, "%.200s/%s is not a flight record", dir,
                         wf_printable(name).at);
    struct weft_flight *more = realloc(f->at, (f->n + 1) * sizeof *more);
    if (more == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu ranks", f->n + 1);
    f->at = more;
    char *path = wf_path_join(dir, name);
    if (path == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path");
    struct weft_flight *r = &f->at[f->n];
    enum weft_status st = wf_flights_read_one(path, r, err);
    if (st == WEFT_OK && (r->rank != rank || r->n_ranks <= rank || r->n_ranks > MAX_RANKS))
        st = WEFT_FAIL(err, WEFT_DATA, "%.200s: the record is of rank %u of %u", path, r->rank,
                       r->n_ranks);
    f->n += st == WEFT_OK;
    free(path);
    return st;
}

static enum weft_status read_records(struct wf_flights *f, const char *path,
                                     struct weft_error *err)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.200s: %s", path,
                         strerror(errno));
    enum weft_status st = WEFT_OK;
    const struct dirent *e;
    while (st == WEFT_OK && (errno = 0, e = readdir(dir)) != NULL)
        if (e->d_name[0] != '.')
            st = add_record(f, path, e->d_name, err);
    if (st == WEFT_OK && errno != 0)
        st = WEFT_FAIL(err, WEFT_IO, "%.200s: %s", path, strerror(errno));
    closedir(dir);
    return st;
}

static int by_rank(const void *a, const void *b)
{
    const struct weft_flight *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Removes records of an earlier run: those whose number of ranks differs from that of the
 * newest record. */
static void remove_old(struct wf_flights *f)
{
    size_t newest = 0, kept = 0;
    for (size_t i = 1; i < f->n; i++)
        if (f->at[i].time_ns > f->at[newest].time_ns)
            newest = i;
    f->n_ranks = f->n > 0 ? f->at[newest].n_ranks : 0;
    for (size_t i = 0; i < f->n; i++)
        if (f->at[i].n_ranks == f->n_ranks)
            f->at[kept++] = f->at[i];
    f->n_old = f->n - kept;
    f->n = kept;
}

/* -- the lost rank ------------------------------------------------------------------------- */

/* Returns true if the process has ended but its parent has not waited for it: /proc/PID/stat
 * then contains "4711 (weft) Z ...".  Without /proc, such a process counts as existing. */
static bool is_zombie(int64_t pid)
{
    char path[40], text[256] = "";
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    FILE *in = fopen(path, "r");
    if (in == NULL)
        return false;
    size_t n = fread(text, 1, sizeof text - 1, in);
    fclose(in);
    text[n] = '\0';
    const char *state = strrchr(text, ')');
    return state != NULL && (strncmp(state, ") Z", 3) == 0 || strncmp(state, ") X", 3) == 0);
}

static bool is_alive(int64_t pid)
{
    if (pid <= 0 || pid > INT_MAX)
        return false;
    return (kill((pid_t)pid, 0) == 0 || errno == EPERM) && !is_zombie(pid);
}

static enum wf_fate fate_of(const struct weft_flight *r, const char *this_host)
{
    if (r->state == WEFT_FLIGHT_DONE)
        return WF_FATE_DONE;
    if (r->state == WEFT_FLIGHT_FAILED)
        return WF_FATE_FAILED;
    if (strcmp(r->host, this_host) != 0)
        return WF_FATE_AWAY;
    return is_alive(r->pid) ? WF_FATE_RUNNING : WF_FATE_GONE;
}

int64_t wf_flights_last_ns(const struct wf_flights *f, size_t i)
{
    bool process = f->fates[i] == WF_FATE_GONE || f->fates[i] == WF_FATE_AWAY;
    return process ? f->at[i].alive_ns : f->at[i].time_ns;
}

static bool has_fate(const struct wf_flights *f, enum wf_fate fate)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->fates[i] == fate)
            return true;
    return false;
}

/* Returns the lost rank: the rank with the oldest heartbeat among the ranks that recorded no
 * end.  If the process of some rank is gone, only ranks whose process is gone are considered.
 * Otherwise a rank that hangs or cannot be checked is considered if another rank has failed or
 * if its last heartbeat is older than the timeout. */
static size_t find_lost(const struct wf_flights *f, int64_t now_s, double timeout)
{
    bool gone = has_fate(f, WF_FATE_GONE), failed = has_fate(f, WF_FATE_FAILED);
    int64_t silent_s = now_s - (int64_t)(timeout < 1e9 ? timeout : 1e9);
    size_t lost = SIZE_MAX;

    for (size_t i = 0; i < f->n; i++) {
        bool open = f->fates[i] == WF_FATE_RUNNING || f->fates[i] == WF_FATE_AWAY;
        bool silent = failed || wf_flights_last_ns(f, i) / 1000000000 < silent_s;
        if ((gone ? f->fates[i] == WF_FATE_GONE : open && silent) &&
            (lost == SIZE_MAX || wf_flights_last_ns(f, i) < wf_flights_last_ns(f, lost)))
            lost = i;
    }
    return lost;
}

void wf_flights_judge(struct wf_flights *f, const char *host, int64_t now_s, double timeout)
{
    for (size_t i = 0; i < f->n; i++)
        f->fates[i] = fate_of(&f->at[i], host);
    f->lost = find_lost(f, now_s, timeout);
}

enum weft_status wf_flights_init(struct wf_flights *f, const char *dir, double timeout,
                                 struct weft_error *err)
{
    char host[sizeof f->at->host] = "";
    *f = (struct wf_flights){.lost = SIZE_MAX};

    enum weft_status st = read_records(f, dir, err);
    if (st == WEFT_OK) {
        remove_old(f);
        f->fates = calloc(f->n + 1, sizeof *f->fates);
        if (f->fates == NULL)
            st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu ranks", f->n);
    }
    if (st != WEFT_OK) {
        wf_flights_release(f);
        return st;
    }

    if (f->n > 0)
        qsort(f->at, f->n, sizeof *f->at, by_rank);
    gethostname(host, sizeof host - 1);
    wf_flights_judge(f, host, (int64_t)time(NULL), timeout);
    return WEFT_OK;
}

void wf_flights_release(struct wf_flights *f)
{
    free(f->at);
    free(f->fates);
    *f = (struct wf_flights){.lost = SIZE_MAX};
}

static bool is_same_process(const struct weft_flight *a, const struct weft_flight *b)
{
    return a->pid == b->pid && strcmp(a->host, b->host) == 0;
}

const char *wf_fate_name(enum wf_fate fate)
{
    static const char *const names[WF_N_FATES] = {
        [WF_FATE_DONE] = "done",
        [WF_FATE_FAILED] = "failed",
        [WF_FATE_RUNNING] = "running",
        [WF_FATE_GONE] = "ended unexpectedly",
        [WF_FATE_AWAY] = "on another host",
    };
    return names[fate];
}

const char *wf_flight_state_name(enum weft_flight_state state)
{
    static const char *const names[] = {
        [WEFT_FLIGHT_RUNNING] = "not ended by itself",
        [WEFT_FLIGHT_DONE] = "done",
        [WEFT_FLIGHT_FAILED] = "failed",
    };
    return names[state];
}

const char *wf_flights_ending(const struct wf_flights *f, size_t i)
{
    if (f->fates[i] != WF_FATE_GONE || f->lost == SIZE_MAX)
        return wf_fate_name(f->fates[i]);
    return is_same_process(&f->at[i], &f->at[f->lost]) ? "ended with its process"
                                                       : "ended by the launcher";
}

/* A process that gets a core records a heartbeat every 2 ms.  If two last heartbeats differ by
 * less than UNSURE_NS, they do not show which process ended first. */
#define UNSURE_NS INT64_C(4000000)
#define MAX_UNSURE_NS INT64_C(1000000000)

/* Returns how long the rank may have been alive after its last heartbeat. */
static int64_t unsure_ns(const struct weft_flight *r)
{
    int64_t ns = r->interval_ns > UNSURE_NS / 2 ? r->interval_ns : UNSURE_NS / 2;
    return ns < MAX_UNSURE_NS ? 2 * ns : 2 * MAX_UNSURE_NS;
}

bool wf_flights_may_be_lost(const struct wf_flights *f, size_t i)
{
    if (f->lost == SIZE_MAX || i == f->lost || f->fates[i] != WF_FATE_GONE ||
        f->fates[f->lost] != WF_FATE_GONE || is_same_process(&f->at[i], &f->at[f->lost]))
        return false;
    return wf_flights_last_ns(f, i) / 2 - wf_flights_last_ns(f, f->lost) / 2 <
           unsure_ns(&f->at[f->lost]) / 2;
}
