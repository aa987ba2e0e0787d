#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cache_print.h"
#include "cli/cli.h"
#include "cli/plan_options.h"
#include "cli/traffic_print.h"
#include "config/values.h"
#include "weft/bound.h"
#include "weft/render.h"
#include "weft/sim.h"

struct simulate_settings {
    struct wf_plan_settings plan; /* first: its options are shared */
    const char *cluster, *unit, *bytes, *gradient_bytes, *transfers, *speed, *jitter;
    uint32_t samples;
    const char *cache_model, *communication, *cache, *payload, *gradient_payload, *block_cache;
    uint32_t layers_per_block, block_layers;
    bool json;
};

#define AT(field) offsetof(struct simulate_settings, field)

static const struct wf_option options[] = {
    WF_OPTIONS_SCHEDULE,
    WF_OPTIONS_COST,
    WF_OPTIONS_MODEL,
    {NULL, 0, WF_OPTION_HEADING, NULL, "Cluster", NULL, 0},
    {"cluster", 0, WF_OPTION_TEXT, "LINE",
     "'node:4 rank:2 intra:200GB/s,2us inter:25GB/s,8us'; else every hop takes --cost C", NULL,
     AT(cluster)},
    {"unit", 0, WF_OPTION_CHOICE, "UNIT", "--cluster: what the costs are in (ms)", "s|ms|us",
     AT(unit)},
    {"bytes", 0, WF_OPTION_TEXT, "N", "of a message to the next stage; a list is N:M:...", NULL,
     AT(bytes)},
    {"gradient-bytes", 0, WF_OPTION_TEXT, "N", "of a message back; as --bytes when not given",
     NULL, AT(gradient_bytes)},
    {"transfers", 0, WF_OPTION_CHOICE, "WHAT", "what a transfer occupies (delay: nothing)",
     "delay|link|ranks", AT(transfers)},
    {"speed", 0, WF_OPTION_TEXT, "X:Y:...", "how many times longer each rank's actions take",
     NULL, AT(speed)},
    {NULL, 0, WF_OPTION_HEADING, NULL, "Variation", NULL, 0},
    {"samples", 0, WF_OPTION_COUNT, "N", "also run N scenarios whose times vary", NULL,
     AT(samples)},
    {"jitter", 0, WF_OPTION_TEXT, "lognormal:S", "by how much (lognormal:0.05)", NULL,
     AT(jitter)},
    {NULL, 0, WF_OPTION_HEADING, NULL, "Block attention residuals", NULL, 0},
    {"residual-block-layers", 0, WF_OPTION_COUNT, "K",
     "count the traffic of blocks of K layers between ranks", NULL, AT(block_layers)},
    {"residual-cache", 0, WF_OPTION_CHOICE, "WHAT",
     "what ranks remember of a micro's blocks (full)", "off|received|full", AT(block_cache)},
    {"payload-bytes", 0, WF_OPTION_TEXT, "B", "of a block, an activation or its gradient", NULL,
     AT(payload)},
    {"gradient-payload-bytes", 0, WF_OPTION_TEXT, "B",
     "of a block's gradient; as --payload-bytes when not given", NULL, AT(gradient_payload)},
    {"cache-model", 0, WF_OPTION_CHOICE, "WHOSE",
     "exact, or the count of the reference system and nothing else", "exact|reference",
     AT(cache_model)},
    {"communication", 0, WF_OPTION_CHOICE, "MODE", "reference: what crosses a border",
     "activation_tensor|block_residual_cache", AT(communication)},
    {"cache", 0, WF_OPTION_TEXT, "enabled=1,..",
     "reference: also policy=resident_block_summaries, reuse=1, inflight=8", NULL, AT(cache)},
    {"layers-per-block", 0, WF_OPTION_COUNT, "K", "reference: layers of a block", NULL,
     AT(layers_per_block)},
    {NULL, 0, WF_OPTION_HEADING, NULL, "Output", NULL, 0},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "everything, for programs", NULL, AT(json)},
    {"output", 'o', WF_OPTION_TEXT, "FILE",
     "write there: .json for programs, .trace the events, .svg .png .pdf .html .trace.json draw",
     NULL, WF_PLAN_AT(output)},
    {"width", 0, WF_OPTION_COUNT, "N", "columns to draw in (the terminal's)", NULL,
     WF_PLAN_AT(width)},
    {"color", 0, WF_OPTION_CHOICE, "WHEN", "colours in the drawing", "auto|always|never",
     WF_PLAN_AT(color)},
};

