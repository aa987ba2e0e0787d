/* Parses any bytes as a schedule.  Checks that an accepted schedule is unchanged after printing
 * and parsing, and that a correct one can be lowered and timed. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "require.h"
#include "weft/timing.h"
#include "weft/verify.h"

static int same(const struct weft_schedule *a, const struct weft_schedule *b)
{
    const struct weft_placement *p = weft_schedule_placement(a),
                                *q = weft_schedule_placement(b);
    if (p->n_ranks != q->n_ranks || p->n_stages != q->n_stages || p->n_micros != q->n_micros ||
        p->n_pipes != q->n_pipes || strcmp(weft_schedule_name(a), weft_schedule_name(b)) != 0)
        return 0;
    for (size_t i = 0; i < (size_t)p->n_pipes * p->n_stages; i++)
        if (p->rank_of[i] != q->rank_of[i])
            return 0;
    for (uint32_t m = 0; m < p->n_micros; m++)
        if (weft_placement_pipe(p, m) != weft_placement_pipe(q, m))
            return 0;
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        struct weft_action_span x = weft_schedule_rank(a, r), y = weft_schedule_rank(b, r);
        if (x.len != y.len || memcmp(x.at, y.at, x.len * sizeof *x.at) != 0)
            return 0;
    }
    return 1;
}

/* Checks that a schedule is unchanged after printing and parsing. */
static void check_text(const struct weft_schedule *s)
{
    char *text = NULL;
    size_t len = 0;
    struct weft_schedule *again = NULL;
    require(weft_schedule_print(s, WEFT_TEXT_FORMAT_CSV, &text, &len, NULL) == WEFT_OK);
    require(weft_schedule_parse(text, len, "again", &again, NULL) == WEFT_OK);
    require(same(s, again));
    weft_schedule_free(again);
    free(text);
    require(weft_schedule_print(s, WEFT_TEXT_FORMAT_PYTORCH, &text, &len, NULL) == WEFT_OK);
    free(text);
}

static int is_right(const struct weft_schedule *s, const struct weft_channel_model *transport)
{
    struct weft_verify_result r;
    require(weft_verify(s, transport, &r, NULL) == WEFT_OK);
    int right = r.n_findings == 0;
    for (size_t i = 0; i < r.n_findings && i < WEFT_MAX_FINDINGS; i++)
        require(!r.findings[i].has_position ||
                r.findings[i].position <= weft_schedule_rank(s, r.findings[i].rank).len);
    for (size_t i = 0; i < r.n_cycle; i++)
        require(r.cycle[i].for_rank == r.cycle[(i + 1) % r.n_cycle].rank);
    weft_verify_result_release(&r);
    return right;
}

static void check_timing(const struct weft_schedule *s)
{
    struct weft_metrics m;
    require(weft_metrics_init(&m, s, NULL, NULL, NULL) == WEFT_OK);
    require(m.span <= m.makespan && m.bubble >= 0);
    weft_metrics_release(&m);
}

static void check_lowering(const struct weft_schedule *s, enum weft_lowering how, int right)
{
    struct weft_schedule *lowered = NULL;
    enum weft_status st = weft_schedule_lower(s, how, &lowered, NULL);
    require(st == WEFT_OK || (st == WEFT_SCHEDULE && !right));
    if (right)
        require(is_right(lowered, NULL));
    weft_schedule_free(lowered);
}

static void check_schedule(const struct weft_schedule *s)
{
    static const struct weft_channel_model blocking[] = {
        {.depth = 0}, {.depth = 1}, {.depth = 0, .by_pair = true}};
    int right = is_right(s, NULL);
    for (size_t i = 0; i < sizeof blocking / sizeof blocking[0]; i++)
        require(!is_right(s, &blocking[i]) || right); /* deeper channels never cause an error */
    if (right)
        check_timing(s);
    if (weft_schedule_is_lowered(s))
        return;
    bool several_pipes = weft_schedule_placement(s)->n_pipes > 1;
    for (int how = 0; how < WEFT_N_LOWERINGS; how++)
        check_lowering(s, how, right && !(several_pipes && how != WEFT_LOWERING_WEFT));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_schedule *s = NULL;
    struct weft_error err = {.msg = ""};
    enum weft_status st = weft_schedule_parse((const char *)data, size, "fuzz", &s, &err);
    if (st != WEFT_OK) {
        require(s == NULL && st == WEFT_SCHEDULE && err.status == st && err.msg[0] != '\0');
        return 0;
    }
    check_text(s);
    check_schedule(s);
    weft_schedule_free(s);
    return 0;
}
