#include "sched/gen/search.h"

/* How many settings of the list scheduler are worth their time. */
enum weft_status weft_search_v(struct weft_search *s, double work, struct weft_error *err)
{
    struct weft_lister *l = weft_lister_new(s);
    if (l == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory to search with %zu actions",
                         s->setup.name, s->n_ops);
    static const double patience[] = {0, 0.5, 1}, holds[] = {0, 0.5, 1}, aheads[]={0.5,1,1.5,2,1e9}, slopes[]={0,0.5,1};
    for (unsigned h = 0; h < 5; h++)
    for (unsigned i = 0; i < 3; i++)
        for (unsigned j = 0; j < 3; j++)
            for (unsigned k = 0; k < 3; k++)
                for (unsigned m = 0; m < 4; m++)
                    weft_lister_try(l, s, &(struct weft_knobs){aheads[h]*s->n_ranks, slopes[i], patience[j], holds[k], m%2 == 1, m/2});
    weft_lister_free(l);
    return weft_search_improve(s, work, err);
}
