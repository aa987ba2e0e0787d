/* The slow and obvious judge of a schedule: it runs all ranks step by step, with every message in
 * a real queue.  It shares no code with the verifier: of a schedule it asks only the sizes and
 * each rank's actions. */
#ifndef SUPPORT_BRUTE_FORCE_H
#define SUPPORT_BRUTE_FORCE_H

#include "weft/verify.h"

enum verdict {
    VERDICT_VALID,
    VERDICT_INCOMPLETE, /* something is missing, twice, on the wrong rank or needless */
    VERDICT_ORDER,      /* a rank's list has something before what it is made from */
    VERDICT_CHANNEL,    /* a receive met another message than the one it names */
    VERDICT_DEADLOCK,   /* no rank can go on */
    N_VERDICTS
};

const char *verdict_name(enum verdict v);

enum verdict brute_force_verify(const struct weft_schedule *s,
                                struct weft_channel_model transport);

#endif
