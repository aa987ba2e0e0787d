/* Numbers as text, and medians. */
#include "base/numbers.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static void print_shortest(double value, int min_digits, int max_digits, bool single,
                           char out[WF_NUMBER_CHARS])
{
    for (int digits = min_digits; digits <= max_digits; digits++) {
        snprintf(out, WF_NUMBER_CHARS, "%.*g", digits, value);
        double back = strtod(out, NULL);
        if ((single ? (double)(float)back : back) == value)
            return;
    }
}

void wf_number_print(double value, char out[WF_NUMBER_CHARS])
{
    print_shortest(value, 15, 17, false, out);
}

void wf_number_print_short(double value, char out[WF_NUMBER_CHARS])
{
    print_shortest(value, 1, 17, false, out);
}

void wf_number_print_float(float value, char out[WF_NUMBER_CHARS])
{
    print_shortest((double)value, 1, 9, true, out);
}

const char *wf_digits_group(char out[WF_NUMBER_CHARS], const char *digits)
{
    size_t n = strlen(digits), at = 0;
    for (size_t i = 0; i < n && at + 2 < WF_NUMBER_CHARS; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

const char *wf_grouped(char out[WF_NUMBER_CHARS], uint64_t n)
{
    char digits[WF_NUMBER_CHARS];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    return wf_digits_group(out, digits);
}

const char *wf_bytes_print(char out[WF_NUMBER_CHARS], double bytes, enum wf_bytes_style style)
{
    static const char *const binary[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    static const char *const decimal[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    static const double limits[] = {
        [WF_BYTES_BINARY] = 1024, [WF_BYTES_PRECISE] = 1000, [WF_BYTES_DECIMAL] = 999.5};
    double base = style == WF_BYTES_DECIMAL ? 1000 : 1024;
    size_t unit = 0;
    for (; fabs(bytes) >= limits[style] && unit + 1 < WEFT_LEN(binary); unit++)
        bytes /= base;

    double size = fabs(bytes);
    int digits = 0;
    if (unit > 0 && style == WF_BYTES_BINARY)
        digits = size < 100;
    else if (unit > 0)
        digits = size < 9.995 ? 2 : size < 99.95;

    if (style == WF_BYTES_DECIMAL)
        snprintf(out, WF_NUMBER_CHARS, "%.3g%s", bytes, decimal[unit]);
    else
        snprintf(out, WF_NUMBER_CHARS, "%.*f %s", digits, bytes, binary[unit]);
    return out;
}

const char *wf_bytes_text(char out[WF_NUMBER_CHARS], size_t bytes)
{
    return wf_bytes_print(out, (double)bytes, WF_BYTES_BINARY);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double wf_median(double *x, size_t n)
{
    qsort(x, n, sizeof *x, compare_doubles);
    return n % 2 == 1 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}
