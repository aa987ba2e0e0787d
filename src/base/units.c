/* Reads and prints numbers with units. */
#include "base/units.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct unit {
    const char *name;
    double scale;
};

/* The last three are too long for results: wf_time_print() stops at seconds. */
static const struct unit times[] = {
    {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1},
    {"min", 60},  {"h", 3600},  {"d", 86400}, {"\302\265s", 1e-6},
};
enum { N_PRINTED_TIMES = 4 };

static bool equals(const char *text, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(text, word, n) == 0;
}

static double find_time(const char *text, size_t n)
{
    for (size_t i = 0; i < WEFT_LEN(times); i++)
        if (equals(text, n, times[i].name))
            return times[i].scale;
    return 0;
}

/* Skips a prefix such as 'G' or "Gi" and returns its factor. */
static double take_prefix(const char **text, size_t *n, bool binary)
{
    static const char prefixes[] = "kMGTPE";
    char first = *n > 1 ? **text : '\0';
    const char *found = first == 'K'    ? prefixes
                        : first != '\0' ? strchr(prefixes, first)
                                        : NULL;
    if (found == NULL)
        return 1;
    int power = (int)(found - prefixes) + 1;
    size_t len = binary && first != 'k' && (*text)[1] == 'i' && *n > 2 ? 2 : 1;
    *text += len;
    *n -= len;
    return pow(len == 2 ? 1024 : 1000, power);
}

static double find_bytes(const char *text, size_t n)
{
    double scale = take_prefix(&text, &n, true);
    return equals(text, n, "B") ? scale : 0;
}

static double find_bandwidth(const char *text, size_t n)
{
    if (n < 3 || memcmp(text + n - 2, "/s", 2) != 0)
        return 0;
    n -= 2;
    double bytes = find_bytes(text, n);
    if (bytes > 0)
        return bytes;
    double scale = take_prefix(&text, &n, false);
    return equals(text, n, "b") || equals(text, n, "bit") ? scale / 8 : 0;
}

static double find_flops(const char *text, size_t n)
{
    double scale = take_prefix(&text, &n, false);
    return equals(text, n, "FLOPS") || equals(text, n, "FLOP/s") ? scale : 0;
}

static double find_unit(const char *text, size_t n, enum wf_quantity quantity)
{
    switch (quantity) {
    case WF_QUANTITY_PLAIN:
        break;
    case WF_QUANTITY_BYTES:
        return find_bytes(text, n);
    case WF_QUANTITY_TIME:
        return find_time(text, n);
    case WF_QUANTITY_BANDWIDTH:
        return find_bandwidth(text, n);
    case WF_QUANTITY_FLOPS:
        return find_flops(text, n);
    }
    return 0;
}

enum wf_amount_result wf_amount_read(const char *text, enum wf_quantity quantity,
                                     struct wf_amount *out, const char **end)
{
    char *at = NULL;
    struct wf_amount amount = {.number = strtod(text, &at)};
    *end = text;
    if (at == text || strchr(" \t\n\v\f\r", text[0]) != NULL)
        return WF_AMOUNT_NO_NUMBER;
    *end = at;
    size_t n =
        quantity == WF_QUANTITY_PLAIN
            ? 0
            : strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/\302\265");
    if (n > 0) {
        amount.scale = find_unit(at, n, quantity);
        if (amount.scale == 0)
            return WF_AMOUNT_BAD_UNIT;
        *end = at + n;
    }
    *out = amount;
    return WF_AMOUNT_OK;
}

double wf_amount_value(struct wf_amount amount, enum wf_quantity quantity)
{
    if (amount.scale == 0)
        return amount.number;
    double value = amount.number * amount.scale;
    return quantity == WF_QUANTITY_BYTES ? rint(value) : value;
}

const char *wf_quantity_example(enum wf_quantity quantity)
{
    static const char *const examples[] = {
        [WF_QUANTITY_PLAIN] = NULL,
        [WF_QUANTITY_BYTES] = "bytes, as in 80GB",
        [WF_QUANTITY_TIME] = "a time, as in 40ms",
        [WF_QUANTITY_BANDWIDTH] = "a rate, as in 450GB/s",
        [WF_QUANTITY_FLOPS] = "a rate, as in 312TFLOPS",
    };
    return examples[quantity];
}

const char *wf_quantity_units(enum wf_quantity quantity)
{
    static const char *const units[] = {
        [WF_QUANTITY_PLAIN] = NULL,
        [WF_QUANTITY_BYTES] = "B, kB to EB, KiB to EiB",
        [WF_QUANTITY_TIME] = "ns, us, ms, s, min, h, d",
        [WF_QUANTITY_BANDWIDTH] = "B/s, kB/s to EB/s, KiB/s to EiB/s, bit/s to Ebit/s",
        [WF_QUANTITY_FLOPS] = "FLOPS, kFLOPS to EFLOPS",
    };
    return units[quantity];
}

const char *wf_time_unit_name(double seconds)
{
    for (size_t i = 0; i < N_PRINTED_TIMES; i++)
        if (times[i].scale == seconds)
            return times[i].name;
    return NULL;
}

const char *wf_time_print(char out[WF_NUMBER_CHARS], double seconds)
{
    size_t i = N_PRINTED_TIMES - 1;
    while (i > 0 && fabs(seconds) < 0.9999995 * times[i].scale && seconds != 0)
        i--;
    snprintf(out, WF_NUMBER_CHARS, "%.6g %s", seconds / times[i].scale, times[i].name);
    return out;
}
