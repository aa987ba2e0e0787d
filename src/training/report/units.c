/* Formats figures and untrusted text for the page. */
#include "training/report/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/numbers.h"
#include "base/text.h"
#include "planning/draw/axis.h"

/* Formats a number with a comma between groups of three digits: 1,234,567. */
static void grouped(char out[WF_FORMAT_LEN], double value)
{
    char digits[WF_FORMAT_LEN];
    snprintf(digits, sizeof digits, "%.0f", fabs(value));
    char *at = out;
    if (value < 0 && strcmp(digits, "0") != 0)
        *at++ = '-';
    wf_digits_group(at, digits);
}

static void shortened(char out[WF_FORMAT_LEN], double value)
{
    static const char *const units[] = {"", "k", "M", "B", "T"};
    size_t u = 0;
    for (; fabs(value) >= 999.5 && u + 1 < sizeof units / sizeof units[0]; u++)
        value /= 1000;
    snprintf(out, WF_FORMAT_LEN, "%.*f%s",
             u == 0 || value >= 99.95 ? 0
             : value >= 9.995         ? 1
                                      : 2,
             value, units[u]);
}

/* Formats a duration with three digits and a unit, or as hours, minutes and seconds. */
static void duration(char out[WF_FORMAT_LEN], double ms)
{
    if (ms >= 60e3 && ms < 1e15) {
        unsigned long long s = (unsigned long long)(ms / 1e3 + 0.5);
        snprintf(out, WF_FORMAT_LEN, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
        return;
    }
    double value = ms >= 1000 ? ms / 1000 : ms >= 1 || ms == 0 ? ms : ms * 1000;
    const char *unit = ms >= 1000 ? "s" : ms >= 1 || ms == 0 ? "ms" : "\xc2\xb5s";
    int digits = value >= 100 || value == 0 ? 0 : value >= 10 ? 1 : 2;
    snprintf(out, WF_FORMAT_LEN, "%.*f %s", digits, value, unit);
}

const char *wf_unit_format(char out[WF_FORMAT_LEN], enum wf_unit unit, double value)
{
    if (!isfinite(value))
        return memcpy(out, "n/a", sizeof "n/a");

    switch (unit) {
    case WF_UNIT_LOSS:
        snprintf(out, WF_FORMAT_LEN, fabs(value) < 1e6 ? "%.4f" : "%.4e", value);
        break;
    case WF_UNIT_NORM:
        snprintf(out, WF_FORMAT_LEN, fabs(value) < 1e5 ? "%.3f" : "%.2e", value);
        break;
    case WF_UNIT_LR:
        snprintf(out, WF_FORMAT_LEN, value == 0 ? "%.0f" : "%.2e", value);
        break;
    case WF_UNIT_COUNT:
        grouped(out, value);
        break;
    case WF_UNIT_MS:
        duration(out, value);
        break;
    case WF_UNIT_PERCENT:
        snprintf(out, WF_FORMAT_LEN, "%.1f%%", 100 * value);
        break;
    case WF_UNIT_BYTES:
        wf_bytes_print(out, value, WF_BYTES_PRECISE);
        break;
    case WF_UNIT_SHORT:
        shortened(out, value);
        break;
    case WF_N_UNITS:
        break;
    }

    return out;
}

const char *wf_unit_format_tick(char out[WF_FORMAT_LEN], enum wf_unit unit, double value,
                                double step)
{
    if (fabs(value) < step * 1e-6)
        value = 0;

    switch (unit) {
    case WF_UNIT_COUNT:
        if (step >= 1)
            grouped(out, value);
        else
            snprintf(out, WF_FORMAT_LEN, "%g", value);
        break;
    case WF_UNIT_PERCENT:
        snprintf(out, WF_FORMAT_LEN, "%g%%", 100 * value);
        break;
    case WF_UNIT_MS:
        if (step >= 500)
            snprintf(out, WF_FORMAT_LEN, "%g s", value / 1000);
        else
            snprintf(out, WF_FORMAT_LEN, "%g ms", value);
        break;
    case WF_UNIT_BYTES:
        wf_bytes_print(out, value, WF_BYTES_PRECISE);
        break;
    case WF_UNIT_LR:
    case WF_UNIT_LOSS:
    case WF_UNIT_NORM:
    case WF_UNIT_SHORT:
    case WF_N_UNITS:
        snprintf(out, WF_FORMAT_LEN, "%.6g", value);
        break;
    }

    return out;
}

const char *wf_unit_name(enum wf_unit unit)
{
    static const char *const names[WF_N_UNITS] = {"loss", "norm",    "lr",    "count",
                                                  "ms",   "percent", "bytes", "short"};
    return names[unit];
}

bool wf_html_put_text(FILE *out, const char *text)
{
    bool ok = true;
    while (text != NULL) {
        const char *end = strchr(text, '\n');
        char *line = end == NULL ? strdup(text) : strndup(text, (size_t)(end - text));
        struct wf_text clean = {0};
        if (line != NULL)
            wf_draw_sanitize(&clean, line);
        ok = ok && line != NULL && !clean.failed;
        if (clean.at != NULL && !clean.failed)
            wf_escape_markup(out, clean.at);
        wf_text_release(&clean);
        free(line);
        if (end != NULL)
            fputc('\n', out);
        text = end == NULL ? NULL : end + 1;
    }
    return ok;
}
