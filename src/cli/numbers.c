#include "cli/numbers.h"

#include <stdio.h>

#include "base/error.h"

const char *wf_grouped(char out[WF_NUMBER_TEXT], uint64_t n)
{
    char digits[WF_NUMBER_TEXT];
    int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n), at = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

const char *wf_bytes_text(char out[WF_NUMBER_TEXT], size_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < WEFT_LEN(units); unit++)
        value /= 1024;
    snprintf(out, WF_NUMBER_TEXT, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value,
             units[unit]);
    return out;
}
