/* Calls the two halves of a backward, for callers that run stages without an executor. */
#include "base/error.h"
#include "weft/stage.h"

enum weft_status weft_stage_backward(const struct weft_stage *stage,
                                     const struct weft_stage_call *call, struct weft_error *err)
{
    if (stage == NULL || call == NULL || stage->ops == NULL ||
        (stage->ops->backward == NULL &&
         (stage->ops->backward_input == NULL || stage->ops->backward_weight == NULL)))
        return WEFT_FAIL(err, WEFT_USAGE, "the stage has no functions for a backward");
    if (stage->ops->backward != NULL)
        return stage->ops->backward(stage->self, call, err);
    WEFT_TRY(stage->ops->backward_input(stage->self, call, err));
    return stage->ops->backward_weight(stage->self, call, err);
}
