/* Parses which layers recompute their activations.
 *
 *     none | attention | full        the same for all layers
 *     auto                           the least recomputation that fits into memory
 *     full:0-5,9,attention:s2        a list of KIND:RANGE, separated by commas
 *
 * KIND is attention or full.  RANGE is a layer or layers A-B, counted from 0, or with an `s`
 * before the numbers a stage or stages.  A RANGE without KIND has the kind of the preceding
 * one.  Layers that are not listed recompute nothing.  Blanks around a comma are ignored. */
#ifndef PLANNING_SPEC_RECOMPUTE_H
#define PLANNING_SPEC_RECOMPUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/spec.h"
#include "weft/status.h"

enum wf_recompute { WF_RECOMPUTE_ALL, WF_RECOMPUTE_LAYERS, WF_RECOMPUTE_STAGES };

struct wf_recompute_range {
    enum weft_recompute kind;
    enum wf_recompute unit;
    uint32_t first, last; /* not used for all layers */
    size_t column;        /* of the range in the text, from 1 */
};

struct wf_recompute_list {
    bool automatic; /* the text is "auto"; the list is empty */
    size_t n;
    struct wf_recompute_range *at; /* owned */
};

/* Parses a text; NULL means none.  Returns WEFT_USAGE with the column and what is allowed
 * there.  `what` is the first part of the message: the name of the setting or option.  The
 * caller releases *out with wf_recompute_list_release(). */
enum weft_status wf_recompute_parse(const char *text, const char *what,
                                    struct wf_recompute_list *out, struct weft_error *err);
void wf_recompute_list_release(struct wf_recompute_list *list); /* a zeroed list is allowed */

#endif
