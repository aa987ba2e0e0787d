/* Opens the model that a command reads. */
#include "cli/model.h"

#include <stdio.h>

#include "base/error.h"
#include "base/printable.h"

enum weft_status wf_model_open(const char *path, struct weft_checkpoint **out,
                               struct weft_error *err)
{
    WEFT_TRY(weft_checkpoint_open(path, out, err));
    const char *note = weft_checkpoint_note(*out);
    if (note != NULL)
        fprintf(stderr, "weft: %s\n", wf_shown(note).at);
    return WEFT_OK;
}
