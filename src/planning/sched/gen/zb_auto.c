/* Zero-bubble schedule for given costs and memory limits.  It has one stage per rank and
 * backwards split into I and W.  A search finds the order (search_run.c).
 *
 * The default memory limit of every rank is P activations, which is the peak of the first rank
 * in 1f1b.  With a limit of 2P activations there is almost no bubble.
 */
#include "planning/sched/gen/search.h"

WF_GENERATOR(zb_auto)
{
    struct wf_search s;
    struct wf_search_setup setup = {.name = "zb-auto", .chunks = 1, .whole = false};
    WEFT_TRY(wf_search_init(&s, &setup, params, err));
    if (params->memory == NULL || params->memory->limit.n == 0)
        wf_search_cap_memory(&s, params->ranks);
    enum weft_status st = wf_search_check_limits(&s, err);
    if (st != WEFT_OK)
        goto done;

    /* The fixed schedules below are the best orders for large M if all passes take about the
     * same time. */
    st = wf_search_try_generator(&s, wf_gen_zb_h1, params, err);
    if (st == WEFT_OK)
        st = wf_search_try_generator(&s, wf_gen_zb_h2, params, err);
    if (st == WEFT_OK)
        st = wf_search_run(&s, NULL, err);
    if (st == WEFT_OK)
        st = wf_search_finish(&s, out, err);
done:
    wf_search_release(&s);
    return st;
}
