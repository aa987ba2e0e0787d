/* The role of a process and the layout of ranks as burn_dragon, a reference system, determines
 * them from settings and environment. */
#include <stdio.h>

#include "base/error.h"
#include "base/size.h"
#include "weft/reference.h"

static const char *mode_name(enum weft_reference_mode mode)
{
    switch (mode) {
    case WEFT_REFERENCE_SINGLE:
        return "Single";
    case WEFT_REFERENCE_DDP:
        return "Ddp";
    case WEFT_REFERENCE_FSDP:
        return "Fsdp";
    case WEFT_REFERENCE_TENSOR_PARALLEL_NEURON:
        return "TensorParallelNeuron";
    case WEFT_REFERENCE_HYBRID_2D:
        return "Hybrid2D";
    }
    return "?";
}

/* The value of an environment variable. */
struct variable {
    bool set;
    size_t value;
};

/* Reads digits after an optional plus sign, as Rust parses a usize.  Any other text
 * is not set. */
static struct variable read_variable(const char *text)
{
    struct variable v = {false, 0};
    if (text == NULL)
        return v;
    text += text[0] == '+';
    if (text[0] == '\0')
        return v;
    for (; *text != '\0'; text++)
        if (*text < '0' || *text > '9' || !wf_size_mul(v.value, 10, &v.value) ||
            !wf_size_add(v.value, (size_t)(*text - '0'), &v.value))
            return v;
    v.set = true;
    return v;
}

struct environment {
    struct variable world_size, rank, local_rank;
};

static enum weft_status check_single(const struct environment *env, struct weft_error *err)
{
    const struct {
        const char *name;
        struct variable v;
        size_t trivial;
    } rules[] = {{"WORLD_SIZE", env->world_size, 1},
                 {"RANK", env->rank, 0},
                 {"LOCAL_RANK", env->local_rank, 0}};
    for (size_t i = 0; i < WEFT_LEN(rules); i++)
        if (rules[i].v.set && rules[i].v.value != rules[i].trivial)
            return WEFT_FAIL(err, WEFT_USAGE, "parallel.mode=single but %s=%zu in environment",
                             rules[i].name, rules[i].v.value);
    return WEFT_OK;
}

/* Checks a launch of several processes, and stores the numbers of this process. */
static enum weft_status join_group(const struct weft_reference_launch *l,
                                   const struct environment *env,
                                   struct weft_reference_runtime *out, struct weft_error *err)
{
    if (l->world_size != env->world_size.value)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.mode=ddp process-group launch requires parallel.world_size "
                         "to match WORLD_SIZE (got config=%zu env=%zu)",
                         l->world_size, env->world_size.value);

    if (!env->rank.set)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.mode=ddp process-group launch requires RANK");
    if (env->rank.value >= env->world_size.value)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.mode=ddp process-group launch requires RANK < WORLD_SIZE "
                         "(got %zu >= %zu)",
                         env->rank.value, env->world_size.value);

    if (!env->local_rank.set)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.mode=ddp process-group launch requires LOCAL_RANK");

    out->process_group = true;
    out->global_rank = env->rank.value;
    out->local_rank = env->local_rank.value;
    out->local_dp_size = 1;
    return WEFT_OK;
}

static enum weft_status check_bridge(const struct environment *env, struct weft_error *err)
{
    if (env->rank.set && env->rank.value != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.mode=ddp local multi-device bridge requires RANK=0 when "
                         "WORLD_SIZE is not set");
    if (env->local_rank.set && env->local_rank.value != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.mode=ddp local multi-device bridge requires LOCAL_RANK=0 "
                         "when WORLD_SIZE is not set");
    return WEFT_OK;
}

