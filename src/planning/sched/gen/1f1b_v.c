/* 1F1B on a V placement, with two stages per rank and whole backwards.  The stages go from the
 * first rank to the last and back.
 *
 *     rank 0   F0 F1 F2 f0 b0 f1 b1 F3 B0 ...      capitals: chunk 0
 *     rank 1      F0 f0 F1 f1 b0 B0 F2 ...
 *
 * If F takes 1 unit and B takes 2 units, the repeated pattern needs at most 2 * (floor(2P/3) +
 * 1) activations of a chunk on any rank, two thirds of the memory of 1f1b on a loop placement.
 * This number is the memory limit of the generator.  If the caller also gives a limit, the
 * lower limit applies.
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
