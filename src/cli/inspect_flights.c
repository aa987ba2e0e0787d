/* Prints the flight records of a run's ranks. */
#include <time.h>

#include "base/printable.h"
#include "cli/inspect.h"

enum { CLOCK_TEXT = 40 };

/* Returns a time as "14:03:11", and with the date if it is not a time of today. */
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

static void print_place(const struct weft_flight *r, int64_t time_ns, FILE *out)
{
    char clock[CLOCK_TEXT];
    fprintf(out, "last heartbeat %s", clock_text(clock, time_ns));
    if (r->state == WEFT_FLIGHT_DONE)
        fputc('\n', out);
    else
        fprintf(out, ", step %llu, %s\n", (unsigned long long)r->step,
                r->doing[0] != '\0' ? wf_shown(r->doing).at : "starting");
}

static void print_rank(const struct wf_flights *f, size_t i, FILE *out)
{
    const struct weft_flight *r = &f->at[i];
    if (i == f->lost) {
        fprintf(out, "lost     rank %u (host %s, pid %lld): ", r->rank, wf_shown(r->host).at,
                (long long)r->pid);
        print_place(r, wf_flights_last_ns(f, i), out);
        return;
    }
    fprintf(out, "rank %-3u %s", r->rank, wf_flights_ending(f, i));
    if (f->fates[i] == WF_FATE_FAILED && r->error[0] != '\0')
        fprintf(out, ": %s;", wf_shown(r->error).at);
    else if (r->waits_for != UINT32_MAX && f->fates[i] != WF_FATE_DONE)
        fprintf(out, ", waiting for rank %u:", r->waits_for);
    else
        fputc(':', out);
    fputc(' ', out);
    print_place(r, wf_flights_last_ns(f, i), out);
}

/* Prints the other ranks that may be the lost rank: their last heartbeats are almost as old. */
static void print_unsure(const struct wf_flights *f, FILE *out)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        if (wf_flights_may_be_lost(f, i))
            fprintf(out, "%s %u", n++ == 0 ? "note     it may have been rank" : ",",
                    f->at[i].rank);
    if (n > 0)
        fprintf(out, " instead: the last heartbeats are less than 4 ms apart\n");
}

void wf_flights_print(const struct wf_flights *f, bool finished, FILE *out)
{
    fprintf(out, "ranks    %u", f->n_ranks);
    for (size_t k = 0; k < WF_N_FATES; k++) {
        size_t n = 0;
        for (size_t i = 0; i < f->n; i++)
            n += f->fates[i] == (enum wf_fate)k;
        if (n > 0)
            fprintf(out, ", %zu %s", n, wf_fate_name((enum wf_fate)k));
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

void wf_flight_print(const struct weft_flight *r, FILE *out)
{
    fprintf(out, "rank %-3u of %u (host %s, pid %lld), %s%s%s: ", r->rank, r->n_ranks,
            wf_shown(r->host).at, (long long)r->pid, wf_flight_state_name(r->state),
            r->error[0] != '\0' ? ", " : "", wf_shown(r->error).at);
    print_place(r, r->time_ns, out);
}
