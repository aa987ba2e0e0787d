/* weft simulate: simulates a plan on a cluster and prints the causes of idle time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/plan_options.h"
#include "config/values.h"
#include "planning/planner/reference_report.h"
#include "planning/planner/simulation.h"

struct simulate_settings {
    struct wf_plan_settings plan; /* must be the first field: the shared options write to it */
    const char *jitter;
    uint32_t samples;
    const char *cache_model, *communication, *cache, *payload, *gradient_payload, *block_cache;
    uint32_t layers_per_block, block_layers;
};

#define AT(field) offsetof(struct simulate_settings, field)

static const struct wf_option options[] = {
    WF_OPTIONS_SCHEDULE,
    WF_OPTIONS_COST,
    WF_OPTION_MINIMIZE,
    WF_OPTIONS_MODEL,
    WF_OPTIONS_CLUSTER,
    {NULL, 0, WF_OPTION_HEADING, NULL, "Variation", NULL, 0},
    {"samples", 0, WF_OPTION_COUNT, "N", "also run N scenarios with varied times", NULL,
     AT(samples)},
    {"jitter", 0, WF_OPTION_TEXT, "lognormal:S",
     "distribution of the times (default: lognormal:0.05)", NULL, AT(jitter)},
    {NULL, 0, WF_OPTION_HEADING, NULL, "Block attention residuals", NULL, 0},
    {"residual-block-layers", 0, WF_OPTION_COUNT, "K",
     "count the traffic of blocks of K layers between ranks", NULL, AT(block_layers)},
    {"residual-cache", 0, WF_OPTION_CHOICE, "WHAT",
     "residual blocks that ranks cache (default: full)", "off|received|full", AT(block_cache)},
    {"payload-bytes", 0, WF_OPTION_BYTES, "B",
     "bytes of a block, an activation or its gradient", NULL, AT(payload)},
    {"gradient-payload-bytes", 0, WF_OPTION_BYTES, "B",
     "bytes of a block's gradient (default: as --payload-bytes)", NULL, AT(gradient_payload)},
    {"cache-model", 0, WF_OPTION_CHOICE, "WHOSE",
     "exact (default), or only the count of the reference system burn_dragon",
     "exact|reference", AT(cache_model)},
    {"communication", 0, WF_OPTION_CHOICE, "MODE", "reference: contents of messages",
     "activation_tensor|block_residual_cache", AT(communication)},
    {"cache", 0, WF_OPTION_TEXT, "enabled=1,..",
     "reference: also policy=resident_block_summaries, reuse=1, inflight=8", NULL, AT(cache)},
    {"layers-per-block", 0, WF_OPTION_COUNT, "K", "reference: layers per block", NULL,
     AT(layers_per_block)},
    {NULL, 0, WF_OPTION_HEADING, NULL, "Output", NULL, 0},
    WF_OPTION_JSON,
    {"output", 'o', WF_OPTION_TEXT, "FILE",
     "write to FILE: .json, .trace (events), or .svg .png .pdf .html .trace.json (pictures)",
     NULL, WF_PLAN_AT(output)},
    WF_OPTIONS_DRAWING,
};

/* -- options -------------------------------------------------------------------------------- */

static enum weft_status check_options(const struct simulate_settings *in, bool reference,
                                      struct weft_error *err)
{
    if (!reference &&
        (in->communication != NULL || in->cache != NULL || in->layers_per_block != 0))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--communication, --cache and --layers-per-block need --cache-model "
                         "reference");
    if (reference && (in->layers_per_block == 0 || in->payload == NULL))
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "--cache-model reference needs --layers-per-block K and --payload-bytes B");
    if (!reference && in->block_layers == 0 &&
        (in->block_cache != NULL || in->gradient_payload != NULL || in->payload != NULL))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--residual-cache and payloads need --residual-block-layers K");
    if (in->jitter != NULL && in->samples == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "--jitter needs --samples N");
    return WEFT_OK;
}

