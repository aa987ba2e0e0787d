/* Writes the figures of benchmarks as JSON. */
#include "base/error.h"
#include "base/json.h"
#include "bench/bench.h"
#include "bench/plan.h"
#include "compute/kern/isa.h"

/* -- planning ------------------------------------------------------------------------------ */

void wf_bench_plan_write_json(struct wf_json *j, const struct wf_bench_case *c,
                              const struct wf_bench_plan *f)
{
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "schedule", c->schedule);
    wf_json_uint(j, "ranks", c->ranks);
    wf_json_uint(j, "chunks", c->chunks ? c->chunks : 1);
    wf_json_uint(j, "micros", c->micros);
    wf_json_uint(j, "actions", f->actions);
    wf_json_number(j, "generate_ns", f->generate_ns);
    wf_json_number(j, "verify_ns", f->verify_ns);
    wf_json_number(j, "lower_ns", f->lower_ns);
    wf_json_number(j, "lowered_verify_ns", f->lowered_verify_ns);
    wf_json_number(j, "stored_bytes", f->stored_bytes);
    wf_json_number(j, "peak_bytes", f->peak_bytes);
    wf_json_number(j, "bar_ns", c->limit_ns);
    wf_json_end(j, '}');
}

static void put_cache(struct wf_json *j, const struct wf_bench_cache *cache)
{
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "schedule", cache->schedule);
    wf_json_begin(j, "events", '[');
    for (size_t i = 0; i < WF_BENCH_N_IN_FLIGHT; i++) {
        wf_json_begin(j, NULL, '{');
        wf_json_uint(j, "in_flight", wf_bench_in_flight[i]);
        wf_json_number(j, "ns", cache->ns[i]);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
    wf_json_end(j, '}');
}

void wf_bench_sim_write_json(struct wf_json *j, const struct wf_bench_sim_figures *f)
{
    wf_json_begin(j, NULL, '{');
    wf_json_begin(j, "schedules", '[');
    for (size_t i = 0; i < f->n_cases; i++) {
        const struct wf_bench_case *c = f->cases[i].shape;
        wf_json_begin(j, NULL, '{');
        wf_json_string(j, "schedule", c->schedule);
        wf_json_uint(j, "ranks", c->ranks);
        wf_json_uint(j, "micros", c->micros);
        wf_json_uint(j, "actions", f->cases[i].actions);
        wf_json_number(j, "actions_s", f->cases[i].rate);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');

    wf_json_number(j, "action_scenarios_s", f->scenarios_rate);
    wf_json_number(j, "fleet_step_s", f->fleet_seconds);
    wf_json_begin(j, "reference_cache", '[');
    for (size_t k = 0; k < WF_BENCH_N_CACHE; k++)
        put_cache(j, &f->cache[k]);
    wf_json_end(j, ']');
    wf_json_end(j, '}');
}

/* -- training ------------------------------------------------------------------------------ */

static void put_mode(struct wf_json *j, const struct wf_bench_train_mode *m, const char *name)
{
    wf_json_begin(j, name, '{');
    wf_json_number(j, "tok_s", m->tok_s);
    wf_json_number(j, "ms", m->seconds * 1e3);
    wf_json_number(j, "share", m->share);
    wf_json_number(j, "peak", m->peak);
    wf_json_number(j, "burst", m->burst);
    wf_json_begin(j, "time", '{');
    for (int i = 0; i < WF_BENCH_N_TIMES; i++)
        wf_json_number(j, wf_bench_time_name((size_t)i), m->times[i]);
    wf_json_end(j, '}');
    wf_json_uint(j, "weight_bytes", m->memory.weights);
    wf_json_uint(j, "packed_bytes", m->memory.packed);
    wf_json_uint(j, "gradient_bytes", m->memory.gradients);
    wf_json_uint(j, "moment_bytes", m->moment_bytes);
    wf_json_uint(j, "activation_bytes", m->memory.activations);
    wf_json_uint(j, "scratch_bytes", m->memory.scratch);
    wf_json_end(j, '}');
}

void wf_bench_train_write_json(struct wf_json *j, const struct wf_bench_params *p,
                               const struct wf_bench_train *f)
{
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "spec", p->spec);
    wf_json_string(j, "precision", p->precision);
    wf_json_string(j, "instructions", wf_isa_name(wf_isa()));
    wf_json_uint(j, "batch", p->batch);
    wf_json_uint(j, "seq", p->seq);
    wf_json_uint(j, "micros", p->micros);
    wf_json_uint(j, "threads", f->threads);
    wf_json_number(j, "flops", f->flops);
    put_mode(j, &f->exact, "exact");
    put_mode(j, &f->fast, "fast");
    wf_json_number(j, "exact_cost", f->exact_cost);
    wf_json_end(j, '}');
}

