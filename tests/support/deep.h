/* Sweeps over many cases have two depths: `make test` tries a part of the cases, `make
 * test-deep` tries all of them. */
#ifndef SUPPORT_DEEP_H
#define SUPPORT_DEEP_H

#include <stdbool.h>
#include <stdlib.h>

/* Returns true if every case of a sweep is to be tried (environment variable
 * WEFT_TEST_DEEP). */
static inline bool test_is_deep(void)
{
    return getenv("WEFT_TEST_DEEP") != NULL;
}

#endif
