/* What a run would be, without running it: layout, timeline, memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "ckpt/hf.h"
#include "cli/cli.h"
#include "cli/numbers.h"
#include "cli/train.h"
#include "data/shard.h"
#include "draw/draw.h"
#include "train/layout.h"
#include "weft/comm.h"
#include "weft/timing.h"

/* -- memory --------------------------------------------------------------------------------- */

static enum weft_status print_bytes(const struct weft_layout *l, struct weft_error *err)
{
    char text[WEFT_NUMBER_TEXT];
    size_t total = 0, there = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    for (uint32_t r = 0; r < l->n_ranks; r++) {
        size_t bytes;
        WEFT_TRY(weft_layout_rank_bytes(l, r, weft_comm_launcher() != NULL, &bytes, err));
        total += bytes;
        if (r < 16)
            printf("memory   rank %u: %s\n", r, weft_bytes_text(text, bytes));
    }
    printf("memory   %s for all ranks, without what lives within one pass; ",
           weft_bytes_text(text, total));
    printf("this machine has %s%s\n", weft_bytes_text(text, there),
           total > there && weft_comm_launcher() == NULL ? ": NOT ENOUGH" : "");
    return WEFT_OK;
}

/* -- the timeline --------------------------------------------------------------------------- */

static enum weft_status draw_plan(const struct weft_layout *l, struct weft_error *err)
{
    struct weft_cost cost = weft_layout_cost(l);
    const struct weft_schedule *s = weft_layout_schedule(l, 0);
    struct weft_metrics m;
    struct weft_trace trace = {0};
    struct weft_draw_options how = {.style = weft_style_for(stdout, NULL, 0)};
    WEFT_TRY(weft_metrics_init(&m, s, &cost, NULL, err));
    enum weft_status st = weft_trace_init_plan(&trace, s, &m, NULL, err);
    weft_metrics_release(&m);
    if (st == WEFT_OK)
        st = weft_draw(stdout, WEFT_DRAW_TEXT, &trace, 1, &how, err);
    weft_trace_release(&trace);
    return st;
}

/* -- all of it ------------------------------------------------------------------------------ */

static enum weft_status print_layout(const struct weft_train_settings *s,
                                     const struct weft_layout *l, struct weft_error *err)
{
    size_t params = 0;
    double flops = 0;
    char number[WEFT_NUMBER_TEXT];
    WEFT_TRY(weft_model_count_params(&l->model, &params, err));
    WEFT_TRY(weft_model_token_flops(&l->model, l->seq, &flops, err));
    printf("model    %s, %u layers of dimension %u, %s parameters, %.3g flops a token\n",
           weft_arch_name(l->model.arch), l->model.layers, l->model.dim,
           weft_grouped(number, params), flops);
    printf("ranks    %u: pp %u x dp %u, schedule %s, %u stages, %u micros of up to %zu "
           "sequences\n",
           l->n_ranks, l->pp, l->dp, s->parallel.schedule, l->n_stages, l->micros,
           l->most_rows);
    WEFT_TRY(print_bytes(l, err));
    putchar('\n');
    return draw_plan(l, err);
}

enum weft_status weft_train_find_model(const struct weft_train_settings *s,
                                       struct weft_model *out, struct weft_error *err)
{
    if (s->model.dir == NULL)
        return weft_train_settings_model(s, out, err);
    struct weft_hf *hf = NULL;
    WEFT_TRY(weft_hf_open(s->model.dir, &hf, err));
    *out = *weft_hf_model(hf);
    weft_hf_free(hf);
    return WEFT_OK;
}

enum weft_status weft_train_dry_run(struct weft_train_settings *s, struct weft_error *err)
{
    struct weft_model model;
    struct weft_layout l;
    struct weft_shards *shards = NULL;
    WEFT_TRY(weft_train_auto(s, NULL, err));
    WEFT_TRY(weft_train_find_model(s, &model, err));
    WEFT_TRY(weft_layout_init(&l, s, &model, err));
    enum weft_status st = weft_shards_open_part(s->data.train, "train", &shards, err);
    if (st == WEFT_OK)
        st = print_layout(s, &l, err);
    weft_shards_free(shards);
    weft_layout_release(&l);
    return st;
}
