#include "training/report/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "planning/draw/escape.h"
#include "planning/draw/times.h"

/* 1234567 as 1,234,567 */
static void grouped(char out[WEFT_WORDS], double value)
{
    char digits[WEFT_WORDS];
    int n = snprintf(digits, sizeof digits, "%.0f", fabs(value));
    char *at = out;
    if (value < 0 && strcmp(digits, "0") != 0)
        *at++ = '-';
    for (int i = 0; i < n && i < 24; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            *at++ = ',';
        *at++ = digits[i];
    }
    *at = '\0';
}

static void bytes(char out[WEFT_WORDS], double value)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t u = 0;
    for (; fabs(value) >= 1000 && u + 1 < sizeof units / sizeof units[0]; u++)
        value /= 1024;
    snprintf(out, WEFT_WORDS,
             u == 0 || fabs(value) >= 99.95 ? "%.0f %s"
             : fabs(value) >= 9.995         ? "%.1f %s"
                                            : "%.2f %s",
             value, units[u]);
}

static void shortened(char out[WEFT_WORDS], double value)
{
    static const char *const units[] = {"", "k", "M", "B", "T"};
    size_t u = 0;
    for (; fabs(value) >= 999.5 && u + 1 < sizeof units / sizeof units[0]; u++)
        value /= 1000;
    snprintf(out, WEFT_WORDS, "%.*f%s",
             u == 0 || value >= 99.95 ? 0
             : value >= 9.995         ? 1
                                      : 2,
             value, units[u]);
}

/* Three digits, or hours, minutes and seconds. */
static void duration(char out[WEFT_WORDS], double ms)
{
    if (ms >= 60e3 && ms < 1e15) {
        unsigned long long s = (unsigned long long)(ms / 1e3 + 0.5);
        snprintf(out, WEFT_WORDS, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
        return;
    }
    double value = ms >= 1000 ? ms / 1000 : ms >= 1 || ms == 0 ? ms : ms * 1000;
    const char *unit = ms >= 1000 ? "s" : ms >= 1 || ms == 0 ? "ms" : "\xc2\xb5s";
    int digits = value >= 100 || value == 0 ? 0 : value >= 10 ? 1 : 2;
    snprintf(out, WEFT_WORDS, "%.*f %s", digits, value, unit);
}

const char *weft_words(char out[WEFT_WORDS], enum weft_unit unit, double value)
{
    if (!isfinite(value))
        return strcpy(out, "n/a");
    switch (unit) {
    case WEFT_UNIT_LOSS:
        snprintf(out, WEFT_WORDS, fabs(value) < 1e6 ? "%.4f" : "%.4e", value);
        break;
    case WEFT_UNIT_NORM:
        snprintf(out, WEFT_WORDS, fabs(value) < 1e5 ? "%.3f" : "%.2e", value);
        break;
    case WEFT_UNIT_LR:
        snprintf(out, WEFT_WORDS, value == 0 ? "%.0f" : "%.2e", value);
        break;
    case WEFT_UNIT_COUNT:
        grouped(out, value);
        break;
    case WEFT_UNIT_MS:
        duration(out, value);
        break;
    case WEFT_UNIT_PERCENT:
        snprintf(out, WEFT_WORDS, "%.1f%%", 100 * value);
        break;
    case WEFT_UNIT_BYTES:
        bytes(out, value);
        break;
    case WEFT_UNIT_SHORT:
        shortened(out, value);
        break;
    case WEFT_N_UNITS:
        break;
    }
    return out;
}

const char *weft_words_tick(char out[WEFT_WORDS], enum weft_unit unit, double value,
                            double step)
{
    if (fabs(value) < step * 1e-6)
        value = 0;
    switch (unit) {
    case WEFT_UNIT_COUNT:
        if (step >= 1)
            grouped(out, value);
        else
            snprintf(out, WEFT_WORDS, "%g", value);
        break;
    case WEFT_UNIT_PERCENT:
        snprintf(out, WEFT_WORDS, "%g%%", 100 * value);
        break;
    case WEFT_UNIT_MS:
        if (step >= 500)
            snprintf(out, WEFT_WORDS, "%g s", value / 1000);
        else
            snprintf(out, WEFT_WORDS, "%g ms", value);
        break;
    case WEFT_UNIT_BYTES:
        bytes(out, value);
        break;
    case WEFT_UNIT_LR:
    case WEFT_UNIT_LOSS:
    case WEFT_UNIT_NORM:
    case WEFT_UNIT_SHORT:
    case WEFT_N_UNITS:
        snprintf(out, WEFT_WORDS, "%.6g", value);
        break;
    }
    return out;
}

const char *weft_unit_name(enum weft_unit unit)
{
    static const char *const names[WEFT_N_UNITS] = {"loss", "norm",    "lr",    "count",
                                                    "ms",   "percent", "bytes", "short"};
    return names[unit];
}

void weft_put_clean(FILE *out, const char *text)
{
    while (text != NULL) {
        const char *end = strchr(text, '\n');
        char *line = end == NULL ? strdup(text) : strndup(text, (size_t)(end - text));
        struct weft_text clean = {0};
        if (line != NULL)
            weft_draw_clean(&clean, line);
        if (clean.at != NULL && !clean.failed)
            weft_escape_markup(out, clean.at);
        weft_text_release(&clean);
        free(line);
        if (end != NULL)
            fputc('\n', out);
        text = end == NULL ? NULL : end + 1;
    }
}
