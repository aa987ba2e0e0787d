/* Writes a comparison as a table. */
#include <stdio.h>
#include <string.h>

#include "planning/planner/comparison.h"
#include "planning/planner/plan_text.h"

/* Prints an amount of memory in the unit of the comparison. */
static const char *memory_text(char out[WF_NUMBER_CHARS], const struct wf_comparison *c,
                               double amount)
{
    if (strcmp(c->memory_unit, "bytes") == 0)
        return wf_bytes_print(out, amount, WF_BYTES_DECIMAL);
    snprintf(out, WF_NUMBER_CHARS, "%.4g", amount);
    return out;
}

void wf_comparison_write_text(struct wf_text *out, const struct wf_comparison *c, bool bytes)
{
    char unit[24], times[2][40], text[WF_NUMBER_CHARS];
    snprintf(unit, sizeof unit, "(%s)", wf_plan_axis(c->time));
    snprintf(times[0], sizeof times[0], "time %s", unit);
    snprintf(times[1], sizeof times[1], "span %s", unit);
    wf_text_addf(
        out,
        "%u ranks, %u micros, every rank has the same share of the model; * Pareto-optimal in "
        "time, memory and copies\ntimes are in %s, memory is in %s\n\n"
        "  %-17s %6s %12s %7s %12s %7s %8s %6s %8s %7s%s\n",
        c->ranks, c->micros, c->time.name, c->memory_unit, "schedule", "chunks", times[0],
        "bubble", times[1], "bubble", "memory", "copies", "messages", "gap",
        bytes ? "     bytes" : "");
    for (size_t i = 0; i < c->n; i++) {
        const struct wf_comparison_row *row = &c->at[i];
        wf_text_addf(out, "%c %-17s %6u %12.6g %6.1f%% %12.6g %6.1f%% %8s %6u %8zu %6.1f%%",
                     row->is_pareto ? '*' : ' ', row->generator->name, row->chunks,
                     row->makespan, 100 * row->bubble, row->span, 100 * row->bubble_span,
                     memory_text(text, c, row->peak), row->copies, row->messages,
                     100 * row->gap);
        if (bytes)
            wf_text_addf(out, " %9s", wf_bytes_print(text, row->bytes, WF_BYTES_DECIMAL));
        wf_text_addc(out, '\n');
    }
    for (size_t i = 0; i < c->n_omitted; i++)
        wf_text_addf(out, "%s  %-17s %6u  %s\n", i == 0 ? "\nomitted\n" : "",
                     c->omitted[i].generator->name, c->omitted[i].chunks, c->omitted[i].reason);
}
