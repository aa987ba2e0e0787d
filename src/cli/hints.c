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
    {WEFT_DATA,
     {"is a Parquet file", NULL},
     "; convert it: python3 -c \"import sys, pandas; pandas.read_parquet(sys.argv[1])"
     ".to_json(sys.argv[2], orient='records', lines=True)\" IN.parquet OUT.jsonl"},
    {WEFT_DATA, {"is text in UTF-16", NULL}, "; convert it: iconv -f UTF-16 -t UTF-8 IN > OUT"},
    {WEFT_DATA,
     {": has no string \"", "(its fields: "},
     "; --field names the field of the text"},
    {WEFT_DATA,
     {": not valid JSON: ", NULL},
     "; --skip-bad skips such records, --format text "
     "reads the file as plain text"},
    {WEFT_USAGE, {"has no chat template", NULL}, "; give --chat-template"},
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
