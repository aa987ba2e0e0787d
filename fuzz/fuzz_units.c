/* Parses any bytes as a number with a unit, for every quantity.  Checks that the result is an
 * error or ends within the text, and that printed times and bytes are read back. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

static void check(const char *text, size_t size, enum wf_quantity quantity)
{
    struct wf_amount amount = {0};
    const char *end = NULL;
    enum wf_amount_result result = wf_amount_read(text, quantity, &amount, &end);
    if (end < text || end > text + size)
        abort();
    if (result == WF_AMOUNT_OK && (end == text || !(amount.scale >= 0)))
        abort();
    if (result == WF_AMOUNT_OK && quantity == WF_QUANTITY_TIME && isfinite(amount.number) &&
        fabs(amount.number) < 1e100) {
        char printed[WF_NUMBER_CHARS], *blank;
        wf_time_print(printed, wf_amount_value(amount, quantity));
        blank = strchr(printed, ' ');
        memmove(blank, blank + 1, strlen(blank));
        if (wf_amount_read(printed, quantity, &amount, &end) != WF_AMOUNT_OK || *end != '\0')
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (int q = WF_QUANTITY_PLAIN; q <= WF_QUANTITY_FLOPS; q++)
        check(text, size, (enum wf_quantity)q);
    free(text);
    return 0;
}
