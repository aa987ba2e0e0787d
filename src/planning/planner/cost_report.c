/* Prints measured costs and their spread as text and JSON. */
#include "planning/planner/cost_report.h"

#include "base/error.h"

struct kind_row {
    const char *name;
    const struct weft_spread *at; /* borrowed: (stages) */
};

enum { N_KINDS = 5 };

static void list_kinds(const struct weft_cost_spread *s, struct kind_row out[N_KINDS])
{
    const struct kind_row rows[N_KINDS] = {
        {"F", s->f}, {"I", s->i}, {"W", s->w}, {"B", s->b}, {"FB", s->fb}};
    for (int k = 0; k < N_KINDS; k++)
        out[k] = rows[k];
}

static void put_spread(struct wf_text *out, const struct weft_spread *s, double factor)
{
    wf_text_addf(out, " %6zu %10.5g %10.5g %10.5g %10.5g\n", s->n, s->mean * factor,
                 s->min * factor, s->median * factor, s->max * factor);
}

void wf_cost_spread_print(struct wf_text *out, const struct weft_cost_spread *s,
                          double unit_seconds)
{
    double factor = unit_seconds > 0 ? unit_seconds * 1e3 : 1;
    struct kind_row kinds[N_KINDS];
    list_kinds(s, kinds);
    wf_text_addf(out, "costs    %s\n  %-8s %-4s %6s %10s %10s %10s %10s\n",
                 unit_seconds > 0 ? "in milliseconds" : "in units of time", "stage", "kind",
                 "n", "mean", "min", "median", "max");
    for (uint32_t stage = 0; stage < s->n_stages; stage++)
        for (int k = 0; k < N_KINDS; k++) {
            if (kinds[k].at[stage].n == 0)
                continue;
            wf_text_addf(out, "  %-8u %-4s", stage, kinds[k].name);
            put_spread(out, &kinds[k].at[stage], factor);
        }
    if (s->hop.n > 0) {
        wf_text_addf(out, "  %-8s %-4s", "hop", "C");
        put_spread(out, &s->hop, factor);
    }
}

static void write_spread(struct wf_json *j, const char *key, const struct weft_spread *s)
{
    wf_json_begin(j, key, '{');
    wf_json_uint(j, "n", s->n);
    wf_json_number(j, "mean", s->mean);
    wf_json_number(j, "min", s->min);
    wf_json_number(j, "median", s->median);
    wf_json_number(j, "max", s->max);
    wf_json_end(j, '}');
}

void wf_cost_spread_write_json(struct wf_json *j, const struct weft_cost_spread *s)
{
    struct kind_row kinds[N_KINDS];
    list_kinds(s, kinds);
    wf_json_begin(j, "costs", '[');
    for (uint32_t stage = 0; stage < s->n_stages; stage++) {
        wf_json_begin(j, NULL, '{');
        for (int k = 0; k < N_KINDS; k++)
            if (kinds[k].at[stage].n > 0)
                write_spread(j, kinds[k].name, &kinds[k].at[stage]);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
    if (s->hop.n > 0)
        write_spread(j, "hop", &s->hop);
}
