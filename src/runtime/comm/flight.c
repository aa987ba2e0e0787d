/* Flight records: the current action of a rank in a memory-mapped file.  The record
 * is written with plain stores and remains valid if the process is killed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/printable.h"
#include "runtime/comm/comm_priv.h"

static const char magic[8] = "weftrank";

struct image {
    char magic[8];
    struct weft_flight flight;
};

enum { HEARTBEAT_NS = 2000000 };

/* Records of weft 0.1 end before interval_ns. */
enum { OLD_SIZE = offsetof(struct image, flight.interval_ns) };

struct wf_flight_file {
    struct image *at; /* mapped into memory */
    pthread_t thread;
    bool heartbeats;
    atomic_bool stop;
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *run_heartbeat(void *arg)
{
    struct wf_flight_file *f = arg;
    struct weft_flight *flight = &f->at->flight;
    const struct timespec nap = {0, HEARTBEAT_NS};
    int64_t last = now_ns(), interval = HEARTBEAT_NS;

    while (!atomic_load(&f->stop)) {
        int64_t now = now_ns();
        interval -= interval / 64; /* halves in 44 heartbeats */
        if (now - last > interval)
            interval = now - last;
        last = now;
        __atomic_store_n(&flight->interval_ns, interval, __ATOMIC_RELAXED);
        __atomic_store_n(&flight->alive_ns, now, __ATOMIC_RELAXED);
        nanosleep(&nap, NULL);
    }
    return NULL;
}

/* Runs the heartbeat thread.  The thread blocks all signals, so that the program's own threads
 * handle them. */
static void start_heartbeat(struct wf_flight_file *f)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    f->heartbeats = pthread_create(&f->thread, NULL, run_heartbeat, f) ==
                    0; /* without the heartbeat thread, times are less precise */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

enum weft_status wf_flight_open(const char *path, uint32_t rank, uint32_t n_ranks,
                                bool heartbeats, struct wf_flight_file **out,
                                struct weft_error *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    /* Allocate the blocks now: on a full disk, a store to a hole in the file would be fatal. */
    int why = fd < 0 ? errno : posix_fallocate(fd, 0, sizeof(struct image));
    if (why != 0) {
        enum weft_status st =
            WEFT_FAIL(err, WEFT_IO, "cannot write %.200s: %s", path, strerror(why));
        if (fd >= 0)
            close(fd);
        return st;
    }

    struct wf_flight_file *f = calloc(1, sizeof *f);
    void *at = mmap(NULL, sizeof(struct image), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (f == NULL || at == MAP_FAILED) {
        if (at != MAP_FAILED)
            munmap(at, sizeof(struct image));
        free(f);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the flight record of rank %u", rank);
    }

    f->at = at;
    f->at->flight = (struct weft_flight){.rank = rank,
                                         .n_ranks = n_ranks,
                                         .waits_for = WEFT_NO_PEER,
                                         .time_ns = now_ns(),
                                         .alive_ns = now_ns(),
                                         .pid = getpid()};
    gethostname(f->at->flight.host, sizeof f->at->flight.host - 1);
    memcpy(f->at->magic, magic, sizeof magic);

    if (heartbeats)
        start_heartbeat(f);
    *out = f;
    return WEFT_OK;
}

void wf_flight_update(struct wf_flight_file *f, const struct weft_activity *activity,
                      const char *doing)
{
    struct weft_flight *flight = &f->at->flight;
    flight->step = activity->step;
    flight->waits_for = activity->waits_for;
    flight->time_ns = now_ns();
    if (!f->heartbeats)
        flight->alive_ns = flight->time_ns;
    if (doing != NULL)
        snprintf(flight->doing, sizeof flight->doing, "%s", doing);
}

void wf_flight_finish(struct wf_flight_file *f, const struct weft_error *err)
{
    struct weft_flight *flight = &f->at->flight;
    flight->time_ns = now_ns();
    if (err != NULL)
        snprintf(flight->error, sizeof flight->error, "%.255s", err->msg);
    flight->state = err != NULL ? WEFT_FLIGHT_FAILED : WEFT_FLIGHT_DONE;
}

void wf_flight_close(struct wf_flight_file *f)
{
    if (f == NULL)
        return;
    atomic_store(&f->stop, true);
    if (f->heartbeats)
        pthread_join(f->thread, NULL);
    munmap(f->at, sizeof *f->at);
    free(f);
}

/* -- reading ------------------------------------------------------------------------------- */

static void clean(char *text, size_t room)
{
    text[room - 1] = '\0';
    for (char *c = text; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

enum weft_status weft_flight_read(const char *path, struct weft_flight *out,
                                  struct weft_error *err)
{
    struct image image = {0};
    FILE *in = fopen(path, "rb");
    if (in == NULL)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.200s: %s", path,
                         strerror(errno));
    size_t n = fread(&image, 1, sizeof image, in);
    int why = ferror(in) ? errno : 0;
    fclose(in);
    if (why != 0)
        return WEFT_FAIL(err, wf_errno_status(why, WEFT_DATA), "%.200s: %s", path,
                         strerror(why));
    if (n < OLD_SIZE || memcmp(image.magic, magic, sizeof magic) != 0 ||
        image.flight.state > WEFT_FLIGHT_FAILED)
        return WEFT_FAIL(err, WEFT_DATA, "%.200s is not a flight record", path);
    *out = image.flight;
    clean(out->host, sizeof out->host);
    clean(out->doing, sizeof out->doing);
    clean(out->error, sizeof out->error);
    return WEFT_OK;
}
