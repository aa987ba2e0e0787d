/* A slow reference verifier: runs all ranks step by step, with every message in a real
 * queue.  It shares no code with verify and reads only the sizes and the actions of a
 * schedule. */
#ifndef SUPPORT_BRUTE_FORCE_H
#define SUPPORT_BRUTE_FORCE_H

#include "weft/verify.h"

enum verdict {
    VERDICT_VALID,
    VERDICT_INCOMPLETE, /* an action is missing, repeated, unnecessary or on the wrong rank */
    VERDICT_ORDER,      /* an action precedes one of its inputs in the list of a rank */
    VERDICT_CHANNEL,    /* a receive finds another message than the one it names */
    VERDICT_DEADLOCK,   /* no rank can continue */
    N_VERDICTS
};

const char *verdict_name(enum verdict v);

enum verdict brute_force_verify(const struct weft_schedule *s,
                                struct weft_channel_model channels);

#endif
