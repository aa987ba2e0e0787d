/* What a trainer is, and the memory that it has. */
#include "training/trainer/trainer_priv.h"

static void add_stage_bytes(struct weft_trainer_info *info, struct weft_tstage_bytes b)
{
    info->bytes.weights += b.weights;
    info->bytes.gradients += b.gradients;
    info->bytes.packed += b.packed;
    info->bytes.activations += b.activations;
    info->bytes.scratch += b.scratch;
}

struct weft_trainer_info weft_trainer_info(const struct weft_trainer *t)
{
    struct weft_trainer_info info = {
        .model = t->layout.model,
        .layout = &t->layout,
        .rank = t->rank,
        .n_ranks = t->n_ranks,
        .n_tokens = weft_shards_n_tokens(t->shards),
        .n_files = weft_shards_n_files(t->shards),
        .seq = t->layout.seq,
        .threads = weft_pool_threads(t->pool),
        .bubble_plan = t->bubble_plan,
        .resumed = t->resumed,
        .resume_note = t->resume_note,
    };
    for (uint32_t s = 0; s < t->layout.n_stages; s++)
        if (t->stages[s] != NULL)
            add_stage_bytes(&info, weft_tstage_memory(t->stages[s]));
    info.bytes.activations += weft_program_slot_bytes(t->program);
    info.bytes.messages = weft_exec_bytes(t->exec);
    for (size_t i = 0; i < t->n_groups; i++)
        info.bytes.messages += weft_group_bytes(t->groups[i].sums);
    info.bytes.moments = weft_optim_bytes(t->optim);
    info.bytes.total = info.bytes.weights + info.bytes.gradients + info.bytes.packed +
                       info.bytes.activations + info.bytes.messages + info.bytes.scratch +
                       info.bytes.moments;
    bool copies = t->comm != NULL && !weft_comm_by_reference(t->comm);
    (void)weft_layout_rank_bytes(&t->layout, t->rank, copies, &info.bytes.planned, NULL);
    /* A model that was built has passed its check. */
    (void)weft_model_token_flops(&t->layout.model, t->layout.seq, &info.token_flops, NULL);
    (void)weft_model_count_params(&t->layout.model, &info.n_params, NULL);
    return info;
}