/* Parses a whole number of bytes.  If `text` is NULL, the result is `otherwise`. */
static enum weft_status parse_bytes(const char *text, const char *what, size_t otherwise,
                                    size_t *out, struct weft_error *err)
{
    double value = (double)otherwise;
    WEFT_TRY(wf_value_parse(text, what, WF_QUANTITY_BYTES, 1e18, &value, err));
    if (value != floor(value))
        return WEFT_FAIL(err, WEFT_USAGE, "%s: expected one whole number", what);
    *out = text == NULL ? otherwise : (size_t)value;
    return WEFT_OK;
}

/* Parses jitter such as "lognormal:0.05" and stores its sigma. */
static enum weft_status parse_jitter(const char *text, double *sigma, struct weft_error *err)
{
    static const char name[] = "lognormal:";
    char *end = NULL;
    *sigma = 0.05;
    if (text == NULL)
        return WEFT_OK;
    bool named = strncmp(text, name, sizeof name - 1) == 0;
    const char *number = text + sizeof name - 1;
    if (named)
        *sigma = strtod(number, &end);
    if (!named || *end != '\0' || end == number)
        return WEFT_FAIL(err, WEFT_USAGE, "--jitter: '%.40s' is not of the form lognormal:0.05",
                         text);
    return WEFT_OK;
}

/* Reads the input of the simulation, which borrows the machine. */
static enum weft_status read_input(const struct simulate_settings *in,
                                   const struct weft_sim_options *machine,
                                   struct wf_simulation_input *out, struct weft_error *err)
{
    out->options = *machine;
    out->n_samples = in->samples;
    out->jitter.seed = 1;
    out->block_layers = in->block_layers;
    WEFT_TRY(parse_jitter(in->jitter, &out->jitter.sigma, err));
    WEFT_TRY(wf_block_cache_parse(in->block_cache, &out->block_cache, err));
    WEFT_TRY(parse_bytes(in->payload, "--payload-bytes", 1, &out->payload.bytes, err));
    return parse_bytes(in->gradient_payload, "--gradient-payload-bytes", out->payload.bytes,
                       &out->payload.gradient_bytes, err);
}

/* -- output --------------------------------------------------------------------------------- */

static enum weft_status print_reference(const struct weft_ref_traffic *c, const char *path,
                                        struct wf_form form, struct weft_error *err)
{
    struct wf_output sink;
    struct wf_text text = {0};
    WEFT_TRY(wf_output_open(&sink, path, err));
    enum weft_status st = WEFT_OK;
    if (form.kind == WF_FORM_JSON) {
        wf_ref_traffic_write_json(&(struct wf_json){.out = sink.out}, NULL, c);
        fputc('\n', sink.out);
    } else {
        wf_ref_traffic_write_text(&text, c);
        st = wf_text_flush(&text, sink.out, err);
    }
    return wf_output_close(&sink, st, err);
}

/* Prints only the traffic counts of the reference system. */
static enum weft_status run_reference(const struct wf_plan *p,
                                      const struct simulate_settings *in, struct wf_form form,
                                      struct weft_error *err)
{
    struct weft_ref_traffic_settings settings = {.layers_per_block = in->layers_per_block};
    struct weft_ref_traffic c = {0};
    if (in->communication != NULL && strcmp(in->communication, "block_residual_cache") == 0)
        settings.mode = WEFT_REF_TRAFFIC_BLOCK_RESIDUAL_CACHE;
    WEFT_TRY(wf_cache_settings_parse(in->cache, &settings.cache, err));
    WEFT_TRY(parse_bytes(in->payload, "--payload-bytes", 0, &settings.payload_bytes, err));
    WEFT_TRY(weft_ref_traffic_compute(p->schedule, &p->partition, &settings, &c, err));
    enum weft_status st = print_reference(&c, in->plan.output, form, err);
    weft_ref_traffic_release(&c);
    return st;
}

