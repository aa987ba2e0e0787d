/* Gathers the memory of all ranks and writes plan.json. */
#include "training/run/rundir_plan.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"

/* The bytes that each rank contributes. */
struct rank_bytes {
    uint64_t planned;
    struct wf_planfile_bytes allocated;
};

static enum weft_status no_memory(struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for plan.json");
}

/* -- lists of the file --------------------------------------------------------------------- */

/* Lists the bytes on each link with the given cache and without a cache. */
static enum weft_status fill_links(struct wf_planfile *file, const struct wf_topology *t,
                                   enum weft_block_cache cache, struct weft_error *err)
{
    struct weft_traffic_step with = {0}, without = {0};
    enum weft_status st = wf_topology_count_traffic(t, cache, &with, err);
    if (st == WEFT_OK)
        st = wf_topology_count_traffic(t, WEFT_BLOCK_CACHE_OFF, &without, err);
    if (st == WEFT_OK && (file->links = calloc(with.n_links + 1, sizeof *file->links)) == NULL)
        st = no_memory(err);
    for (size_t i = 0; st == WEFT_OK && i < with.n_links && i < without.n_links; i++)
        file->links[file->n_links++] =
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

/* Stores the lists of ranks and stages in `numbers`, and returns a pointer past the last
 * number. */
static uint32_t *fill_stages(struct wf_planfile *file, const struct wf_topology *t,
                             uint32_t *numbers)
{
    file->n_stages = t->n_stages;
    for (uint32_t s = 0; s < t->n_stages; s++) {
        const struct weft_stage_range *range = &t->partition.at[s];
        struct wf_planfile_stage *stage = &file->stages[s];
        *stage = (struct wf_planfile_stage){.first_layer = range->first_layer,
                                            .n_layers = range->end_layer - range->first_layer,
                                            .embedding = range->embedding,
                                            .head = range->head,
                                            .ranks = numbers};
        for (uint32_t r = 0; r < t->n_ranks; r++)
            if (wf_topology_runs_stage(t, r, s))
                *numbers++ = r;
        stage->n_ranks = (size_t)(numbers - stage->ranks);
    }
    return numbers;
}

static void fill_ranks(struct wf_planfile *file, const struct wf_topology *t,
                       const struct rank_bytes *bytes, uint32_t *numbers)
{
    file->n_ranks = t->n_ranks;
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        struct wf_planfile_rank *rank = &file->ranks[r];
        *rank = (struct wf_planfile_rank){.rank = r,
                                          .stages = numbers,
                                          .planned_bytes = bytes[r].planned,
                                          .bytes = bytes[r].allocated};
        for (uint32_t s = 0; s < t->n_stages; s++)
            if (wf_topology_runs_stage(t, r, s))
                *numbers++ = s;
        rank->n_stages = (size_t)(numbers - rank->stages);
    }
}

/* -- the file ------------------------------------------------------------------------------ */

static enum weft_status write_file(const char *dir, const struct wf_rundir_plan *plan,
                                   const struct rank_bytes *bytes, struct weft_error *err)
{
    const struct wf_topology *t = plan->topology;
    struct wf_planfile file = {.model = t->model,
                               .n_params = plan->n_params,
                               .pp = t->pp,
                               .dp = t->dp,
                               .chunks = weft_schedule_n_chunks(t->schedules[0]),
                               .bubble_plan = plan->bubble_plan};
    snprintf(file.schedule, sizeof file.schedule, "%s", plan->schedule);

    file.stages = calloc(t->n_stages, sizeof *file.stages);
    file.ranks = calloc(t->n_ranks, sizeof *file.ranks);
    uint32_t *numbers = calloc(2 * (size_t)t->n_stages * t->n_ranks + 1, sizeof *numbers);
    char *path = wf_path_join(dir, "plan.json");
    enum weft_status st = WEFT_OK;
    if (file.stages == NULL || file.ranks == NULL || numbers == NULL || path == NULL)
        st = no_memory(err);
    else
        fill_ranks(&file, t, bytes, fill_stages(&file, t, numbers));
    if (st == WEFT_OK)
        st = fill_links(&file, t, plan->cache, err);
    if (st == WEFT_OK)
        st = wf_planfile_write(path, &file, err);

    free(path);
    free(numbers);
    free(file.stages);
    free(file.ranks);
    free(file.links);
    return st;
}

enum weft_status wf_rundir_write_plan(const char *dir, struct weft_comm *comm,
                                      const struct wf_rundir_plan *plan, struct weft_error *err)
{
    const struct rank_bytes own = {plan->planned_bytes, plan->bytes};
    struct rank_bytes *all = calloc(weft_comm_size(comm), sizeof *all);
    enum weft_status st =
        all == NULL ? no_memory(err) : weft_comm_gather_equal(comm, &own, sizeof own, all, err);
    if (st == WEFT_OK && weft_comm_rank(comm) == 0)
        st = write_file(dir, plan, all, err);
    free(all);
    return st;
}
