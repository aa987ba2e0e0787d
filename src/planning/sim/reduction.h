/* Computes the time of a gradient reduction, which is a reduce-scatter followed by an
 * all-gather among the members of a group. */
#ifndef PLANNING_SIM_REDUCTION_H
#define PLANNING_SIM_REDUCTION_H

#include "weft/sim.h"

/* Returns the time in seconds that a message takes on a link. */
static inline double wf_message_seconds(double bytes, struct weft_link link)
{
    double limit = link.bytes_per_second;
    return link.latency_seconds + (limit > 0 ? bytes / limit : 0);
}

/* Returns the time in seconds that the messages of one member take.  In each of the two
 * phases the member exchanges one message with every other member.  A message has
 * `sum_bytes` bytes in the reduce-scatter and `value_bytes` bytes in the all-gather.
 * Returns 0 for a group of one member. */
static inline double wf_reduction_seconds(double members, double sum_bytes, double value_bytes,
                                          struct weft_link link)
{
    if (members < 2)
        return 0;
    return (members - 1) *
           (wf_message_seconds(sum_bytes, link) + wf_message_seconds(value_bytes, link));
}

#endif
