/* The version of the library. */
#ifndef WEFT_VERSION_H
#define WEFT_VERSION_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the version, such as "0.2.0". */
WEFT_API const char *weft_version(void);

/* Returns the compiler, the processor and the build type, such as "GNU 12.2.0, x86_64,
 * Release". */
WEFT_API const char *weft_build_info(void);

#ifdef __cplusplus
}
#endif

#endif
