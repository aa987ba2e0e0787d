/* Writes event files for TensorBoard: protobuf fields in checksummed records. */
#include "training/run/tensorboard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

/* -- records ------------------------------------------------------------------------------- */

/* Returns the masked checksum, as the format requires: rotated and shifted, because checksums
 * of data that contains checksums are weak. */
static uint32_t masked(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void put_little(FILE *out, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        fputc((int)(value >> 8 * i & 0xff), out);
}

void wf_tensorboard_record(FILE *out, const unsigned char *bytes, size_t n)
{
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)n >> 8 * i);
    fwrite(length, 1, sizeof length, out);
    put_little(out, masked(wf_crc32c(length, sizeof length)), 4);
    fwrite(bytes, 1, n, out);
    put_little(out, masked(wf_crc32c(bytes, n)), 4);
}

/* -- protobuf ------------------------------------------------------------------------------ */

/* Wire types.  The key of a field consists of its number and its wire type. */
enum { VARINT = 0, EIGHT_BYTES = 1, BYTES = 2, FOUR_BYTES = 5 };

enum { MAX_TAG = 200 };

struct message {
    unsigned char at[MAX_TAG + 64];
    size_t n;
};

static void add_varint(struct message *m, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        m->at[m->n++] = (unsigned char)(value | 0x80);
    m->at[m->n++] = (unsigned char)value;
}

static void add_key(struct message *m, unsigned number, unsigned wire_type)
{
    add_varint(m, number << 3 | wire_type);
}

static void add_bytes(struct message *m, unsigned number, const void *bytes, size_t n)
{
    add_key(m, number, BYTES);
    add_varint(m, n);
    memcpy(m->at + m->n, bytes, n);
    m->n += n;
}

static void add_double(struct message *m, unsigned number, double value)
{
    uint64_t bits;
    if (value == 0)
        return;
    memcpy(&bits, &value, sizeof bits);
    add_key(m, number, EIGHT_BYTES);
    for (int i = 0; i < 8; i++)
        m->at[m->n++] = (unsigned char)(bits >> 8 * i);
}

static void add_float(struct message *m, unsigned number, double value)
{
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    add_key(m, number, FOUR_BYTES);
    for (int i = 0; i < 4; i++)
        m->at[m->n++] = (unsigned char)(bits >> 8 * i);
}

/* Field numbers in the messages.  Event: 1 wall time, 2 step, 3 version, 5 summary, 7 session log.
 * Summary: 1 value.  Value: 1 tag, 2 number.  SessionLog: 1 status. */

static void add_step(struct message *m, uint64_t step)
{
    if (step == 0)
        return;
    add_key(m, 2, VARINT);
    add_varint(m, step);
}

void wf_tensorboard_put_version(FILE *out, double wall_seconds)
{
    static const char version[] = "brain.Event:2";
    struct message event = {.n = 0};
    add_double(&event, 1, wall_seconds);
    add_bytes(&event, 3, version, sizeof version - 1);
    wf_tensorboard_record(out, event.at, event.n);
}

void wf_tensorboard_put_start(FILE *out, uint64_t step, double wall_seconds)
{
    enum { START = 1 };
    struct message session = {.n = 0}, event = {.n = 0};
    add_key(&session, 1, VARINT);
    add_varint(&session, START);
    add_double(&event, 1, wall_seconds);
    add_step(&event, step);
    add_bytes(&event, 7, session.at, session.n);
    wf_tensorboard_record(out, event.at, event.n);
}

void wf_tensorboard_put_scalar(FILE *out, uint64_t step, const char *tag, double value,
                               double wall_seconds)
{
    struct message point = {.n = 0}, summary = {.n = 0}, event = {.n = 0};
    add_bytes(&point, 1, tag, strnlen(tag, MAX_TAG));
    add_float(&point, 2, value);
    add_bytes(&summary, 1, point.at, point.n);
    add_double(&event, 1, wall_seconds);
    add_step(&event, step);
    add_bytes(&event, 5, summary.at, summary.n);
    wf_tensorboard_record(out, event.at, event.n);
}

