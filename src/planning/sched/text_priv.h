/* Constants of the schedule text form, shared by the printer and the parser. */
#ifndef PLANNING_SCHED_TEXT_PRIV_H
#define PLANNING_SCHED_TEXT_PRIV_H

#define WF_OVERLAP_SUFFIX "OVERLAP_F_B"

enum { WF_TEXT_VERSION = 1 };

#endif
