/* The time of a gradient reduction: a reduce-scatter, then an all-gather, among the members of a
 * group. */
#ifndef PLANNING_SIM_REDUCTION_H
#define PLANNING_SIM_REDUCTION_H

#include "weft/sim.h"

/* Returns the seconds that a message takes on a link. */
static inline double wf_message_seconds(double bytes, struct weft_link link)
{
    double limit = link.bytes_per_second;
    return link.latency_seconds + (limit > 0 ? bytes / limit : 0);
}

/* Returns the seconds that the messages of one member take.  It exchanges one message with every
 * other member in each half: `sum_bytes` are those of a message in the reduce-scatter,
 * `value_bytes` those in the all-gather.  0 for a group of one. */
static inline double wf_reduction_seconds(double members, double sum_bytes, double value_bytes,
                                          struct weft_link link)
{
    if (members < 2)
        return 0;
    return (members - 1) *
           (wf_message_seconds(sum_bytes, link) + wf_message_seconds(value_bytes, link));
}

#endif
