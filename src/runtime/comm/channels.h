/* The channel numbers and message kinds that weft itself uses.  Programs use the channels from
 * WEFT_USER_CHANNEL on, and reduction groups use the channels from WEFT_GROUP_CHANNEL on; see
 * weft/comm.h. */
#ifndef RUNTIME_COMM_CHANNELS_H
#define RUNTIME_COMM_CHANNELS_H

enum wf_comm_channel {
    WF_COMM_CHANNEL_FORWARD = 0,  /* exec: activations */
    WF_COMM_CHANNEL_BACKWARD = 1, /* exec: gradients of activations */
    WF_COMM_CHANNEL_OUTPUT = 2,   /* exec: outputs of the last stage for rank 0 */
    WF_COMM_CHANNEL_ALL_GATHER = 3,
    WF_COMM_CHANNEL_COLLECTIVE = 4, /* comm: gather and broadcast */
    WF_COMM_CHANNEL_REDUCER = 5,
    WF_COMM_CHANNEL_TRAINER = 7,
};

/* The kinds of messages.  Sender and receiver of a message must use the same kind. */
enum wf_message_kind {
    /* exec */
    WF_MESSAGE_ACTIVATION = 1,
    WF_MESSAGE_GRADIENT,
    WF_MESSAGE_BLOCK,
    /* Lends memory for a block's gradient, on transports by reference only; has no payload. */
    WF_MESSAGE_LOAN,
    WF_MESSAGE_BLOCK_GRADIENT,
    WF_MESSAGE_OUTPUT,

    /* comm */
    WF_MESSAGE_GATHER = 0x100,
    WF_MESSAGE_BROADCAST,

    /* sync */
    WF_MESSAGE_REDUCER = 0x110,
    WF_MESSAGE_REDUCE = 0x200,
    WF_MESSAGE_ALL_GATHER,

    /* trainer */
    WF_MESSAGE_WEIGHTS = 0x300,
    WF_MESSAGE_N_EVENTS,
    WF_MESSAGE_EVENTS,
    WF_MESSAGE_SETTINGS = 0x310,
    WF_MESSAGE_BLOB = 0x320, /* the description of a checkpoint file */
    WF_MESSAGE_CLOCK = 0x330,
    WF_MESSAGE_CLOCK_OFFSET,
};

#endif
