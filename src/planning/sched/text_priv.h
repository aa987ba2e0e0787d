/* Constants of the text form, shared by printer and parser. */
#ifndef PLANNING_SCHED_TEXT_PRIV_H
#define PLANNING_SCHED_TEXT_PRIV_H

#define WF_OVERLAP_SUFFIX "OVERLAP_F_B"

enum { WF_TEXT_VERSION = 1 };

#endif
