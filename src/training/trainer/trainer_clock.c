/* Measures the offset between the clock of each rank and the clock of rank 0.  Clocks of
 * different hosts have different origins, and traces compare the times of ranks. */
#include "base/clock.h"
#include "base/error.h"
#include "training/trainer/messages.h"
#include "training/trainer/trainer_priv.h"

enum { ROUNDS = 8 };

static enum weft_status send_value(const struct wf_trainer *t, uint32_t to,
                                   enum wf_message_kind kind, int64_t value,
                                   struct weft_error *err)
{
    return wf_comm_send_blocking(t->comm, wf_trainer_message(to, kind, 0, &value, sizeof value),
                                 err);
}

static enum weft_status receive_value(const struct wf_trainer *t, uint32_t from,
                                      enum wf_message_kind kind, int64_t *value,
                                      struct weft_error *err)
{
    return wf_comm_receive_blocking(
        t->comm, wf_trainer_message(from, kind, 0, value, sizeof *value), err);
}

/* Requests the time of a rank several times and uses the fastest reply, which has the smallest
 * error. */
static enum weft_status compare(const struct wf_trainer *t, uint32_t rank,
                                struct weft_error *err)
{
    int64_t shortest = INT64_MAX, offset = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t begin = wf_clock_ns(), other;
        WEFT_TRY(send_value(t, rank, WF_MESSAGE_CLOCK, 0, err));
        WEFT_TRY(receive_value(t, rank, WF_MESSAGE_CLOCK, &other, err));
        int64_t end = wf_clock_ns();
        if (end - begin >= shortest)
            continue;
        shortest = end - begin;
        /* If the time in the reply is between request and receipt, both ranks may share a
         * clock. */
        offset = other >= begin && other <= end ? 0 : begin + (end - begin) / 2 - other;
    }
    return send_value(t, rank, WF_MESSAGE_CLOCK_OFFSET, offset, err);
}

static enum weft_status answer(struct wf_trainer *t, struct weft_error *err)
{
    for (int i = 0; i < ROUNDS; i++) {
        int64_t unused;
        WEFT_TRY(receive_value(t, 0, WF_MESSAGE_CLOCK, &unused, err));
        WEFT_TRY(send_value(t, 0, WF_MESSAGE_CLOCK, wf_clock_ns(), err));
    }
    return receive_value(t, 0, WF_MESSAGE_CLOCK_OFFSET, &t->clock_offset_ns, err);
}

enum weft_status wf_trainer_sync_clocks(struct wf_trainer *t, struct weft_error *err)
{
    if (t->comm == NULL || weft_comm_by_reference(t->comm)) /* one process, one clock */
        return WEFT_OK;
    if (t->rank != 0)
        return answer(t, err);
    for (uint32_t r = 1; r < t->n_ranks; r++)
        WEFT_TRY(compare(t, r, err));
    return WEFT_OK;
}