struct simulation {
    struct wf_plan plan;
    struct weft_cluster cluster;
    struct weft_sim_options options; /* its lists are owned */
    struct weft_sim sim;
    struct weft_samples samples;
    bool sampled;
    bool from_model; /* bytes are a model's: 4 a weight, 8 its gradient, 8 its optimizer */
    struct weft_bounds bounds;
    struct weft_traffic *traffic; /* owned; NULL unless asked for */
    struct wf_traffic_report traffic_report;
};

static void simulation_release(struct simulation *s)
{
    wf_values_release(&s->options.speed);
    wf_values_release(&s->options.bytes);
    wf_values_release(&s->options.gradient_bytes);
    wf_traffic_report_release(&s->traffic_report);
    weft_traffic_free(s->traffic);
    weft_samples_release(&s->samples);
    weft_sim_release(&s->sim);
    wf_plan_release(&s->plan);
}

static enum weft_status parse_options(struct simulation *s, const struct simulate_settings *in,
                                      struct weft_error *err)
{
    struct weft_sim_options *o = &s->options;
    o->cost = &s->plan.cost;
    o->memory = &s->plan.memory;
    if (in->cluster != NULL) {
        WEFT_TRY(weft_cluster_parse(in->cluster, &s->cluster, err));
        o->cluster = &s->cluster;
        if (s->plan.cost.hop > 0)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "--cluster says what hops take: leave out --cost C");
    }
    if (in->unit != NULL && in->cluster == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "--unit goes with --cluster");
    o->unit_seconds = in->unit == NULL || strcmp(in->unit, "ms") == 0 ? 1e-3
                      : strcmp(in->unit, "us") == 0                   ? 1e-6
                                                                      : 1;
    if (in->speed != NULL)
        WEFT_TRY(wf_values_parse(in->speed, "--speed", &o->speed, err));
    if (in->bytes != NULL)
        WEFT_TRY(wf_values_parse(in->bytes, "--bytes", &o->bytes, err));
    if (in->gradient_bytes != NULL)
        WEFT_TRY(
            wf_values_parse(in->gradient_bytes, "--gradient-bytes", &o->gradient_bytes, err));
    if (in->transfers != NULL)
        o->contention = strcmp(in->transfers, "link") == 0    ? WEFT_CONTENTION_LINK
                        : strcmp(in->transfers, "ranks") == 0 ? WEFT_CONTENTION_RANKS
                                                              : WEFT_CONTENTION_NONE;
    return WEFT_OK;
}

static enum weft_status run_samples(struct simulation *s, const struct simulate_settings *in,
                                    struct weft_error *err)
{
    struct weft_jitter jitter = {.sigma = 0.05, .seed = 1};
    if (in->samples == 0) {
        if (in->jitter != NULL)
            return WEFT_FAIL(err, WEFT_USAGE, "--jitter goes with --samples N");
        return WEFT_OK;
    }
    if (in->jitter != NULL) {
        static const char name[] = "lognormal:";
        char *end = NULL;
        if (strncmp(in->jitter, name, sizeof name - 1) != 0)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "--jitter: '%.40s' is not lognormal:0.05 or the like", in->jitter);
        jitter.sigma = strtod(in->jitter + sizeof name - 1, &end);
        if (*end != '\0' || end == in->jitter + sizeof name - 1)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "--jitter: '%.40s' is not lognormal:0.05 or the like", in->jitter);
    }
    s->sampled = true;
    return weft_samples_init(&s->samples, s->plan.schedule, &s->options, &jitter, in->samples,
                             err);
}

/* What no order could beat.  Hops of a cluster are at least 0; speeds change what work takes, and
 * then nothing is claimed. */
static enum weft_status find_bounds(struct simulation *s, struct weft_error *err)
{
    struct weft_cost cost = s->plan.cost;
    if (s->options.speed.n > 0)
        return WEFT_OK;
    if (s->options.cluster != NULL)
        cost.hop = 0;
    return weft_bounds_of(s->plan.schedule, &cost, &s->plan.memory, 0.2, &s->bounds, err);
}

static void put_bounds(struct wf_json *j, const struct simulation *s)
{
    const struct weft_metrics *m = &s->sim.metrics;
    wf_json_begin(j, "bound", '{');
    wf_json_number(j, "makespan", s->bounds.makespan);
    wf_json_string(j, "by", weft_bound_name(s->bounds.makespan_by));
    wf_json_number(j, "gap", weft_gap(m->makespan, s->bounds.makespan));
    wf_json_number(j, "span", s->bounds.span);
    wf_json_number(j, "gap_span", weft_gap(m->span, s->bounds.span));
    wf_json_end(j, '}');
}