void wf_bench_kernel_write_json(struct wf_json *j, const struct wf_bench_kernel *k)
{
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "kernel", k->name);
    wf_json_string(j, "shape", k->shape);
    wf_json_number(j, "us", k->seconds * 1e6);
    wf_json_number(j, k->flops != 0 ? "flop_s" : "byte_s", k->rate);
    if (k->flops != 0)
        wf_json_number(j, "share", k->share);
    wf_json_end(j, '}');
}

/* -- pipelines ----------------------------------------------------------------------------- */

static void put_layout(struct wf_json *j, const char *name, const struct wf_bench_layout *m)
{
    wf_json_begin(j, name, '{');
    wf_json_number(j, "tok_s", m->tok_s);
    wf_json_number(j, "eval_tok_s", m->eval_tok_s);
    wf_json_number(j, "rest", m->rest);
    wf_json_number(j, "bubble", m->bubble);
    wf_json_number(j, "bubble_sim", m->bubble_sim);
    wf_json_number(j, "share", m->share);
    wf_json_end(j, '}');
}

void wf_bench_pipeline_write_json(struct wf_json *j, const struct wf_bench_params *p,
                                  const struct wf_bench_pipeline *f)
{
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "spec", p->spec);
    wf_json_string(j, "schedule", p->schedule);
    wf_json_uint(j, "ranks", p->ranks);
    wf_json_uint(j, "micros", p->micros);
    wf_json_number(j, "hand_over_us", f->small.seconds * 1e6);
    wf_json_number(j, "hand_over_64mib_us", f->large.seconds * 1e6);
    put_layout(j, "one_rank", &f->one);
    put_layout(j, "pipeline", &f->pipeline);
    put_layout(j, "replicas", &f->replicas);
    for (size_t i = 0; i < WEFT_LEN(f->mpi); i++)
        if (f->mpi[i].ran)
            put_layout(j, f->mpi[i].launcher, &f->mpi[i].pipeline);
    wf_json_end(j, '}');
}

/* -- generation and checkpoints ------------------------------------------------------------- */

void wf_bench_generate_write_json(struct wf_json *j, const struct wf_bench_params *p,
                                  const struct wf_bench_generate *f)
{
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "spec", p->spec);
    wf_json_uint(j, "prompt", f->prompt);
    wf_json_uint(j, "threads", f->threads);
    wf_json_string(j, "instructions", wf_isa_name(wf_isa()));
    wf_json_number(j, "bar", wf_bench_targets.min_memory_share);
    for (size_t i = 0; i < WEFT_LEN(f->types); i++) {
        const struct wf_bench_generate_type *t = &f->types[i];
        wf_json_begin(j, wf_dtype_name(t->type), '{');
        wf_json_number(j, "tok_s", t->tok_s);
        wf_json_number(j, "prompt_tok_s", t->prompt_tok_s);
        wf_json_uint(j, "token_bytes", t->token_bytes);
        wf_json_number(j, "read_bytes_s", t->read_bytes_s);
        wf_json_number(j, "share", t->share);
        wf_json_end(j, '}');
    }
    wf_json_end(j, '}');
}

void wf_bench_checkpoint_write_json(struct wf_json *j, const struct wf_bench_params *p,
                                    const struct wf_bench_checkpoint *f)
{
    const struct wf_bench_disk *d = &f->disk;
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "spec", p->spec);
    wf_json_uint(j, "batch", p->batch);
    wf_json_uint(j, "seq", p->seq);
    wf_json_uint(j, "every", p->steps);
    wf_json_number(j, "bytes", d->bytes);
    wf_json_number(j, "step_ms", 1e3 * f->without_s);
    wf_json_number(j, "saving_step_ms", 1e3 * f->with_s);
    wf_json_number(j, "stall", f->stall);
    wf_json_number(j, "processor_time", f->cpu);
    wf_json_number(j, "checkpoint_s", f->checkpoint_s);
    wf_json_number(j, "save_bytes_s", d->save);
    wf_json_number(j, "plain_write_bytes_s", d->save_plain);
    wf_json_number(j, "save_share", d->save_share);
    wf_json_number(j, "check_bytes_s", d->check);
    wf_json_number(j, "load_bytes_s", d->load);
    wf_json_number(j, "plain_read_bytes_s", d->load_plain);
    wf_json_number(j, "load_share", d->load_share);
    wf_json_number(j, "cached", d->cached);
    wf_json_end(j, '}');
}
