/* Prints actions and schedules in the text form. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "planning/sched/schedule_priv.h"
#include "planning/sched/text_priv.h"

size_t weft_action_print(struct weft_action a, char out[WEFT_ACTION_TEXT_MAX])
{
    int n;
    if (weft_act_has_micro(a.kind))
        n = snprintf(out, WEFT_ACTION_TEXT_MAX, "%u%s%u", (unsigned)a.stage,
                     weft_act_name(a.kind), a.micro);
    else
        n = snprintf(out, WEFT_ACTION_TEXT_MAX, "%u%s", (unsigned)a.stage,
                     weft_act_name(a.kind));
    return (size_t)n;
}

/* Appends the text of weft_action_print().  Does not use snprintf(), which is too slow for
 * schedules with millions of cells. */
static void add_action(struct wf_text *t, struct weft_action a)
{
    wf_text_addu(t, a.stage);
    wf_text_adds(t, weft_act_name(a.kind));
    if (weft_act_has_micro(a.kind))
        wf_text_addu(t, a.micro);
}

static void add_row(struct wf_text *t, struct weft_action_span row, const char *separator)
{
    for (size_t i = 0; i < row.len; i++) {
        if (i > 0)
            wf_text_adds(t, separator);
        if (!row.at[i].paired) {
            add_action(t, row.at[i]);
            continue;
        }
        wf_text_addc(t, '(');
        add_action(t, row.at[i]);
        wf_text_addc(t, ';');
        add_action(t, row.at[++i]);
        wf_text_adds(t, ")" WF_OVERLAP_SUFFIX);
    }
}

static void add_header(struct wf_text *t, const struct weft_schedule *s)
{
    const struct weft_placement *p = &s->place;
    wf_text_addf(t, "# weft schedule %d\n", WF_TEXT_VERSION);
    if (s->name[0] != '\0')
        wf_text_addf(t, "# weft name %s\n", s->name);
    wf_text_addf(t, "# weft ranks %u stages %u micros %u\n", p->n_ranks, p->n_stages,
                 p->n_micros);
    for (uint32_t pipe = 0; pipe < p->n_pipes; pipe++) {
        wf_text_adds(t, "# weft placement");
        for (uint32_t i = 0; i < p->n_stages; i++)
            wf_text_addf(t, " %u", s->rank_of[(size_t)pipe * p->n_stages + i]);
        wf_text_addc(t, '\n');
    }
}

static enum weft_status detach_text(struct wf_text *t, char **out, size_t *len,
                                    struct weft_error *err)
{
    wf_text_addc(t, '\0'); /* terminates the string, even if the text is empty */
    if (t->failed) {
        wf_text_release(t);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to print a schedule");
    }
    *out = t->at;
    if (len != NULL)
        *len = t->len - 1;
    return WEFT_OK;
}

enum weft_status weft_schedule_print_rank(const struct weft_schedule *s, uint32_t rank,
                                          const char *separator, char **out,
                                          struct weft_error *err)
{
    struct wf_text t = {0};
    if (rank >= s->place.n_ranks)
        return WEFT_FAIL(err, WEFT_USAGE, "rank %u is out of range (expected 0 to %u)", rank,
                         s->place.n_ranks - 1);
    add_row(&t, weft_schedule_rank(s, rank), separator);
    return detach_text(&t, out, NULL, err);
}

enum weft_status weft_schedule_print(const struct weft_schedule *s,
                                     enum weft_text_format format, char **out, size_t *len,
                                     struct weft_error *err)
{
    struct wf_text t = {0};
    if (format == WEFT_TEXT_FORMAT_CSV)
        add_header(&t, s);
    for (uint32_t r = 0; r < s->place.n_ranks; r++) {
        add_row(&t, weft_schedule_rank(s, r), ",");
        wf_text_addc(&t, '\n');
    }
    return detach_text(&t, out, len, err);
}