/* -- residual blocks ------------------------------------------------------------------------ */

static enum weft_status parse_bytes(const char *text, const char *what, size_t otherwise,
                                    size_t *out, struct weft_error *err)
{
    struct weft_values v = {0};
    *out = otherwise;
    if (text == NULL)
        return WEFT_OK;
    WEFT_TRY(wf_values_parse(text, what, &v, err));
    bool fine = v.n == 1 && v.at[0] >= 0 && v.at[0] < 1e18 && v.at[0] == floor(v.at[0]);
    if (fine)
        *out = (size_t)v.at[0];
    wf_values_release(&v);
    return fine ? WEFT_OK : WEFT_FAIL(err, WEFT_USAGE, "%s takes one whole number", what);
}

static enum weft_status count_blocks(struct simulation *s, const struct simulate_settings *in,
                                     struct weft_error *err)
{
    struct weft_payload payload;
    enum weft_block_cache cache;
    uint32_t *finished_by = NULL, n = 0;
    if (in->block_layers == 0) {
        if (in->block_cache != NULL || in->gradient_payload != NULL || in->payload != NULL)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "--residual-cache and payloads go with --residual-block-layers K");
        return WEFT_OK;
    }
    WEFT_TRY(wf_block_cache_parse(in->block_cache, &cache, err));
    WEFT_TRY(parse_bytes(in->payload, "--payload-bytes", 1, &payload.bytes, err));
    WEFT_TRY(parse_bytes(in->gradient_payload, "--gradient-payload-bytes", payload.bytes,
                         &payload.gradient_bytes, err));
    WEFT_TRY(weft_residual_blocks(&s->plan.partition, in->block_layers, &finished_by, &n, err));
    enum weft_status st = weft_traffic_new(weft_schedule_placement(s->plan.schedule),
                                           finished_by, n, cache, &s->traffic, err);
    free(finished_by);
    if (st == WEFT_OK)
        st = wf_traffic_report_init(&s->traffic_report, s->traffic, s->plan.schedule, payload,
                                    in->block_layers, err);
    return st;
}

/* The reference system's count, alone. */
static enum weft_status run_reference(const struct wf_plan *p,
                                      const struct simulate_settings *in,
                                      struct weft_error *err)
{
    struct weft_ref_traffic_settings settings = {.layers_per_block = in->layers_per_block};
    struct weft_ref_traffic c = {0};
    if (in->layers_per_block == 0 || in->payload == NULL)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "--cache-model reference needs --layers-per-block K and --payload-bytes B");
    if (in->communication != NULL && strcmp(in->communication, "block_residual_cache") == 0)
        settings.mode = WEFT_REF_TRAFFIC_BLOCK_RESIDUAL_CACHE;
    WEFT_TRY(wf_cache_settings_parse(in->cache, &settings.cache, err));
    WEFT_TRY(parse_bytes(in->payload, "--payload-bytes", 0, &settings.payload_bytes, err));
    WEFT_TRY(weft_ref_traffic_compute(p->schedule, &p->partition, &settings, &c, err));
    struct wf_text text = {0};
    struct wf_output sink;
    const char *path = in->plan.output;
    enum weft_status st = wf_output_open(&sink, path, err);
    if (st == WEFT_OK) {
        struct wf_json j = {.out = sink.out};
        if (in->json || (path != NULL && wf_path_ends_in(path, ".json"))) {
            wf_communication_print_json(&j, NULL, &c);
            fputc('\n', sink.out);
        } else {
            wf_communication_print_text(&text, &c);
            if (text.failed)
                st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to print");
            else
                fwrite(text.at, 1, text.len, sink.out);
        }
        st = wf_output_close(&sink, st, err);
    }
    wf_text_release(&text);
    weft_ref_traffic_release(&c);
    return st;
}

/* -- JSON ----------------------------------------------------------------------------------- */

