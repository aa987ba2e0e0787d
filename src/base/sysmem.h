/* How much memory a process may have. */
#ifndef BASE_SYSMEM_H
#define BASE_SYSMEM_H

#include <stddef.h>

/* Bytes of this machine's memory, or fewer where the process is in a control group with a limit: a
 * container, a job of a batch system. */
size_t wf_sysmem_bytes(void);

/* The least limit of the control groups that the file `groups` (as /proc/self/cgroup) lists and of
 * those that they are in, below `root` (as /sys/fs/cgroup); SIZE_MAX when there is none. */
size_t wf_sysmem_limit(const char *groups, const char *root);

#endif
