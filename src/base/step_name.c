/* Prints and parses the names of steps. */
#include "base/step_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "step-"

void wf_step_name_print(uint64_t step, int digits, char out[WF_STEP_NAME_SIZE])
{
    snprintf(out, WF_STEP_NAME_SIZE, PREFIX "%0*" PRIu64, digits, step);
}

bool wf_step_name_parse(const char *text, int digits, uint64_t *step, const char **rest)
{
    size_t prefix = strlen(PREFIX);
    char canonical[WF_STEP_NAME_SIZE];
    if (strncmp(text, PREFIX, prefix) != 0)
        return false;
    size_t n = strspn(text + prefix, "0123456789");
    if (n < (size_t)digits || n > 19) /* more digits could overflow */
        return false;
    uint64_t number = strtoull(text + prefix, NULL, 10);
    wf_step_name_print(number, digits, canonical);
    if (strlen(canonical) != prefix + n)
        return false;
    *step = number;
    *rest = text + prefix + n;
    return true;
}