static void put_idle(struct wf_json *j, const struct simulation *s)
{
    wf_json_begin(j, "idle", '[');
    for (uint32_t r = 0; r < s->sim.metrics.n_ranks; r++) {
        const struct weft_idle_time *idle = &s->sim.idle[r];
        wf_json_begin(j, NULL, '{');
        wf_json_number(j, "warm_up", idle->warm_up);
        wf_json_number(j, "drain", idle->drain);
        wf_json_number(j, "communication", idle->communication);
        wf_json_number(j, "imbalance", idle->imbalance);
        wf_json_number(j, "data", idle->data);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
}

/* What a rank holds at most: in numbers, and in bytes where the model's are known. */
static void put_memory(struct wf_json *j, const struct simulation *s)
{
    const struct weft_metrics *m = &s->sim.metrics;
    wf_json_begin(j, "memory", '[');
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        wf_json_begin(j, NULL, '{');
        wf_json_uint(j, "activations", m->peak_activations[r]);
        wf_json_uint(j, "carry", s->sim.peak_pending_w[r]);
        wf_json_uint(j, "receive_buffers", s->sim.peak_receive[r]);
        if (s->plan.bytes.n_ranks > 0) {
            size_t state = s->plan.bytes.state[r];
            wf_json_uint(j, "activation_bytes", s->plan.bytes.total[r] - state);
            wf_json_uint(j, "state_bytes", state);
            if (s->from_model) {
                wf_json_uint(j, "weight_bytes", state / 5);
                wf_json_uint(j, "gradient_bytes", state / 5 * 2);
                wf_json_uint(j, "optimizer_bytes", state - state / 5 * 3);
            }
        }
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
}

static void put_links(struct wf_json *j, const struct simulation *s)
{
    wf_json_begin(j, "links", '[');
    for (size_t i = 0; i < s->sim.n_links; i++) {
        const struct weft_link_usage *l = &s->sim.links[i];
        wf_json_begin(j, NULL, '{');
        wf_json_uint(j, "from", l->from);
        wf_json_uint(j, "to", l->to);
        wf_json_uint(j, "messages", l->messages);
        wf_json_number(j, "forward_bytes", l->forward_bytes);
        wf_json_number(j, "backward_bytes", l->backward_bytes);
        wf_json_number(j, "busy", l->busy);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
}

static void put_path(struct wf_json *j, const struct simulation *s)
{
    wf_json_begin(j, "critical_path", '{');
    wf_json_number(j, "compute", s->sim.path_compute);
    wf_json_number(j, "hops", s->sim.path_hops);
    wf_json_number(j, "wait", s->sim.path_wait);
    wf_json_begin(j, "actions", '[');
    for (size_t i = s->sim.n_path; i-- > 0;) {
        const struct weft_path_step *step = &s->sim.path[i];
        char cell[WEFT_ACTION_TEXT_MAX];
        weft_action_print(weft_schedule_rank(s->plan.schedule, step->rank).at[step->position],
                          cell);
        wf_json_string(j, NULL, cell);
    }
    wf_json_end(j, ']');
    wf_json_end(j, '}');
}

static void put_samples(struct wf_json *j, const struct simulation *s)
{
    wf_json_begin(j, "samples", '{');
    wf_json_uint(j, "n", s->samples.n);
    wf_json_number(j, "mean", s->samples.mean);
    wf_json_number(j, "p5", s->samples.p5);
    wf_json_number(j, "p50", s->samples.p50);
    wf_json_number(j, "p95", s->samples.p95);
    wf_json_begin(j, "slow_rank", '[');
    for (uint32_t r = 0; r < s->sim.metrics.n_ranks; r++)
        wf_json_number(j, NULL, s->samples.slow_rank[r]);
    wf_json_end(j, ']');
    wf_json_end(j, '}');
}

static void print_json(FILE *out, const struct simulation *s)
{
    const struct weft_placement *place = weft_schedule_placement(s->plan.schedule);
    const struct weft_metrics *m = &s->sim.metrics;
    struct wf_json j = {.out = out};
    wf_json_begin(&j, NULL, '{');
    wf_json_string(&j, "schedule", weft_schedule_name(s->plan.schedule));
    wf_json_uint(&j, "ranks", place->n_ranks);
    wf_json_uint(&j, "stages", place->n_stages);
    wf_json_uint(&j, "micros", place->n_micros);
    wf_metrics_write_json(&j, m, &s->plan.bytes);
    put_idle(&j, s);
    put_memory(&j, s);
    put_links(&j, s);
    put_path(&j, s);
    if (s->bounds.makespan > 0)
        put_bounds(&j, s);
    if (s->traffic != NULL)
        wf_traffic_print_json(&j, "traffic", &s->traffic_report);
    if (s->sampled)
        put_samples(&j, s);
    wf_json_end(&j, '}');
    fputc('\n', out);
}

/* -- text ----------------------------------------------------------------------------------- */

static void say_idle(struct wf_text *out, const struct simulation *s)
{
    const struct weft_metrics *m = &s->sim.metrics;
    struct weft_idle_time sum = {0};
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        sum.warm_up += s->sim.idle[r].warm_up;
        sum.drain += s->sim.idle[r].drain;
        sum.communication += s->sim.idle[r].communication;
        sum.imbalance += s->sim.idle[r].imbalance;
        sum.data += s->sim.idle[r].data;
    }
    double all = m->makespan * m->n_ranks / 100;
    if (all > 0)
        wf_text_addf(out,
                     "idle by cause     warm-up %.1f%%, drain %.1f%%, waiting for data %.1f%%, "
                     "for messages %.1f%%, imbalance %.1f%%\n",
                     sum.warm_up / all, sum.drain / all, sum.data / all,
                     sum.communication / all, sum.imbalance / all);
    size_t carry = 0, receive = 0;
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        carry = s->sim.peak_pending_w[r] > carry ? s->sim.peak_pending_w[r] : carry;
        receive = s->sim.peak_receive[r] > receive ? s->sim.peak_receive[r] : receive;
    }
    wf_text_addf(out, "held at most      %zu micros between I and W, %zu received messages\n",
                 carry, receive);
    wf_text_addf(out, "critical path     %zu actions, computing %.10g, messages %.10g\n",
                 s->sim.n_path, s->sim.path_compute, s->sim.path_hops);
}