static enum weft_status resolve_ddp(const struct weft_reference_launch *l,
                                    const struct environment *env,
                                    struct weft_reference_runtime *out, struct weft_error *err)
{
    size_t stages = wf_size_max(l->stage_count, 1), ranks;
    out->world_size = l->world_size;
    out->dp_size = out->local_dp_size = wf_size_max(l->data_size, 1);
    if (env->world_size.set && env->world_size.value > 1)
        WEFT_TRY(join_group(l, env, out, err));
    else
        WEFT_TRY(check_bridge(env, err));
    if (!l->pipeline_enabled)
        return WEFT_OK;

    if (!wf_size_mul(stages, out->dp_size, &ranks) || ranks != out->world_size)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "pipeline layout requires runtime.world_size = "
                         "parallel.pipeline.stage_count * parallel.data.size (got %zu != %zu * "
                         "%zu)",
                         out->world_size, stages, out->dp_size);
    out->has_layout = true;
    out->stage_count = stages;
    out->virtual_stages_per_rank = wf_size_max(l->virtual_stages_per_rank, 1);
    return WEFT_OK;
}

enum weft_status weft_reference_runtime_resolve(const struct weft_reference_launch *launch,
                                                struct weft_reference_runtime *out,
                                                struct weft_error *err)
{
    struct environment env = {read_variable(launch->env_world_size),
                              read_variable(launch->env_rank),
                              read_variable(launch->env_local_rank)};
    struct weft_reference_runtime r = {
        .mode = launch->mode, .world_size = 1, .dp_size = 1, .local_dp_size = 1, .tp_size = 1};

    switch (launch->mode) {
    case WEFT_REFERENCE_SINGLE:
        WEFT_TRY(check_single(&env, err));
        break;
    case WEFT_REFERENCE_DDP:
        WEFT_TRY(resolve_ddp(launch, &env, &r, err));
        break;
    case WEFT_REFERENCE_FSDP:
    case WEFT_REFERENCE_TENSOR_PARALLEL_NEURON:
    case WEFT_REFERENCE_HYBRID_2D:
        /* The text of the reference system, which rejects these modes. */
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.mode=%s is configured, but the distributed runtime for this "
                         "mode is not implemented yet",
                         mode_name(launch->mode));
    }

    *out = r;
    return WEFT_OK;
}

void weft_reference_runtime_print(const struct weft_reference_runtime *r, char *out,
                                  size_t size)
{
    snprintf(out, size,
             "mode=%s world_size=%zu global_rank=%zu local_rank=%zu dp_size=%zu "
             "local_dp_size=%zu tp_size=%zu process_group=%s",
             mode_name(r->mode), r->world_size, r->global_rank, r->local_rank, r->dp_size,
             r->local_dp_size, r->tp_size, r->process_group ? "true" : "false");
}

void weft_reference_layout_print(const struct weft_reference_runtime *r, char *out, size_t size)
{
    if (!r->has_layout) {
        snprintf(out, size, "%s", "");
        return;
    }
    snprintf(out, size,
             "pipeline_layout=replica_major stage_count=%zu virtual_stages_per_rank=%zu "
             "data_parallel_size=%zu world_size=%zu",
             r->stage_count, r->virtual_stages_per_rank, r->dp_size, r->world_size);
}

enum weft_status weft_reference_layout_rank(const struct weft_reference_runtime *r, size_t rank,
                                            struct weft_reference_rank *out,
                                            struct weft_error *err)
{
    if (!r->has_layout)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "the runtime has no pipeline layout (mode %s, pipeline off or not ddp)",
            mode_name(r->mode));
    if (rank >= r->world_size)
        return WEFT_FAIL(err, WEFT_USAGE, "rank %zu is out of range (expected 0 to %zu)", rank,
                         r->world_size - 1);
    size_t stage = rank % r->stage_count;
    *out = (struct weft_reference_rank){
        .stage = stage,
        .replica = rank / r->stage_count,
        .predecessor = stage > 0 ? rank - 1 : WEFT_REFERENCE_NO_RANK,
        .successor = stage + 1 < r->stage_count ? rank + 1 : WEFT_REFERENCE_NO_RANK,
        .pipeline_first = rank - stage};
    return WEFT_OK;
}