/* -- the file ------------------------------------------------------------------------------ */

struct wf_tensorboard {
    FILE *out;  /* owned */
    char *path; /* owned: for messages */
};

/* Stores the host name, with characters replaced that do not belong in a file name. */
static void host_name(char *out, size_t size)
{
    if (gethostname(out, size) != 0)
        snprintf(out, size, "host");
    out[size - 1] = '\0';
    for (char *at = out; *at != '\0'; at++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-", *at) ==
            NULL)
            *at = '_';
}

static struct timespec wall_clock(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_REALTIME, &t);
    return t;
}

double wf_tensorboard_now(void)
{
    struct timespec t = wall_clock();
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static enum weft_status open_file(struct wf_tensorboard *tb, const char *dir,
                                  struct weft_error *err)
{
    char host[65], name[160];
    struct timespec t = wall_clock();
    host_name(host, sizeof host);
    for (int i = 0; i < 1000 && tb->out == NULL; i++) {
        /* TensorBoard reads the files in the order of their names, so the names need a time
         * that differs between two starts in the same second. */
        snprintf(name, sizeof name, "events.out.tfevents.%lld.%09ld.%s.%ld.%d",
                 (long long)t.tv_sec, t.tv_nsec, host, (long)getpid(), i);
        free(tb->path);
        tb->path = wf_path_join(dir, name);
        if (tb->path == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path");
        tb->out = fopen(tb->path, "wbx");
        if (tb->out == NULL && errno != EEXIST)
            break;
    }
    if (tb->out == NULL)
        return WEFT_FAIL(err, WEFT_IO, "cannot open %.300s: %s", tb->path, strerror(errno));
    return WEFT_OK;
}

enum weft_status wf_tensorboard_new(const char *dir, uint64_t first_step,
                                    struct wf_tensorboard **out, struct weft_error *err)
{
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return WEFT_FAIL(err, WEFT_IO, "cannot make directory %.300s: %s", dir,
                         strerror(errno));
    struct wf_tensorboard *tb = calloc(1, sizeof *tb);
    if (tb == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for an event file");
    enum weft_status st = open_file(tb, dir, err);
    if (st == WEFT_OK) {
        wf_tensorboard_put_version(tb->out, wf_tensorboard_now());
        wf_tensorboard_put_start(tb->out, first_step, wf_tensorboard_now());
        st = wf_tensorboard_flush(tb, err);
    }
    if (st != WEFT_OK) {
        wf_tensorboard_free(tb);
        return st;
    }
    *out = tb;
    return WEFT_OK;
}

void wf_tensorboard_scalar(struct wf_tensorboard *tb, uint64_t step, const char *tag,
                           double value, double wall_seconds)
{
    wf_tensorboard_put_scalar(tb->out, step, tag, value, wall_seconds);
}

void wf_tensorboard_step(struct wf_tensorboard *tb, const struct wf_metrics_record *r,
                         double wall_seconds)
{
    wf_tensorboard_scalar(tb, r->step, "loss", r->loss, wall_seconds);
    wf_tensorboard_scalar(tb, r->step, "grad_norm", r->grad_norm, wall_seconds);
    wf_tensorboard_scalar(tb, r->step, "lr", r->lr, wall_seconds);
    wf_tensorboard_scalar(tb, r->step, "tok_s", r->tok_s, wall_seconds);
    wf_tensorboard_scalar(tb, r->step, "mfu", r->mfu, wall_seconds);
    wf_tensorboard_scalar(tb, r->step, "bubble", r->bubble, wall_seconds);
}

enum weft_status wf_tensorboard_flush(struct wf_tensorboard *tb, struct weft_error *err)
{
    if (fflush(tb->out) != 0 || ferror(tb->out))
        return WEFT_FAIL(err, WEFT_IO, "cannot write %.300s: %s", tb->path, strerror(errno));
    return WEFT_OK;
}

void wf_tensorboard_free(struct wf_tensorboard *tb)
{
    if (tb == NULL)
        return;
    if (tb->out != NULL)
        fclose(tb->out);
    free(tb->path);
    free(tb);
}