static void say_links(struct wf_text *out, const struct simulation *s)
{
    double bytes = 0;
    const struct weft_link_usage *most = NULL;
    for (size_t i = 0; i < s->sim.n_links; i++) {
        const struct weft_link_usage *l = &s->sim.links[i];
        bytes += l->forward_bytes + l->backward_bytes;
        if (most == NULL || l->busy > most->busy ||
            (l->busy == most->busy &&
             l->forward_bytes + l->backward_bytes > most->forward_bytes + most->backward_bytes))
            most = l;
    }
    if (most == NULL || bytes == 0)
        return;
    wf_text_addf(out, "bytes             %.6g in all; busiest link %u to %u: %.6g", bytes,
                 most->from, most->to, most->forward_bytes + most->backward_bytes);
    if (s->sim.metrics.makespan > 0 && most->busy > 0)
        wf_text_addf(out, ", %.1f%% of the time", 100 * most->busy / s->sim.metrics.makespan);
    wf_text_addc(out, '\n');
}

static void say_samples(struct wf_text *out, const struct simulation *s)
{
    uint32_t worst = 0;
    for (uint32_t r = 1; r < s->sim.metrics.n_ranks; r++)
        if (s->samples.slow_rank[r] > s->samples.slow_rank[worst])
            worst = r;
    wf_text_addf(out,
                 "samples           %zu: p5 %.6g, p50 %.6g, p95 %.6g; rank %u costs most when "
                 "slow: 10%% there add %.3g\n",
                 s->samples.n, s->samples.p5, s->samples.p50, s->samples.p95, worst,
                 (double)s->samples.slow_rank[worst]);
}

static enum weft_status print_text(FILE *out, const struct simulation *s,
                                   const struct simulate_settings *in, struct weft_error *err)
{
    struct wf_text text = {0};
    struct wf_plan plan = s->plan; /* with the times of this run */
    plan.metrics = s->sim.metrics;
    wf_plan_print_text(&text, &plan, in->plan.schedule,
                       wf_style_for(out, in->plan.color, in->plan.width));
    say_idle(&text, s);
    say_links(&text, s);
    if (s->bounds.makespan > 0)
        wf_text_addf(
            &text,
            "bound             %.10g: the makespan is at most %.1f%% above the optimum "
            "for this memory\n",
            s->bounds.makespan, 100 * weft_gap(s->sim.metrics.makespan, s->bounds.makespan));
    if (s->traffic != NULL)
        wf_traffic_print_text(&text, &s->traffic_report);
    if (s->sampled)
        say_samples(&text, s);
    bool failed = text.failed;
    if (!failed)
        fwrite(text.at, 1, text.len, out);
    wf_text_release(&text);
    return failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory to draw") : WEFT_OK;
}

/* The run as a picture or as a trace file. */
static enum weft_status draw(FILE *out, enum weft_draw_format format,
                             const struct simulation *s, const struct simulate_settings *in,
                             struct weft_error *err)
{
    struct weft_trace t;
    const struct weft_draw_options how = {.width = in->plan.width};
    WEFT_TRY(weft_trace_init_plan(&t, s->plan.schedule, &s->sim.metrics, &s->plan.memory, err));
    if (s->options.cluster != NULL)
        t.unit_seconds = s->options.unit_seconds;
    enum weft_status st = weft_render(out, format, &t, 1, &how, err);
    weft_trace_release(&t);
    return st;
}

