/* Are two schedules the same in every action, size and placement? */
#ifndef SUPPORT_SAME_H
#define SUPPORT_SAME_H

#include "weft/schedule.h"

bool same_placement(const struct weft_placement *a, const struct weft_placement *b);
bool same_actions(const struct weft_schedule *a, const struct weft_schedule *b);

/* Names too. */
bool same_schedule(const struct weft_schedule *a, const struct weft_schedule *b);

/* True when the schedule, printed and read again, is the same. */
bool roundtrips_text(const struct weft_schedule *s, bool keep_idle);

#endif
