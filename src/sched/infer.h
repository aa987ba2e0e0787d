/* Finding the placement of a schedule whose rows are all that is known. */
#ifndef SCHED_INFER_H
#define SCHED_INFER_H

#include "sched/schedule_priv.h"

/* Takes over `actions` and `first` (ranks + 1 entries) in any case.  A stage that no action names
 * goes to rank 0; one that several ranks run for different micros makes several pipes. */
enum weft_status weft_schedule_infer(const char *name, uint32_t ranks, uint32_t stages,
                                     uint32_t micros, struct weft_action *actions,
                                     size_t *first, struct weft_schedule **out,
                                     struct weft_error *err);

#endif
