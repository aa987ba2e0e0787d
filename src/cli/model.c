#include "cli/model.h"

#include <stdio.h>

#include "base/error.h"

enum weft_status weft_model_open(const char *path, struct weft_weights **out,
                                 struct weft_error *err)
{
    WEFT_TRY(weft_load_open(path, out, err));
    const char *note = weft_weights_info(*out)->note;
    if (note != NULL)
        fprintf(stderr, "weft: %s\n", note);
    return WEFT_OK;
}
