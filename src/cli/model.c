/* Opens the model that a command reads. */
#include "cli/model.h"

#include <stdio.h>

#include "base/error.h"

enum weft_status wf_model_open(const char *path, struct wf_weights **out,
                               struct weft_error *err)
{
    WEFT_TRY(wf_load_open(path, out, err));
    const char *note = wf_weights_info(*out)->note;
    if (note != NULL)
        fprintf(stderr, "weft: %s\n", note);
    return WEFT_OK;
}
