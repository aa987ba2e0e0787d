/* The text form: printing, and the pieces that the parser shares with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "planning/sched/schedule_priv.h"
#include "planning/sched/text_priv.h"

size_t weft_action_print(struct weft_action a, char out[WEFT_ACTION_TEXT])
{
    int n;
    if (a.kind == WEFT_ACT_IDLE)
        n = snprintf(out, WEFT_ACTION_TEXT, "%s", "");
    else if (weft_kind_has_micro(a.kind))
        n = snprintf(out, WEFT_ACTION_TEXT, "%u%s%u", (unsigned)a.stage, weft_kind_name(a.kind),
                     a.micro);
    else
        n = snprintf(out, WEFT_ACTION_TEXT, "%u%s", (unsigned)a.stage, weft_kind_name(a.kind));
    return (size_t)n;
}

/* The same without the printf machinery: rows have millions of cells. */
static void add_action(struct weft_text *t, struct weft_action a)
{
    if (a.kind == WEFT_ACT_IDLE)
        return;
    weft_text_addu(t, a.stage);
    weft_text_adds(t, weft_kind_name(a.kind));
    if (weft_kind_has_micro(a.kind))
        weft_text_addu(t, a.micro);
}

static void add_row(struct weft_text *t, struct weft_action_span row, const char *separator)
{
    for (size_t i = 0; i < row.len; i++) {
        if (i > 0)
            weft_text_adds(t, separator);
        if (!row.at[i].paired) {
            add_action(t, row.at[i]);
            continue;
        }
        weft_text_addc(t, '(');
        add_action(t, row.at[i]);
        weft_text_addc(t, ';');
        add_action(t, row.at[++i]);
        weft_text_adds(t, ")" WEFT_OVERLAP_WORD);
    }
}

static void add_header(struct weft_text *t, const struct weft_schedule *s)
{
    const struct weft_placement *p = &s->place;
    weft_text_addf(t, "# weft schedule %d\n", WEFT_TEXT_VERSION);
    if (s->name[0] != '\0')
        weft_text_addf(t, "# weft name %s\n", s->name);
    weft_text_addf(t, "# weft ranks %u stages %u micros %u\n", p->n_ranks, p->n_stages,
                   p->n_micros);
    for (uint32_t pipe = 0; pipe < p->n_pipes; pipe++) {
        weft_text_adds(t, "# weft placement");
        for (uint32_t i = 0; i < p->n_stages; i++)
            weft_text_addf(t, " %u", s->rank_of[(size_t)pipe * p->n_stages + i]);
        weft_text_addc(t, '\n');
    }
}

static enum weft_status hand_over(struct weft_text *t, char **out, size_t *len,
                                  struct weft_error *err)
{
    weft_text_addc(t, '\0'); /* so that an empty text is a string too */
    if (t->failed) {
        weft_text_release(t);
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
    struct weft_text t = {0};
    add_row(&t, weft_schedule_rank(s, rank), separator);
    return hand_over(&t, out, NULL, err);
}

enum weft_status weft_schedule_print(const struct weft_schedule *s,
                                     enum weft_text_format format, char **out, size_t *len,
                                     struct weft_error *err)
{
    struct weft_text t = {0};
    if (format == WEFT_TEXT_CSV)
        add_header(&t, s);
    for (uint32_t r = 0; r < s->place.n_ranks; r++) {
        add_row(&t, weft_schedule_rank(s, r), ",");
        weft_text_addc(&t, '\n');
    }
    return hand_over(&t, out, len, err);
}
