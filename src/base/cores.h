#ifndef BASE_CORES_H
#define BASE_CORES_H

#include <stdint.h>

/* Processors that the calling thread may run on; at least 1. */
uint32_t weft_cores_allowed(void);

#endif
