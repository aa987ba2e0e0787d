/* plan.json of a run: what each rank holds and sends, for whoever looks at the run later. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/train.h"
#include "training/ckpt/file.h"
#include "training/run/planfile.h"
#include "weft/comm.h"
#include "weft/traffic.h"

struct card {
    uint64_t planned;
    struct wf_planfile_bytes bytes;
};

static struct card card_of(const struct wf_trainer_info *i)
{
    return (struct card){i->bytes.planned,
                         {i->bytes.weights, i->bytes.gradients, i->bytes.packed,
                          i->bytes.activations, i->bytes.messages, i->bytes.scratch,
                          i->bytes.moments, i->bytes.total}};
}

/* -- links ---------------------------------------------------------------------------------- */

enum weft_status wf_train_count_links(const struct wf_topology *l, enum weft_block_cache cache,
                                      struct weft_traffic_step *out, struct weft_error *err)
{
    size_t elements = l->max_rows * l->seq * l->model.dim;
    const struct weft_payload payload = {4 * elements, 8 * elements};
    uint32_t *finished_by = NULL, n = 0;
    struct weft_traffic *t = NULL;
    if (l->model.residual_block_layers != 0)
        WEFT_TRY(weft_residual_blocks(&l->partition, l->model.residual_block_layers,
                                      &finished_by, &n, err));
    enum weft_status st = weft_traffic_new(weft_schedule_placement(l->schedules[0]),
                                           finished_by, n, cache, &t, err);
    if (st == WEFT_OK)
        st = weft_traffic_step_init(out, t, payload, err);
    weft_traffic_free(t);
    free(finished_by);
    return st;
}

/* With the cache that is set and with none. */
static enum weft_status fill_links(struct wf_planfile *plan, const struct wf_topology *l,
                                   enum weft_block_cache cache, struct weft_error *err)
{
    struct weft_traffic_step with = {0}, without = {0};
    enum weft_status st = wf_train_count_links(l, cache, &with, err);
    if (st == WEFT_OK)
        st = wf_train_count_links(l, WEFT_BLOCK_CACHE_OFF, &without, err);
    if (st == WEFT_OK && (plan->links = calloc(with.n_links + 1, sizeof *plan->links)) == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the plan");
    for (size_t i = 0; st == WEFT_OK && i < with.n_links && i < without.n_links; i++)
        plan->links[plan->n_links++] =
            (struct wf_planfile_link){with.links[i].from,
                                      with.links[i].to,
                                      with.links[i].forward_bytes,
                                      with.links[i].backward_bytes,
                                      without.links[i].forward_bytes,
                                      without.links[i].backward_bytes};
    weft_traffic_step_release(&with);
    weft_traffic_step_release(&without);
    return st;
}

/* -- stages and ranks ----------------------------------------------------------------------- */

static enum weft_status fill_lists(struct wf_planfile *plan, const struct wf_topology *l,
                                   const struct card *cards, uint32_t *room)
{
    plan->n_stages = l->n_stages;
    plan->n_ranks = l->n_ranks;
    for (uint32_t s = 0; s < l->n_stages; s++) {
        const struct weft_stage_range *r = &l->partition.at[s];
        struct wf_planfile_stage *stage = &plan->stages[s];
        *stage = (struct wf_planfile_stage){.first_layer = r->first_layer,
                                            .n_layers = r->end_layer - r->first_layer,
                                            .embedding = r->embedding,
                                            .head = r->head,
                                            .ranks = room};
        for (uint32_t k = 0; k < l->n_ranks; k++)
            if (wf_topology_runs_stage(l, k, s))
                *room++ = k;
        stage->n_ranks = (size_t)(room - stage->ranks);
    }
    for (uint32_t k = 0; k < l->n_ranks; k++) {
        struct wf_planfile_rank *rank = &plan->ranks[k];
        *rank = (struct wf_planfile_rank){.rank = k,
                                          .stages = room,
                                          .planned_bytes = cards[k].planned,
                                          .bytes = cards[k].bytes};
        for (uint32_t s = 0; s < l->n_stages; s++)
            if (wf_topology_runs_stage(l, k, s))
                *room++ = s;
        rank->n_stages = (size_t)(room - rank->stages);
    }
    return WEFT_OK;
}

static enum weft_status write_plan(const char *dir, const struct wf_train_settings *s,
                                   const struct wf_trainer_info *info, const struct card *cards,
                                   struct weft_error *err)
{
    const struct wf_topology *l = info->topology;
    struct wf_planfile plan = {.model = l->model,
                               .n_params = info->n_params,
                               .pp = l->pp,
                               .dp = l->dp,
                               .chunks = weft_schedule_n_chunks(l->schedules[0]),
                               .bubble_plan = info->bubble_plan};
    snprintf(plan.schedule, sizeof plan.schedule, "%s", s->parallel.schedule);
    plan.stages = calloc(l->n_stages, sizeof *plan.stages);
    plan.ranks = calloc(l->n_ranks, sizeof *plan.ranks);
    uint32_t *room = calloc(2 * (size_t)l->n_stages * l->n_ranks + 1, sizeof *room);
    char *path = wf_path_join(dir, "plan.json");
    enum weft_status st = WEFT_OK;
    if (plan.stages == NULL || plan.ranks == NULL || room == NULL || path == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the plan");
    if (st == WEFT_OK)
        st = fill_lists(&plan, l, cards, room);
    if (st == WEFT_OK)
        st = fill_links(&plan, l, (enum weft_block_cache)s->parallel.cache, err);
    if (st == WEFT_OK)
        st = wf_planfile_write(path, &plan, err);
    free(path);
    free(room);
    free(plan.stages);
    free(plan.ranks);
    free(plan.links);
    return st;
}

enum weft_status wf_train_write_plan(struct weft_comm *comm, const struct wf_train_settings *s,
                                     const struct wf_trainer_info *info, struct weft_error *err)
{
    struct card own = card_of(info);
    struct card *all = calloc(weft_comm_size(comm), sizeof *all);
    enum weft_status st = all == NULL
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the plan")
                              : weft_comm_gather_equal(comm, &own, sizeof own, all, err);
    if (st == WEFT_OK && weft_comm_rank(comm) == 0)
        st = write_plan(s->log.dir, s, info, all, err);
    free(all);
    return st;
}