static enum weft_status print_all(const struct wf_simulation *s, const struct wf_plan *plan,
                                  const struct simulate_settings *in, struct wf_form form,
                                  struct weft_error *err)
{
    struct wf_plan timed = *plan; /* the plan with the times of the simulation */
    struct wf_output sink;
    struct wf_text text = {0};
    WEFT_TRY(wf_output_open(&sink, in->plan.output, err));
    enum weft_status st = WEFT_OK;
    switch (form.kind) {
    case WF_FORM_PICTURE:
        st = wf_plan_draw(sink.out, form.picture, plan, &s->sim.metrics, in->plan.width, err);
        break;
    case WF_FORM_JSON:
        wf_simulation_write_json(&(struct wf_json){.out = sink.out}, s, plan);
        fputc('\n', sink.out);
        break;
    case WF_FORM_TEXT:
    case WF_FORM_CSV:
        timed.metrics = s->sim.metrics;
        wf_plan_print_text(&text, &timed, in->plan.schedule,
                           wf_style_for(sink.out, in->plan.color, in->plan.width));
        wf_simulation_write_text(&text, s, plan);
        st = wf_text_flush(&text, sink.out, err);
        break;
    }
    return wf_output_close(&sink, st, err);
}

static enum weft_status simulate(const struct wf_plan *plan, const struct simulate_settings *in,
                                 const struct weft_sim_options *machine, struct wf_form form,
                                 struct weft_error *err)
{
    struct wf_simulation_input input = {0};
    struct wf_simulation s;
    WEFT_TRY(read_input(in, machine, &input, err));
    WEFT_TRY(wf_simulation_init(&s, plan, &input, err));
    enum weft_status st = print_all(&s, plan, in, form, err);
    wf_simulation_release(&s);
    return st;
}

static enum weft_status run_simulate(int argc, char **argv, struct weft_error *err)
{
    struct simulate_settings in = {0};
    struct wf_plan_request request = {0};
    struct wf_plan plan;
    struct wf_form form;
    const char *none = NULL;
    WEFT_TRY(wf_command_parse(&wf_command_simulate, argc, argv, &in, &none, err));
    bool reference = in.cache_model != NULL && strcmp(in.cache_model, "reference") == 0;
    WEFT_TRY(check_options(&in, reference, err));
    WEFT_TRY(wf_form_choose(&in.plan, ".json .txt .svg .png .pdf .html .trace", &form, err));
    enum weft_status st = wf_plan_request_init(&request, &in.plan, err);
    if (st == WEFT_OK)
        st = wf_plan_make(&plan, &in.plan, &request, err);
    if (st == WEFT_OK) {
        st = reference ? run_reference(&plan, &in, form, err)
                       : simulate(&plan, &in, &request.machine, form, err);
        wf_plan_release(&plan);
    }
    wf_plan_request_release(&request);
    return st;
}

const struct wf_command wf_command_simulate = {
    .name = "simulate",
    .summary = "simulate a schedule on a cluster with link delays, slow ranks and jitter",
    .text =
        "Runs a schedule in simulated time. A hop between ranks takes the latency of the link\n"
        "plus bytes over bandwidth, ranks may differ in speed, and --samples runs scenarios\n"
        "with varied times. Reports the causes of idle time (warm-up and drain, waiting for\n"
        "data of other ranks, waiting for messages, and less work than the busiest rank), the\n"
        "critical path, and the load of each link.\n"
        "\n"
        "A transfer delays its message. With --transfers link it also occupies the link: the\n"
        "next transfer waits. With --transfers ranks it also occupies the sender after its\n"
        "action and the receiver before its action.\n"
        "\n"
        "With --residual-block-layers the model has block attention residuals: every stage also\n"
        "reads all finished blocks, and a static table lists the blocks that each hop carries.\n"
        "--cache-model reference prints the bytes as the system burn_dragon counts them, for\n"
        "comparison. That count ignores that the list of finished blocks grows from stage to\n"
        "stage. With the cache of that system enabled, it also ignores the gradients that are\n"
        "sent back.\n",
    .examples = "  weft simulate -s 1f1b -p 8 -m 32 -c F=10,I=10,W=10 --bytes 16MB \\\n"
                "      --cluster 'node:2 rank:4 intra:200GB/s,2us inter:25GB/s,8us'\n"
                "  weft simulate -s zb-h1 -p 8 -m 32 --samples 10000 --jitter lognormal:0.05\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_simulate,
};
