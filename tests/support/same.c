/* Compares schedules element by element. */
#include "same.h"

#include <stdlib.h>
#include <string.h>

bool same_placement(const struct weft_placement *a, const struct weft_placement *b)
{
    if (a->n_ranks != b->n_ranks || a->n_stages != b->n_stages || a->n_micros != b->n_micros ||
        a->n_pipes != b->n_pipes)
        return false;
    for (size_t i = 0; i < (size_t)a->n_pipes * a->n_stages; i++)
        if (a->rank_of[i] != b->rank_of[i])
            return false;
    for (uint32_t m = 0; m < a->n_micros; m++)
        if (weft_placement_pipe(a, m) != weft_placement_pipe(b, m))
            return false;
    return true;
}

static bool same_action(struct weft_action a, struct weft_action b)
{
    return a.kind == b.kind && a.stage == b.stage && a.micro == b.micro && a.paired == b.paired;
}

bool same_actions(const struct weft_schedule *a, const struct weft_schedule *b)
{
    uint32_t n_ranks = weft_schedule_placement(a)->n_ranks;
    if (n_ranks != weft_schedule_placement(b)->n_ranks)
        return false;
    for (uint32_t r = 0; r < n_ranks; r++) {
        struct weft_action_span x = weft_schedule_rank(a, r), y = weft_schedule_rank(b, r);
        if (x.len != y.len)
            return false;
        for (size_t i = 0; i < x.len; i++)
            if (!same_action(x.at[i], y.at[i]))
                return false;
    }
    return true;
}

bool same_schedule(const struct weft_schedule *a, const struct weft_schedule *b)
{
    return strcmp(weft_schedule_name(a), weft_schedule_name(b)) == 0 && same_actions(a, b) &&
           same_placement(weft_schedule_placement(a), weft_schedule_placement(b));
}

bool roundtrips_text(const struct weft_schedule *s)
{
    char *text = NULL;
    size_t len = 0;
    struct weft_schedule *again = NULL;
    bool same = weft_schedule_print(s, WEFT_TEXT_FORMAT_CSV, &text, &len, NULL) == WEFT_OK &&
                weft_schedule_parse(text, len, "again", &again, NULL) == WEFT_OK &&
                same_schedule(s, again);
    free(text);
    weft_schedule_free(again);
    return same;
}
