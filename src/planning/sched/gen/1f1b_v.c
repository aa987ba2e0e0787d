/* 1F1B on a V: two stages per rank, down the ranks and back up, with whole backwards.
 *
 *     rank 0   F0 F1 F2 f0 b0 f1 b1 F3 B0 ...      capitals: chunk 0
 *     rank 1      F0 f0 F1 f1 b0 B0 F2 ...
 *
 * Repeated as a pattern with F = 1 and B = 2, it needs at most 2 * (floor(2P/3) + 1) activations of
 * a chunk on any rank, two thirds of what 1f1b on a loop needs.  That is the limit here.  If the
 * caller gives a limit, the lower one applies.
 */
#include "planning/sched/gen/search.h"

WF_GENERATOR(1f1b_v)
{
    struct wf_search s;
    struct wf_search_setup setup = {.name = "1f1b-v", .chunks = 2, .whole = true};
    WEFT_TRY(wf_search_init(&s, &setup, params, err));
    wf_search_cap_memory(&s, 2 * (2 * params->ranks / 3 + 1));
    enum weft_status st = wf_search_check_limits(&s, err);
    if (st == WEFT_OK)
        st = wf_search_run(&s, NULL, err);
    if (st == WEFT_OK)
        st = wf_search_finish(&s, out, err);
    wf_search_release(&s);
    return st;
}
