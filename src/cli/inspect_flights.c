/* The records of a run's ranks, and which of them was lost. */
#define _DEFAULT_SOURCE /* gethostname */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/printable.h"
#include "cli/inspect.h"
#include "training/ckpt/file.h"

enum { MOST_RANKS = 1 << 20 };

/* -- reading -------------------------------------------------------------------------------- */

/* A pipe of that name would hold us. */
static enum weft_status read_record(const char *path, struct weft_flight *out,
                                    struct weft_error *err)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return WEFT_FAIL(err, WEFT_DATA, "%.200s is not a rank's record", path);
    return weft_flight_read(path, out, err);
}

/* A rank's number as weft writes it: no sign, no leading zero. */
static bool parse_rank(const char *name, uint32_t *rank)
{
    size_t n = strlen(name);
    if (n == 0 || n > 7 || strspn(name, "0123456789") != n || (name[0] == '0' && n > 1))
        return false;
    *rank = (uint32_t)strtoul(name, NULL, 10);
    return *rank < MOST_RANKS;
}

static enum weft_status add_record(struct wf_flights *f, const char *dir, const char *name,
                                   struct weft_error *err)
{
    uint32_t rank;
    if (!parse_rank(name, &rank))
        return WEFT_FAIL(err, WEFT_DATA, "%.200s/%s is not a rank's record", dir,
                         wf_printable(name).at);
    struct weft_flight *more = realloc(f->at, (f->n + 1) * sizeof *more);
    if (more == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu ranks", f->n + 1);
    f->at = more;
    char *path = wf_path_join(dir, name);
    if (path == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path");
    struct weft_flight *r = &f->at[f->n];
    enum weft_status st = read_record(path, r, err);
    if (st == WEFT_OK && (r->rank != rank || r->n_ranks <= rank || r->n_ranks > MOST_RANKS))
        st = WEFT_FAIL(err, WEFT_DATA, "%.200s is the record of rank %u of %u", path, r->rank,
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
        return WEFT_FAIL(err, WEFT_DATA, "%.200s: %s", path, strerror(errno));
    enum weft_status st = WEFT_OK;
    for (const struct dirent *e = readdir(dir); e != NULL && st == WEFT_OK; e = readdir(dir))
        if (e->d_name[0] != '.')
            st = add_record(f, path, e->d_name, err);
    closedir(dir);
    return st;
}

static int by_rank(const void *a, const void *b)
{
    const struct weft_flight *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* A run that was started anew with fewer ranks leaves the records of the others: those that speak
 * of another number of ranks than the newest one does. */
static void leave_out_old(struct wf_flights *f)
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

/* -- what has become of them ---------------------------------------------------------------- */

/* A process that has ended and that nobody has asked about yet: "4711 (weft) Z ...".  Only Linux
 * says so; elsewhere it counts as there. */
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

/* The last sign of a rank: of its process, or, where that is there or has told its end, of its
 * work. */
static int64_t sign_ns(const struct wf_flights *f, size_t i)
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

/* The one with the oldest sign of those that said nothing of their end.  A process that is gone is
 * sure; where none is, one that hangs or cannot be looked for counts once the others gave up or it
 * has been silent for the timeout. */
static size_t find_lost(const struct wf_flights *f, double timeout)
{
    bool gone = has_fate(f, WF_FATE_GONE), failed = has_fate(f, WF_FATE_FAILED);
    int64_t silent_s = (int64_t)time(NULL) - (int64_t)(timeout < 1e9 ? timeout : 1e9);
    size_t lost = SIZE_MAX;
    for (size_t i = 0; i < f->n; i++) {
        bool open = f->fates[i] == WF_FATE_RUNNING || f->fates[i] == WF_FATE_AWAY;
        bool silent = failed || sign_ns(f, i) / 1000000000 < silent_s;
        if ((gone ? f->fates[i] == WF_FATE_GONE : open && silent) &&
            (lost == SIZE_MAX || sign_ns(f, i) < sign_ns(f, lost)))
            lost = i;
    }
    return lost;
}

enum weft_status wf_flights_init(struct wf_flights *f, const char *dir, double timeout,
                                 struct weft_error *err)
{
    char host[sizeof f->at->host] = "";
    *f = (struct wf_flights){.lost = SIZE_MAX};
    enum weft_status st = read_records(f, dir, err);
    if (st == WEFT_OK) {
        leave_out_old(f);
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
    for (size_t i = 0; i < f->n; i++)
        f->fates[i] = fate_of(&f->at[i], host);
    f->lost = find_lost(f, timeout);
    return WEFT_OK;
}

void wf_flights_release(struct wf_flights *f)
{
    free(f->at);
    free(f->fates);
    *f = (struct wf_flights){.lost = SIZE_MAX};
}

/* -- printing ------------------------------------------------------------------------------- */

enum { CLOCK_TEXT = 40 };

/* "14:03:11", with the day before it when that is not today. */
static const char *clock_text(char out[CLOCK_TEXT], int64_t time_ns)
{
    time_t at = (time_t)(time_ns / 1000000000), now = time(NULL);
    struct tm t, today;
    if (localtime_r(&at, &t) == NULL || localtime_r(&now, &today) == NULL)
        return "at an unknown time";
    bool same_day = t.tm_year == today.tm_year && t.tm_yday == today.tm_yday;
    strftime(out, CLOCK_TEXT, same_day ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &t);
    return out;
}

static void print_place(const struct weft_flight *r, int64_t sign, FILE *out)
{
    char clock[CLOCK_TEXT];
    fprintf(out, "last sign %s", clock_text(clock, sign));
    if (r->state == WEFT_FLIGHT_DONE)
        fputc('\n', out);
    else
        fprintf(out, ", step %llu, %s\n", (unsigned long long)r->step,
                r->doing[0] != '\0' ? r->doing : "starting");
}

static bool is_same_process(const struct weft_flight *a, const struct weft_flight *b)
{
    return a->pid == b->pid && strcmp(a->host, b->host) == 0;
}

/* How a rank ended that did not say it: with the process that it shared with the lost one, or by
 * the launcher, which ends all when it misses one. */
static const char *ending_of_gone(const struct wf_flights *f, const struct weft_flight *r)
{
    if (f->lost == SIZE_MAX)
        return "gone";
    return is_same_process(r, &f->at[f->lost]) ? "ended with its process"
                                               : "ended by the launcher";
}

static const char *ending(const struct wf_flights *f, size_t i)
{
    switch (f->fates[i]) {
    case WF_FATE_DONE:
        return "done";
    case WF_FATE_FAILED:
        return "failed";
    case WF_FATE_RUNNING:
        return "running";
    case WF_FATE_GONE:
        return ending_of_gone(f, &f->at[i]);
    case WF_FATE_AWAY:
        return "on another host";
    }
    return "";
}

static void print_rank(const struct wf_flights *f, size_t i, FILE *out)
{
    const struct weft_flight *r = &f->at[i];
    if (i == f->lost) {
        fprintf(out, "lost     rank %u (host %s, pid %lld): ", r->rank, r->host,
                (long long)r->pid);
        print_place(r, sign_ns(f, i), out);
        return;
    }
    fprintf(out, "rank %-3u %s", r->rank, ending(f, i));
    if (f->fates[i] == WF_FATE_FAILED && r->error[0] != '\0')
        fprintf(out, ": %s;", r->error);
    else if (r->waits_for != UINT32_MAX && f->fates[i] != WF_FATE_DONE)
        fprintf(out, ", waiting for rank %u:", r->waits_for);
    else
        fputc(':', out);
    fputc(' ', out);
    print_place(r, sign_ns(f, i), out);
}

/* A process gives a sign every 2 ms, when it gets a core: who went first is not to be told from signs
 * that lie closer than this, unless the others wait for one. */
#define UNSURE_NS INT64_C(4000000)

/* The record of a rank; NULL when there is none. */
static const struct weft_flight *record_of(const struct wf_flights *f, uint32_t rank)
{
    const struct weft_flight key = {.rank = rank};
    return bsearch(&key, f->at, f->n, sizeof key, by_rank);
}

/* Does a rank wait for the lost one, itself or through others? */
static bool waits_for_lost(const struct wf_flights *f, size_t i)
{
    const struct weft_flight *r = &f->at[i];
    for (size_t k = 0; k < f->n && r != NULL; k++) {
        if (r == &f->at[f->lost])
            return true;
        r = record_of(f, r->waits_for);
    }
    return false;
}

static bool is_unsure(const struct wf_flights *f, size_t i)
{
    if (f->lost == SIZE_MAX || i == f->lost || f->fates[i] != WF_FATE_GONE ||
        f->fates[f->lost] != WF_FATE_GONE || is_same_process(&f->at[i], &f->at[f->lost]) ||
        waits_for_lost(f, i))
        return false;
    return sign_ns(f, i) / 2 - sign_ns(f, f->lost) / 2 < UNSURE_NS / 2;
}

static void print_unsure(const struct wf_flights *f, FILE *out)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        if (is_unsure(f, i))
            fprintf(out, "%s %u", n++ == 0 ? "note     it may have been rank" : ",",
                    f->at[i].rank);
    if (n > 0)
        fprintf(out, " as well: the last signs lie less than 4 ms apart\n");
}

void wf_flights_print(const struct wf_flights *f, bool finished, FILE *out)
{
    static const char *const fates[] = {"done", "failed", "running", "gone", "on another host"};
    fprintf(out, "ranks    %u", f->n_ranks);
    for (size_t k = 0; k < WEFT_LEN(fates); k++) {
        size_t n = 0;
        for (size_t i = 0; i < f->n; i++)
            n += f->fates[i] == (enum wf_fate)k;
        if (n > 0)
            fprintf(out, ", %zu %s", n, fates[k]);
    }
    if (f->n < f->n_ranks)
        fprintf(out, ", %zu without a record", f->n_ranks - f->n);
    if (f->n_old > 0)
        fprintf(out, "; %zu records of an earlier run", f->n_old);
    fputc('\n', out);
    if (finished)
        return;
    if (f->lost != SIZE_MAX) {
        print_rank(f, f->lost, out);
        print_unsure(f, out);
    }
    for (size_t i = 0; i < f->n; i++)
        if (i != f->lost)
            print_rank(f, i, out);
}

static void put_record(struct wf_json *j, const struct weft_flight *r, const char *state)
{
    wf_json_uint(j, "rank", r->rank);
    wf_json_string(j, "state", state);
    wf_json_string(j, "host", r->host);
    wf_json_number(j, "pid", (double)r->pid);
    wf_json_number(j, "last_sign", (double)r->alive_ns * 1e-9);
    wf_json_uint(j, "step", r->step);
    wf_json_string(j, "doing", r->doing);
    if (r->waits_for != UINT32_MAX)
        wf_json_uint(j, "waits_for", r->waits_for);
    if (r->error[0] != '\0')
        wf_json_string(j, "error", r->error);
}

void wf_flights_json(const struct wf_flights *f, bool finished, struct wf_json *j)
{
    static const char *const states[] = {"done", "failed", "running", "gone", "away"};
    wf_json_uint(j, "n_ranks", f->n_ranks);
    wf_json_begin(j, "ranks", '[');
    for (size_t i = 0; i < f->n; i++) {
        wf_json_begin(j, NULL, '{');
        put_record(j, &f->at[i], states[f->fates[i]]);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
    if (finished || f->lost == SIZE_MAX)
        return;
    wf_json_uint(j, "lost", f->at[f->lost].rank);
    wf_json_begin(j, "lost_or", '[');
    for (size_t i = 0; i < f->n; i++)
        if (is_unsure(f, i))
            wf_json_uint(j, NULL, f->at[i].rank);
    wf_json_end(j, ']');
}

/* -- one record ----------------------------------------------------------------------------- */

enum weft_status wf_inspect_flight(const char *path, const struct wf_inspect *how,
                                   struct weft_error *err)
{
    static const char *const states[] = {"not ended by itself", "done", "failed"};
    struct weft_flight r;
    WEFT_TRY(read_record(path, &r, err));
    if (how->json) {
        struct wf_json j;
        wf_inspect_begin(&j, how->out, path, "rank");
        wf_json_uint(&j, "n_ranks", r.n_ranks);
        put_record(&j, &r, states[r.state]);
        wf_inspect_end(&j);
        return WEFT_OK;
    }
    fprintf(how->out,
            "%s: the record of a rank\nrank %-3u of %u (host %s, pid %lld), %s%s%s: ", path,
            r.rank, r.n_ranks, r.host, (long long)r.pid, states[r.state],
            r.error[0] != '\0' ? ", " : "", r.error);
    print_place(&r, r.time_ns, how->out);
    return WEFT_OK;
}
