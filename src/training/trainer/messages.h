/* Messages between trainers.  All messages use the same channel; the kind distinguishes
 * them. */
#ifndef TRAINING_TRAINER_MESSAGES_H
#define TRAINING_TRAINER_MESSAGES_H

#include "runtime/comm/blocking.h"
#include "runtime/comm/channels.h"

/* Returns a message to or from `peer`, for wf_comm_send_blocking() and
 * wf_comm_receive_blocking().  A send does not modify `data`. */
static inline struct weft_message wf_trainer_message(uint32_t peer, enum wf_message_kind kind,
                                                     uint64_t step, const void *data,
                                                     size_t bytes)
{
    return (struct weft_message){.head = {.kind = kind, .step = step},
                                 .peer = peer,
                                 .channel = WF_COMM_CHANNEL_TRAINER,
                                 .bytes = bytes,
                                 .data = (void *)data};
}

#endif
