/* Zero bubble for given costs and memory: one stage per rank, backwards split into I and W, order
 * found by search (search_run.c).
 *
 * The default limit of every rank is what 1f1b needs on its first rank: P activations.  With twice
 * as much there is almost no bubble.
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

    /* These are best for large M if all passes take about the same time. */
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
