/* The version and the build of the library. */
#include "weft/version.h"

const char *weft_version(void)
{
    return WEFT_VERSION;
}

const char *weft_build_info(void)
{
    return WEFT_COMPILER ", " WEFT_BUILD_TYPE;
}
