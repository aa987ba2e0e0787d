/* Compares hashes of the program, the settings, the schedule and the data of all ranks on rank
 * 0, and names the first difference. */
#include "training/trainer/handshake.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "base/text.h"
#include "training/trainer/lines.h"
#include "training/trainer/messages.h"
#include "training/trainer/trainer_priv.h"
#include "weft/version.h"

enum subject { BUILD, SETTINGS, SCHEDULE, DATA, N_SUBJECTS };

static const char *const subjects[] = {
    [BUILD] = "program",
    [SETTINGS] = "settings",
    [SCHEDULE] = "schedule",
    [DATA] = "data",
};

struct fingerprint {
    uint64_t hash[N_SUBJECTS]; /* BUILD: the version */
    uint64_t build, program;   /* compiler and processor; the executable file */
    uint64_t settings_bytes;
};

/* -- hashes -------------------------------------------------------------------------------- */

/* Adds the bytes of a file to a hash.  A read error is an error of this rank and no difference
 * between ranks; ranks that all failed alike would even agree. */
static enum weft_status hash_file(const char *path, uint64_t *hash, struct weft_error *err)
{
    char buffer[1 << 14];
    uint64_t size, at = 0;
    int fd;
    if (access(path, R_OK) != 0 && (errno == ENOENT || errno == EACCES))
        return WEFT_OK; /* no /proc, or a program that may only be executed */
    WEFT_TRY(wf_file_open(path, &fd, &size, err));
    enum weft_status st = WEFT_OK;
    while (st == WEFT_OK && at < size) {
        size_t n = wf_size_min(sizeof buffer, size - at);
        st = wf_file_read_at(fd, path, at, buffer, n, err);
        if (st == WEFT_OK)
            *hash = wf_hash(*hash, buffer, n);
        at += n;
    }
    close(fd);
    return st;
}

static uint64_t hash_text(const char *text)
{
    return wf_hash(0, text, strlen(text));
}

/* Returns true if two ranks run the same program.  All compilers and instruction sets give the
 * same bits, so other builds of the same version count as the same program.  Two builds by one
 * compiler for one processor differ only if their sources differ. */
static bool is_same_program(const struct fingerprint *a, const struct fingerprint *b)
{
    return a->hash[BUILD] == b->hash[BUILD] &&
           (a->build != b->build || a->program == b->program);
}

static uint64_t hash_schedule(const struct wf_topology *l)
{
    uint64_t h = 0;
    for (unsigned i = 0; i < 2 && l->schedules[i] != NULL; i++)
        for (uint32_t r = 0; r < l->pp; r++) {
            struct weft_action_span row = weft_schedule_rank(l->schedules[i], r);
            h = wf_hash(h, &row.len, sizeof row.len);
            h = wf_hash(h, row.at, row.len * sizeof *row.at);
        }
    /* Hash each field separately, since the struct has padding. */
    for (uint32_t i = 0; i < l->n_stages; i++) {
        const struct weft_stage_range *r = &l->partition.at[i];
        const uint32_t fields[] = {r->first_layer, r->end_layer, r->embedding, r->head};
        h = wf_hash(h, fields, sizeof fields);
    }
    return h;
}

static enum weft_status hash_data(const struct wf_trainer *t, uint64_t *out,
                                  struct weft_error *err)
{
    uint64_t both[2] = {0};
    WEFT_TRY(wf_shards_fingerprint(t->data.shards, &both[0], err));
    if (t->data.val_shards != NULL)
        WEFT_TRY(wf_shards_fingerprint(t->data.val_shards, &both[1], err));
    *out = wf_hash(0, both, sizeof both);
    return WEFT_OK;
}

/* Returns true if the setting on this line may differ between ranks. */
static bool is_per_rank(const char *line)
{
    return strncmp(line, "  threads:", 10) == 0;
}

static enum weft_status settings_text(const struct wf_train_settings *s, struct wf_text *text,
                                      struct weft_error *err)
{
    wf_settings_print(wf_train_setting_list(), s, text);
    return text->failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the settings") : WEFT_OK;
}

static uint64_t hash_settings(const char *text)
{
    uint64_t h = 0;
    for (const char *at = text; *at != '\0'; at = wf_line_next(at))
        if (!is_per_rank(at))
            h = wf_hash(h, at, wf_line_length(at));
    return h;
}

/* -- the comparison ------------------------------------------------------------------------ */

/* A line without its indentation, for printing. */
struct line_view {
    int n;
    const char *at;
};

static struct line_view show_line(const char *at)
{
    enum { MAX_SHOWN = 100 };
    size_t indent = strncmp(at, "  ", 2) == 0 ? 2 : 0, n = wf_line_length(at) - indent;
    return (struct line_view){(int)(n < MAX_SHOWN ? n : MAX_SHOWN), at + indent};
}

/* Returns the name of the section that a line of the settings belongs to. */
static struct line_view section_of(const char *text, const char *line)
{
    struct line_view section = {0, ""};
    for (; text <= line && *text != '\0'; text = wf_line_next(text))
        if (text[0] != ' ' && text[0] != '#' && wf_line_length(text) > 1)
            section = (struct line_view){(int)wf_line_length(text) - 1, text};
    return section;
}

