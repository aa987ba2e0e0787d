#include "sched/gen/search.h"

#include <math.h>
#include <string.h>
#include <stdlib.h>
#include <stdio.h>

static int best_kind; static struct weft_knobs bk;
enum weft_status weft_search_v(struct weft_search *s, const double *given, double work, struct weft_error *err)
{
    struct weft_lister *l = weft_lister_new(s);
    if (l == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory to search with %zu actions",
                         s->setup.name, s->n_ops);
    static const double patience[] = {0, 0.5, 1}, holds[] = {0, 0.5, 1}, aheads[]={0.5,1,1.5,2,1e9}, slopes[]={0,0.5,1};
    best_kind=0;
    for (unsigned h = 0; h < 5; h++)
    for (unsigned i = 0; i < 3; i++)
        for (unsigned j = 0; j < 3; j++)
            for (unsigned k = 0; k < 3; k++)
                for (unsigned m = 0; m < 4; m++) {
                    struct weft_knobs q={aheads[h]*s->n_ranks, slopes[i], patience[j], holds[k], m%2 == 1, m/2, NULL, 0};
                    if(weft_lister_try(l, s, &q)) best_kind=1,bk=q;
                }
    double period; struct weft_blocks*b=weft_blocks_new(s);
    if (given != NULL)
        for (unsigned late = 0; late < 4; late++)
            if(weft_blocks_try(b, s, &(struct weft_block_style){{0}, given, true, late / 2, late%2 == 1})) best_kind=9; if(getenv("SHOW"))fprintf(stderr,"given best %g last %g\n",s->best[0].score.first,weft_search_score(s).first);
    static const double ds[] = {0,1,1.5,2,2.5,3,4,5};
    int bd=0,be=0;
    for (unsigned d = 0; d < 8; d++) for (unsigned e=0;e<8;e++) {
        for(int u=0;u<8;u++) if(weft_blocks_try(b,s,&(struct weft_block_style){{ds[d],0,ds[e],0},NULL,u%2,u/4,u/2%2})) best_kind=3+u,bd=d,be=e;
        const double*offset=weft_blocks_lay(b,s,&(struct weft_block_style){{ds[d],0,ds[e],0},NULL,false,false,false},&period);
    for (unsigned h = 0; h < 4; h++)
        for (unsigned j = 0; j < 3; j++)
            for (unsigned k = 0; k < 3; k++) {
                    struct weft_knobs q={aheads[h+1]*s->n_ranks, 0, patience[j], holds[k], 0,0, offset,period};
                    if(weft_lister_try(l, s, &q)) best_kind=2,bk=q,bd=d,be=e;
        }
    }
    if(getenv("SHOW"))fprintf(stderr,"P%u M%u kind %d ahead %g slope %g pat %g hold %g ff %d deep %d d %g e %g score %g\n",s->n_ranks,s->n_micros,best_kind,bk.ahead/s->n_ranks,bk.ahead_slope,bk.patience,bk.hold,bk.forward_first,bk.deep_first,ds[bd],ds[be],s->best[0].score.first);
    weft_blocks_free(b);
    {
        uint32_t n=s->n_best; uint32_t*cp=malloc(sizeof *cp*s->n_ops*n);
        for(uint32_t i=0;i<n;i++) memcpy(cp+i*s->n_ops,s->best[i].order,sizeof*cp*s->n_ops);
        static const double pp[]={0,0.25,0.5,0.75,1};
        for(uint32_t i=0;i<n;i++)for(int j=0;j<5;j++) weft_lister_refill(l,s,cp+i*s->n_ops,pp[j]);
        free(cp);
    }
    weft_lister_free(l);
    return weft_search_improve(s, work, err);
}
