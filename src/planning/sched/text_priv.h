/* What printer and parser agree on. */
#ifndef PLANNING_SCHED_TEXT_PRIV_H
#define PLANNING_SCHED_TEXT_PRIV_H

#define WEFT_OVERLAP_WORD "OVERLAP_F_B"

enum { WEFT_TEXT_VERSION = 1 };

#endif
