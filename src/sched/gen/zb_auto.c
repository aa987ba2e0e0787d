#include "sched/gen/search.h"

WEFT_GENERATOR(zb_auto)
{
    struct weft_search s;
    struct weft_search_setup setup = {"zb-auto", 1, false};
    WEFT_TRY(weft_search_init(&s, &setup, params, params->ranks, err));
    enum weft_status st = weft_search_check_limits(&s, err);
    struct weft_lister *l = NULL;
    if (st != WEFT_OK)
        goto done;
    l = weft_lister_new(&s);
    if (l == NULL) {
        st = WEFT_FAIL(err, WEFT_NOMEM, "zb-auto: no memory");
        goto done;
    }
    static const double slopes[] = {1, 1.5, 2, 3, 1e9}, patience[] = {0, 0.5, 1},
                        holds[] = {0, 0.5, 1};
    for (unsigned i = 0; i < 5; i++)
        for (unsigned j = 0; j < 3; j++)
            for (unsigned k = 0; k < 3; k++)
                for (unsigned m = 0; m < 2; m++)
                    weft_lister_try(l, &s, &(struct weft_knobs){1, slopes[i], patience[j], holds[k], m == 1, true, NULL, 0});
    st = weft_search_improve(&s, 4e6, err);
    if (st == WEFT_OK)
        st = weft_search_finish(&s, out, err);
done:
    weft_lister_free(l);
    weft_search_release(&s);
    return st;
}
