#define _GNU_SOURCE /* sched_getaffinity */
#include "base/cores.h"

#include <sched.h>

uint32_t weft_cores_allowed(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return (uint32_t)CPU_COUNT(&set);
}
