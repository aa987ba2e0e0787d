/* Finds the command that helps by the fact that an error states. */
#include "cli/hints.h"

#include <string.h>

#include "base/error.h"

static const struct {
    enum weft_status status;
    const char *facts[2]; /* parts of the message; the second may be NULL */
    const char *hint;
} hints[] = {
    {WEFT_DATA, {"are not a token shard", NULL}, "; weft tokenize creates shards"},
    {WEFT_DATA, {"no *.bin file in this folder", NULL}, "; weft tokenize creates shards"},
    {WEFT_DATA,
     {"data.val: ", "tokens are too few"},
     "; weft tokenize --val makes more validation data"},
    {WEFT_SCHEDULE, {" is wrong: ", NULL}, " (weft check shows all)"},
    {WEFT_SCHEDULE, {"the schedule cannot run: ", NULL}, " (weft check shows all findings)"},
    {WEFT_SCHEDULE, {"is not a valid schedule", NULL}, "; weft check reports the errors"},
};

void wf_error_add_hint(struct weft_error *err)
{
    for (size_t i = 0; i < WEFT_LEN(hints); i++)
        if (hints[i].status == err->status && strstr(err->msg, hints[i].facts[0]) != NULL &&
            (hints[i].facts[1] == NULL || strstr(err->msg, hints[i].facts[1]) != NULL)) {
            wf_error_wrap(err, "", hints[i].hint);
            return;
        }
}