/* Names the first line in which the settings of rank 0 and of another rank differ. */
static void name_difference(const char *text, const char *other, uint32_t rank, char *out,
                            size_t size)
{
    const char *a = text, *b = other;
    while (wf_lines_find_difference(&a, &b) && is_per_rank(a)) {
        a = wf_line_next(a);
        b = wf_line_next(b);
    }
    if (*a == '\0' || *b == '\0')
        return;
    struct line_view section = section_of(text, a), x = show_line(a), y = show_line(b);
    snprintf(out, size, ": in %.*s rank 0 has '%.*s' and rank %u '%.*s'", section.n, section.at,
             x.n, x.at, rank, y.n, y.at);
}

struct difference {
    uint32_t subject; /* index of what differs; N_SUBJECTS: nothing differs */
    uint32_t rank;
    char what[400];
};

static void find_difference(const struct fingerprint *fingerprints, uint32_t n,
                            struct difference *d)
{
    d->subject = N_SUBJECTS;
    for (uint32_t i = 0; i < N_SUBJECTS && d->subject == N_SUBJECTS; i++)
        for (uint32_t r = 1; r < n; r++)
            if (i == BUILD ? !is_same_program(&fingerprints[0], &fingerprints[r])
                           : fingerprints[r].hash[i] != fingerprints[0].hash[i]) {
                d->subject = i;
                d->rank = r;
                break;
            }
}

/* Sends the settings of rank d->rank to rank 0, which finds the differing key. */
static enum weft_status exchange_settings(struct weft_comm *comm, const char *text,
                                          size_t other_bytes, struct difference *d,
                                          struct weft_error *err)
{
    uint32_t rank = weft_comm_rank(comm);
    if (rank == d->rank)
        return wf_comm_send_blocking(
            comm, wf_trainer_message(0, WF_MESSAGE_SETTINGS, 0, text, strlen(text) + 1), err);
    if (rank != 0)
        return WEFT_OK;

    char *other = malloc(other_bytes + 1);
    if (other == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the settings of rank %u", d->rank);
    enum weft_status st = wf_comm_receive_blocking(
        comm, wf_trainer_message(d->rank, WF_MESSAGE_SETTINGS, 0, other, other_bytes + 1), err);
    if (st == WEFT_OK)
        name_difference(text, other, d->rank, d->what, sizeof d->what);
    free(other);
    return st;
}

static enum weft_status compare(struct weft_comm *comm, const char *text,
                                const struct fingerprint *own, struct fingerprint *fingerprints,
                                struct weft_error *err)
{
    struct difference d = {.subject = N_SUBJECTS};
    WEFT_TRY(weft_comm_gather_equal(comm, own, sizeof *own, fingerprints, err));
    if (weft_comm_rank(comm) == 0)
        find_difference(fingerprints, weft_comm_size(comm), &d);
    WEFT_TRY(weft_comm_broadcast(comm, &d, sizeof d, err));
    if (d.subject == SETTINGS) {
        WEFT_TRY(exchange_settings(comm, text, (size_t)fingerprints[d.rank].settings_bytes, &d,
                                   err));
        WEFT_TRY(weft_comm_broadcast(comm, &d, sizeof d, err));
    }
    if (d.subject == N_SUBJECTS)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "rank %u does not have the %s of rank 0%s; give all ranks the same",
                     d.rank, subjects[d.subject], d.what);
}

/* Compares the settings and `own` on all ranks.  `own` contains the hashes of schedule and
 * data, or zeros if they are not compared. */
static enum weft_status handshake(struct weft_comm *comm, const struct wf_train_settings *s,
                                  struct fingerprint own, struct weft_error *err)
{
    struct wf_text text = {0};
    uint32_t n = weft_comm_size(comm);
    enum weft_status st = settings_text(s, &text, err);
    struct fingerprint *fingerprints = calloc(n, sizeof *fingerprints);
    if (st == WEFT_OK && fingerprints == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to compare %u ranks", n);
    if (st == WEFT_OK)
        st = hash_file("/proc/self/exe", &own.program, err);
    if (st == WEFT_OK) {
        own.settings_bytes = text.len;
        own.hash[BUILD] = hash_text(weft_version());
        own.build = hash_text(weft_build_info());
        own.hash[SETTINGS] = hash_settings(text.at);
        st = compare(comm, text.at, &own, fingerprints, err);
    }
    free(fingerprints);
    wf_text_release(&text);
    return st;
}

enum weft_status wf_handshake_settings(struct weft_comm *comm,
                                       const struct wf_train_settings *s,
                                       struct weft_error *err)
{
    return handshake(comm, s, (struct fingerprint){0}, err);
}

enum weft_status wf_trainer_handshake(const struct wf_trainer *t,
                                      const struct wf_train_settings *s, struct weft_error *err)
{
    struct fingerprint own = {0};
    if (t->comm == NULL)
        return WEFT_OK;
    own.hash[SCHEDULE] = hash_schedule(&t->topology);
    WEFT_TRY(hash_data(t, &own.hash[DATA], err));
    return handshake(t->comm, s, own, err);
}
