/* Comparison of schedules: actions, sizes and placement. */
#ifndef SUPPORT_SAME_H
#define SUPPORT_SAME_H

#include "weft/schedule.h"

bool same_placement(const struct weft_placement *a, const struct weft_placement *b);
bool same_actions(const struct weft_schedule *a, const struct weft_schedule *b);

/* Returns true if two schedules are equal, including their names. */
bool same_schedule(const struct weft_schedule *a, const struct weft_schedule *b);

/* Returns true if the schedule is the same after printing and parsing. */
bool roundtrips_text(const struct weft_schedule *s);

#endif
