/* Facts about a trainer, and the memory of its rank. */
#include "training/trainer/trainer_priv.h"

static void add_stage_bytes(struct wf_trainer_info *info, struct wf_tstage_bytes b)
{
    info->bytes.weights += b.weights;
    info->bytes.gradients += b.gradients;
    info->bytes.packed += b.packed;
    info->bytes.activations += b.activations;
    info->bytes.scratch += b.scratch;
}

struct wf_trainer_info wf_trainer_info(const struct wf_trainer *t)
{
    struct wf_trainer_info info = {
        .model = t->topology.model,
        .topology = &t->topology,
        .rank = t->rank,
        .n_ranks = t->n_ranks,
        .n_tokens = wf_shards_n_tokens(t->data.shards),
        .n_files = wf_shards_n_files(t->data.shards),
        .seq = t->topology.seq,
        .threads = wf_pool_threads(t->pool),
        .bubble_plan = t->bubble_plan,
        .resumed = t->resumed.step,
        .has_resumed = t->resumed.found,
        .resume_note = t->resumed.note,
    };

    for (uint32_t s = 0; s < t->topology.n_stages; s++)
        if (t->stages[s] != NULL)
            add_stage_bytes(&info, wf_tstage_memory(t->stages[s]));
    info.bytes.activations += weft_program_slot_bytes(t->program);
    info.bytes.messages = weft_exec_bytes(t->exec);
    for (size_t i = 0; i < t->n_groups; i++)
        info.bytes.messages += wf_group_bytes(t->groups[i].sums);

    info.bytes.moments = wf_optim_bytes(t->optim);
    info.bytes.data = wf_trainer_data_bytes(&t->data);
    info.bytes.snapshot = wf_checkpointer_snapshot_bytes(t->checkpointer);
    info.bytes.temporary = t->planned.temporary; /* allocated only while it is needed */
    wf_rank_bytes_add_up(&info.bytes);

    info.planned_bytes = t->planned.total;
    /* The model was checked before, so the calls below cannot fail. */
    (void)weft_model_token_flops(&t->topology.model, t->topology.seq, &info.token_flops, NULL);
    (void)weft_model_count_params(&t->topology.model, &info.n_params, NULL);
    return info;
}
