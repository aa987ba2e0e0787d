/* Parses any bytes as a schedule.  Checks that an accepted schedule is unchanged after printing
 * and parsing, and that a correct one can be lowered and timed.  The mutator edits the actions of
 * an accepted schedule, or generates another one. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "mutate.h"
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

/* -- the mutator --------------------------------------------------------------------------- */

enum { MAX_ROWS = 16, MAX_ACTIONS = 512 };

/* The rows of a schedule.  A pair is two actions, of which the first is marked. */
struct rows {
    struct weft_action at[MAX_ROWS][MAX_ACTIONS];
    size_t len[MAX_ROWS];
    size_t n;
};

static bool copy_rows(const struct weft_schedule *s, struct rows *out)
{
    out->n = weft_schedule_placement(s)->n_ranks;
    if (out->n > MAX_ROWS)
        return false;
    for (size_t i = 0; i < out->n; i++) {
        struct weft_action_span row = weft_schedule_rank(s, (uint32_t)i);
        if (row.len > MAX_ACTIONS)
            return false;
        memcpy(out->at[i], row.at, row.len * sizeof *row.at);
        out->len[i] = row.len;
    }
    return true;
}

/* Returns a small schedule of any generator, or NULL if the generator does not support the sizes.
 * Schedules are kept, because some generators search. */
static const struct weft_schedule *generate(struct random_numbers *r)
{
    enum { MAX_GENERATORS = 64, N_SIZES = 3 };
    static const struct weft_gen_params sizes[N_SIZES] = {
        {.ranks = 1, .micros = 2}, {.ranks = 2, .micros = 4}, {.ranks = 3, .micros = 5}};
    static struct weft_schedule *made[MAX_GENERATORS][N_SIZES];
    static bool tried[MAX_GENERATORS][N_SIZES];
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    require(n <= MAX_GENERATORS);
    uint32_t i = random_below(r, (uint32_t)n), k = random_below(r, N_SIZES);
    if (!tried[i][k])
        weft_schedule_generate(all[i].name, &sizes[k], &made[i][k], NULL);
    tried[i][k] = true;
    return made[i][k];
}

/* Takes the rows of a generated schedule, sometimes with messages. */
static bool generate_rows(struct random_numbers *r, struct rows *out)
{
    struct weft_schedule *lowered = NULL;
    const struct weft_schedule *s = generate(r);
    uint32_t how = random_below(r, 2 * WEFT_N_LOWERINGS);
    if (s != NULL && how < WEFT_N_LOWERINGS)
        weft_schedule_lower(s, (enum weft_lowering)how, &lowered, NULL);
    bool ok = s != NULL && copy_rows(lowered != NULL ? lowered : s, out);
    weft_schedule_free(lowered);
    return ok;
}

/* Inserts an action at a random place. */
static void insert(struct rows *rows, size_t row, struct weft_action a,
                   struct random_numbers *r)
{
    size_t n = rows->len[row], at = random_below(r, (uint32_t)n + 1);
    if (n == MAX_ACTIONS)
        return;
    memmove(&rows->at[row][at + 1], &rows->at[row][at], (n - at) * sizeof a);
    rows->at[row][at] = a;
    rows->len[row]++;
}

static void edit_rows(struct rows *rows, struct random_numbers *r)
{
    size_t row = random_below(r, (uint32_t)rows->n), other = random_below(r, (uint32_t)rows->n);
    if (rows->len[row] == 0)
        return;
    size_t at = random_below(r, (uint32_t)rows->len[row]);
    struct weft_action *a = &rows->at[row][at], copy = *a;

    switch (random_below(r, 9)) {
    case 0: /* exchange neighbours */
        if (at + 1 < rows->len[row]) {
            *a = a[1];
            a[1] = copy;
        }
        break;
    case 1: /* move */
    case 2: /* remove */
        memmove(a, a + 1, (rows->len[row] - at - 1) * sizeof *a);
        rows->len[row]--;
        if (random_below(r, 2) == 0)
            insert(rows, other, copy, r);
        break;
    case 3:
        insert(rows, other, copy, r);
        break;
    case 4:
        a->kind = random_below(r, WEFT_N_ACT_KINDS) & 0x7f;
        break;
    case 5:
        a->stage = random_below(r, 8) & 0x7fff;
        break;
    case 6:
        a->micro = random_below(r, 8);
        break;
    case 7:
        a->paired = !a->paired;
        break;
    case 8: /* another rank */
        if (rows->n < MAX_ROWS) {
            memcpy(rows->at[rows->n], rows->at[row], sizeof rows->at[row]);
            rows->len[rows->n++] = rows->len[row];
        }
        break;
    }
}

static void add_action(struct wf_text *out, struct weft_action a)
{
    wf_text_addf(out, "%u%s", (unsigned)a.stage, weft_act_name(a.kind));
    if (weft_act_has_micro(a.kind))
        wf_text_addf(out, "%u", (unsigned)a.micro);
}

static void print_rows(const struct rows *rows, struct wf_text *out)
{
    for (size_t i = 0; i < rows->n; i++) {
        for (size_t k = 0; k < rows->len[i]; k++) {
            bool pair = rows->at[i][k].paired && k + 1 < rows->len[i];
            wf_text_adds(out, k > 0 ? "," : "");
            wf_text_adds(out, pair ? "(" : "");
            add_action(out, rows->at[i][k]);
            if (pair) {
                wf_text_addc(out, ';');
                add_action(out, rows->at[i][++k]);
                wf_text_adds(out, ")OVERLAP_F_B");
            }
        }
        wf_text_addc(out, '\n');
    }
}

/* Prints a header with the sizes of the rows. */
static void print_sizes(const struct rows *rows, struct wf_text *out)
{
    uint32_t stages = 1, micros = 1;
    for (size_t i = 0; i < rows->n; i++)
        for (size_t k = 0; k < rows->len[i]; k++) {
            struct weft_action a = rows->at[i][k];
            stages = a.stage >= stages ? a.stage + 1u : stages;
            micros = weft_act_has_micro(a.kind) && a.micro >= micros ? a.micro + 1 : micros;
        }
    wf_text_addf(out, "# weft schedule 1\n# weft ranks %zu stages %u micros %u\n", rows->n,
                 stages, micros);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static struct rows rows;
    struct random_numbers r = {seed, 0};
    struct weft_schedule *s = NULL;
    struct wf_text text = {0};
    size_t n = 0;

    uint32_t how = random_below(&r, 16);
    bool ok = how == 1 && generate_rows(&r, &rows);
    if (how > 1 && weft_schedule_parse((char *)data, size, "", &s, NULL) == WEFT_OK)
        ok = copy_rows(s, &rows);
    weft_schedule_free(s);
    if (!ok)
        return LLVMFuzzerMutate(data, size, max_size);

    for (uint32_t i = random_below(&r, 4) + (how > 1); i > 0; i--)
        edit_rows(&rows, &r);
    if (random_below(&r, 2) == 0)
        print_sizes(&rows, &text);
    print_rows(&rows, &text);
    if (!text.failed)
        n = put_text(data, max_size, text.at, text.len);
    wf_text_release(&text);
    return n > 0 ? n : LLVMFuzzerMutate(data, size, max_size);
}