static enum weft_status print_all(const struct simulation *s,
                                  const struct simulate_settings *in, struct weft_error *err)
{
    enum weft_draw_format format = WEFT_DRAW_FORMAT_TEXT;
    const char *path = in->plan.output;
    bool chrome = path != NULL && wf_path_ends_in(path, ".trace.json");
    bool drawn = path != NULL && weft_draw_format_from_path(path, &format) &&
                 format != WEFT_DRAW_FORMAT_TEXT &&
                 (format != WEFT_DRAW_FORMAT_CHROME || chrome);
    bool json = in->json || (format == WEFT_DRAW_FORMAT_CHROME && !drawn);
    if (drawn && in->json)
        return WEFT_FAIL(err, WEFT_USAGE, "--output %.160s is a picture: leave out --json",
                         path);
    struct wf_output sink;
    WEFT_TRY(wf_output_open(&sink, path, err));
    enum weft_status st = WEFT_OK;
    if (drawn && !in->json)
        st = draw(sink.out, format, s, in, err);
    else if (json)
        print_json(sink.out, s);
    else
        st = print_text(sink.out, s, in, err);
    return wf_output_close(&sink, st, err);
}

static enum weft_status run_simulate(int argc, char **argv, struct weft_error *err)
{
    struct simulate_settings in = {0};
    struct simulation s = {0};
    const char *none = NULL;
    WEFT_TRY(wf_command_parse(&wf_command_simulate, argc, argv, &in, &none, err));
    bool reference = in.cache_model != NULL && strcmp(in.cache_model, "reference") == 0;
    if (!reference &&
        (in.communication != NULL || in.cache != NULL || in.layers_per_block != 0))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--communication, --cache and --layers-per-block go with "
                         "--cache-model reference");
    if (!in.json)
        WEFT_TRY(
            wf_output_check(in.plan.output, ".json .txt .svg .png .pdf .html .trace", err));
    s.from_model = in.plan.model != NULL;
    enum weft_status st = wf_plan_make(&s.plan, &in.plan, err);
    if (st == WEFT_OK && reference) {
        st = run_reference(&s.plan, &in, err);
        simulation_release(&s);
        return st;
    }
    if (st == WEFT_OK)
        st = parse_options(&s, &in, err);
    if (st == WEFT_OK)
        st = weft_sim_init(&s.sim, s.plan.schedule, &s.options, err);
    if (st == WEFT_OK)
        st = find_bounds(&s, err);
    if (st == WEFT_OK)
        st = count_blocks(&s, &in, err);
    if (st == WEFT_OK)
        st = run_samples(&s, &in, err);
    if (st == WEFT_OK)
        st = print_all(&s, &in, err);
    simulation_release(&s);
    return st;
}

const struct wf_command wf_command_simulate = {
    .name = "simulate",
    .summary = "time a schedule on a cluster: links, unequal ranks, times that vary",
    .text =
        "Runs a schedule in simulated time. Hops between ranks take what the cluster line says\n"
        "(latency, and bytes over bandwidth), ranks may differ in speed, and with --samples\n"
        "many scenarios run whose times vary. Shows where the idle time comes from: warm-up and\n"
        "drain, waiting for others to compute, for messages under way, and having less to do\n"
        "than the busiest rank; the critical path; and what each link carries.\n"
        "\n"
        "A transfer delays what it carries; with --transfers link the next one on the same\n"
        "link waits for it; with ranks it also keeps the sender busy after its action and the\n"
        "receiver before its own.\n"
        "\n"
        "With --residual-block-layers the model has block attention residuals: every stage also\n"
        "reads all finished blocks, and a static table says which of them each hop carries.\n"
        "--cache-model reference is the count of another system, for comparison. It leaves out\n"
        "that the list of finished blocks grows from stage to stage. With its cache on it also\n"
        "leaves out the gradients that must travel back.\n",
    .examples = "  weft simulate -s 1f1b -p 8 -m 32 -c F=10,I=10,W=10 --bytes 16e6 \\\n"
                "      --cluster 'node:2 rank:4 intra:200GB/s,2us inter:25GB/s,8us'\n"
                "  weft simulate -s zb-h1 -p 8 -m 32 --samples 10000 --jitter lognormal:0.05\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_simulate,
};
