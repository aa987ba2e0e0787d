#include "base/error.h"
#include "cli/bench.h"

enum weft_status weft_bench_kernels(const struct weft_bench_compute *s, struct weft_error *err)
{
    (void)s;
    return WEFT_FAIL(err, WEFT_USAGE, "not yet");
}
