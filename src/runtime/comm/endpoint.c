/* Opens and closes endpoints over the table of a transport, and runs the program of a rank on
 * an endpoint. */
#include "weft/transport.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "runtime/comm/comm_priv.h"

#define DEFAULT_TIMEOUT_NS INT64_C(60000000000)

/* -- the table ----------------------------------------------------------------------------- */

enum weft_status wf_comm_check_abi(const struct weft_transport_abi *abi, const char *name,
                                   struct weft_error *err)
{
    static const struct weft_transport_abi own = WEFT_TRANSPORT_ABI;
    if (abi->version == own.version && abi->table_bytes == own.table_bytes &&
        abi->message_bytes == own.message_bytes && abi->error_bytes == own.error_bytes)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "transport %.40s: compiled with version %u of weft/transport.h (table %u, "
                     "message %u, error %u bytes); this library has version %u (table %u, "
                     "message %u, error %u bytes); compile the transport with the headers of "
                     "this library",
                     name, abi->version, abi->table_bytes, abi->message_bytes, abi->error_bytes,
                     own.version, own.table_bytes, own.message_bytes, own.error_bytes);
}

/* Returns the name of the first function that is missing, or NULL. */
static const char *find_missing(const struct weft_transport *t)
{
    const struct {
        const char *name;
        bool given;
    } rows[] = {
        {"send", t->send != NULL},       {"post", t->post != NULL},
        {"test", t->test != NULL},       {"release", t->release != NULL},
        {"rest", t->rest != NULL},       {"publish", t->publish != NULL},
        {"inspect", t->inspect != NULL}, {"abort", t->abort != NULL},
        {"aborted", t->aborted != NULL}, {"close", t->close != NULL},
    };
    for (size_t i = 0; i < WEFT_LEN(rows); i++)
        if (!rows[i].given)
            return rows[i].name;
    return NULL;
}

static enum weft_status check_arguments(const struct weft_transport *t, uint32_t rank,
                                        uint32_t n_ranks, struct weft_error *err)
{
    if (t == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "weft_comm_open: the transport is NULL");
    const char *name = t->name != NULL ? t->name : "without a name";
    WEFT_TRY(wf_comm_check_abi(&t->abi, name, err));
    if (t->name == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "weft_comm_open: the transport has no name");
    const char *missing = find_missing(t);
    if (missing != NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "transport %.40s: the function %s is NULL; only set_timeout, on_hang "
                         "and plain_round may be NULL",
                         name, missing);
    if (rank >= n_ranks)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "transport %.40s: rank %u does not exist (there are %u ranks)", name,
                         rank, n_ranks);
    return WEFT_OK;
}

/* -- open and close ------------------------------------------------------------------------ */

static void free_comm(struct weft_comm *comm)
{
    free(comm->sent);
    free(comm->received);
    free(comm->gathered);
    free(comm);
}

static enum weft_status allocate(struct weft_comm *comm, struct weft_error *err)
{
    size_t n;
    if (wf_size_mul(comm->n_ranks, WEFT_N_CHANNELS, &n)) {
        comm->sent = calloc(n, sizeof *comm->sent);
        comm->received = calloc(n, sizeof *comm->received);
        comm->gathered = calloc(comm->n_ranks, sizeof *comm->gathered);
    }
    if (comm->sent == NULL || comm->received == NULL || comm->gathered == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the channels of %u ranks",
                         comm->n_ranks);
    return WEFT_OK;
}

enum weft_status weft_comm_open(const struct weft_transport *t, void *self, uint32_t rank,
                                uint32_t n_ranks, uint64_t run, struct weft_comm **out,
                                struct weft_error *err)
{
    WEFT_TRY(check_arguments(t, rank, n_ranks, err));
    struct weft_comm *comm = calloc(1, sizeof *comm);
    if (comm == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for rank %u", rank);
    *comm = (struct weft_comm){
        .ops = *t, .self = self, .rank = rank, .n_ranks = n_ranks, .run = run};
    comm->activity.waits_for = WEFT_NO_PEER;
    comm->timeout_ns = DEFAULT_TIMEOUT_NS;
    enum weft_status st = allocate(comm, err);
    if (st != WEFT_OK) {
        free_comm(comm);
        return st;
    }
    if (comm->ops.set_timeout != NULL)
        comm->ops.set_timeout(self, comm->timeout_ns);
    *out = comm;
    return WEFT_OK;
}

void weft_comm_close(struct weft_comm *comm)
{
    if (comm == NULL)
        return;
    wf_comm_free_disposals(comm);
    /* The thread of the flight record must not run while MPI is finalized. */
    wf_flight_close(comm->flight);
    comm->flight = NULL;
    comm->ops.close(comm->self);
    free_comm(comm);
}

/* -- the program of a rank ----------------------------------------------------------------- */

enum weft_status wf_comm_finish(struct weft_comm *comm, enum weft_status st,
                                struct weft_error *err)
{
    static const struct weft_error unknown = {.msg = "the rank failed"};
    if (comm->flight != NULL)
        wf_flight_finish(comm->flight, st == WEFT_OK ? NULL : err != NULL ? err : &unknown);
    if (st != WEFT_OK) {
        struct weft_error own = {0}, first;
        err = err != NULL ? err : &own;
        err->status = st;
        weft_comm_abort(comm, err);
        if (comm->ops.aborted(comm->self, &first)) /* it may be the error of another rank */
            *err = first;
        st = err->status;
    }
    weft_comm_close(comm);
    return st;
}

enum weft_status weft_comm_run(struct weft_comm *comm, weft_rank_fn *fn, void *arg,
                               struct weft_error *err)
{
    struct weft_error own = {0};
    err = err != NULL ? err : &own; /* other ranks receive the error in any case */
    enum weft_status st = fn(comm, arg, err);
    /* Wait for all ranks: a late error of one rank becomes an error of all ranks, and no rank
     * closes its endpoint while other ranks use it. */
    if (st == WEFT_OK)
        st = weft_comm_barrier(comm, err);
    return wf_comm_finish(comm, st, err);
}
