/* The memory available to a process. */
#ifndef BASE_SYSMEM_H
#define BASE_SYSMEM_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the bytes of physical memory, or the limit of the process's control group (a
 * container, a batch job) if it is lower. */
size_t wf_sysmem_bytes(void);

/* Returns true if `bytes` bytes can be allocated now.  Call it before a library that crashes
 * without memory. */
bool wf_sysmem_can_allocate(size_t bytes);

/* Returns the lowest limit of the control groups in the file `groups` (like /proc/self/cgroup)
 * and of their ancestors below `root` (like /sys/fs/cgroup); SIZE_MAX if there is none. */
size_t wf_sysmem_limit(const char *groups, const char *root);

#endif
