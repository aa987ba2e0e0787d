/* The assertion of fuzz targets.  Unlike assert() it is active in release builds. */
#ifndef FUZZ_REQUIRE_H
#define FUZZ_REQUIRE_H

#include <stdlib.h>

/* Aborts, so that the fuzzer reports the input, unless the condition is true. */
static inline void require(int condition)
{
    if (!condition)
        abort();
}

#endif
