/* The endpoint of the socket transport, shared by its two halves: socket_data.c moves messages,
 * socket_control.c moves heartbeats and errors.
 *
 * DATA.  Frames in a stream.  A message is announced by its header.  Its payload follows when
 * the receiver has posted the receive and has sent "ready".  So payloads go straight from the
 * memory of the sender to that of the receiver, no rank ever buffers one, and a message that
 * nobody expects does not block the stream for others.
 *
 *     sender                     receiver
 *     MESSAGE id, header   -->   matches a posted receive, at once or later
 *                          <--   READY id
 *     PAYLOAD id, bytes    -->   reads into the buffer; the receive is complete
 *
 * CONTROL.  Records of a fixed size.  After an error each rank passes on the error, and then
 * "left" when it no longer touches the messages of its caller.
 */
#ifndef SOCKET_PRIV_H
#define SOCKET_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "socket_transport.h"

enum frame_kind { FRAME_MESSAGE = 1, FRAME_READY, FRAME_PAYLOAD };

/* All ranks run the same program on the same machine, so frames are plain structs. */
struct frame {
    uint32_t kind; /* enum frame_kind */
    uint32_t channel;
    uint64_t id; /* number of the message between these two ranks in this direction */
    struct weft_message_header head; /* FRAME_MESSAGE */
};

/* A frame that waits to be written, followed by a payload if m is not NULL. */
struct output {
    struct output *next;
    struct frame frame;
    size_t written;         /* bytes of the frame and its payload */
    struct weft_message *m; /* borrowed until it is done */
    bool completes;         /* the send is done once this frame is written */
};

/* The header of a message without a posted receive. */
struct arrival {
    struct arrival *next;
    struct frame frame;
    struct weft_message *own; /* sent by this rank to itself; NULL: from a peer */
};

/* Messages in the order of their sends or posts, linked by `next`. */
struct message_list {
    struct weft_message *first, *last;
};

struct channel {
    struct arrival *first_arrival, *last_arrival; /* owned */
    struct message_list posted;
};

enum record_kind { RECORD_HEARTBEAT = 1, RECORD_ERROR, RECORD_LEFT, RECORD_BYE };

struct record {
    uint32_t kind; /* enum record_kind */
    struct weft_activity activity;
    int32_t status;
    char msg[sizeof(((struct weft_error *)0)->msg)];
};

struct peer {
    struct socket_pair at;                     /* owned; -1: closed */
    struct output *first_output, *last_output; /* owned */
    uint64_t next_id;
    struct message_list announced; /* sends that wait for "ready"; request[0] is the id */
    struct message_list expected;  /* receives that wait for their payload */
    struct channel channels[WEFT_N_CHANNELS];
    /* The frame that is being read, and the bytes of it and its payload so far. */
    struct frame frame;
    size_t n_read;
    struct weft_activity activity; /* of the latest heartbeat, which was read at heard_ns */
    int64_t heard_ns;
    bool left, bye;
};

struct endpoint {
    uint32_t rank, n_ranks;
    struct peer *peers;     /* owned: (n_ranks) */
    struct pollfd *polled;  /* owned: (2 n_ranks) */
    struct output *outputs; /* owned: unused outputs and arrivals */
    struct arrival *arrivals;
    int64_t timeout_ns, polled_ns, published_ns;
    uint32_t published_peer;
    /* The first error.  If several ranks fail at the same time, the error of the lowest rank
     * counts. */
    bool failed;
    bool gave_up; /* this rank has noticed the error; messages belong to the caller again */
    uint32_t failed_rank;
    struct weft_error error;
};

/* socket_data.c */
enum weft_status socket_send(void *self, struct weft_message *m, struct weft_error *err);
enum weft_status socket_post(void *self, struct weft_message *m, struct weft_error *err);
/* Reads frames from a peer, and writes frames to it, as far as this is possible at once. */
enum weft_status socket_read(struct endpoint *e, uint32_t from, struct weft_error *err);
void socket_write(struct endpoint *e, uint32_t to);
void socket_free_data(struct endpoint *e);

/* socket_control.c */
int64_t socket_now(void);
/* Waits for at most `milliseconds` for events, and handles them.  A failure
 * becomes an abort. */
void socket_poll(struct endpoint *e, int milliseconds);
void socket_abort(void *self, const struct weft_error *err);

#endif
