/* Prints the layout that parallel.auto chose, and the reason. */
#include <stdio.h>

#include "base/error.h"
#include "base/numbers.h"
#include "base/text.h"
#include "cli/train.h"

enum { MAX_ROWS = 6 };

static void print_times(const struct wf_layout_choice *choice)
{
    printf("auto     measured and compared in %.1f s;", choice->seconds);
    for (size_t i = 0; i < choice->n_profiles; i++) {
        const struct wf_auto_profile *v = &choice->profiles[i];
        printf("%s %.3g + %.3g ms with %u thread%s", i == 0 ? " F + B of one layer:" : ",",
               1e3 * v->layer.f, 1e3 * v->layer.b, v->threads, wf_plural(v->threads));
    }
    printf("\n");
}

/* Returns a time in milliseconds as text: 812.3, 1.240, 20790. */
static const char *ms_text(char out[WF_NUMBER_CHARS], double seconds)
{
    double ms = 1e3 * seconds;
    snprintf(out, WF_NUMBER_CHARS, "%.*f", ms >= 1000 ? 0 : ms >= 10 ? 1 : 3, ms);
    return out;
}

static void print_table(const struct wf_auto_candidate *const *rows, size_t n)
{
    char bytes[WF_NUMBER_CHARS], ms[WF_NUMBER_CHARS];
    printf("           pp   dp  threads  %-18s chunks    ms/step  bubble    bytes/rank"
           "  (predicted from these times)\n",
           "schedule");
    for (size_t i = 0; i < n; i++) {
        const struct wf_auto_candidate *c = rows[i];
        char chunks[16] = "-";
        if (c->chunks != 0)
            snprintf(chunks, sizeof chunks, "%u", c->chunks);
        printf("         %c %2u  %3u  %7u  %-18.18s %6s  %9s  %5.1f%%  %12s\n",
               i == 0 ? '>' : ' ', c->pp, c->dp, c->threads, c->schedule, chunks,
               ms_text(ms, c->seconds), 100 * c->bubble, wf_bytes_text(bytes, c->rank_bytes));
    }
}

static void print_division(const struct wf_auto_candidate *c)
{
    if (c->pp == 1 && c->dp == 1)
        printf("1 rank of %u thread%s", c->threads, wf_plural(c->threads));
    else
        printf("pp %u x dp %u, %u thread%s per rank", c->pp, c->dp, c->threads,
               wf_plural(c->threads));
}

static void print_runner_up(const struct wf_auto_candidate *chosen,
                            const struct wf_auto_candidate *next)
{
    double longer = next->seconds / chosen->seconds - 1;
    printf("\nauto     second: ");
    print_division(next);
    if (longer < 0)
        printf(", %.1f%% faster, which does not justify %s", -100 * longer,
               next->pp * next->dp > chosen->pp * chosen->dp ? "more ranks" : "more memory");
    else
        printf(", %.1f%% slower", 100 * longer);
    if (next->bubble >= chosen->bubble + 0.0005)
        printf(" (bubble %.1f%%)", 100 * next->bubble);
}

static void print_reasons(const struct wf_auto_candidates *list,
                          const struct wf_auto_candidate *const *rows, size_t n)
{
    const struct wf_auto_candidate *c = rows[0];
    char ms[WF_NUMBER_CHARS];
    printf("auto     chosen: ");
    print_division(c);
    if (c->bubble < 0.0005)
        printf(": no bubble");
    else
        printf(": %s has a bubble of %.1f%% (no order of actions is more than %.1f%% faster)",
               c->schedule, 100 * c->bubble, 100 * c->gap);
    if (c->pp * c->dp > 1)
        printf(", reduction and update %s ms", ms_text(ms, c->update));
    else
        printf(", no messages and no reduction");

    if (n > 1)
        print_runner_up(c, rows[1]);
    else
        printf("\nauto     %s", list->n_pruned > 0 ? "all others would take twice as long"
                                : list->n_over_limit > 0
                                    ? "no other layout fits into the memory"
                                    : "no other layout can run");
    printf("\n");
    if (list->n_over_limit > 0)
        printf("auto     %zu of %zu layouts exceed the memory of this machine\n",
               list->n_over_limit, list->n_tried);
}

static void print_given(const struct wf_train_settings *s)
{
    const struct {
        bool given;
        const char *name;
    } keys[] = {
        {s->parallel.given.pp, "pp"},           {s->parallel.given.dp, "dp"},
        {s->parallel.given.chunks, "chunks"},   {s->parallel.given.schedule, "schedule"},
        {s->parallel.given.threads, "threads"},
    };
    const char *before = "auto     as given: parallel.";
    for (size_t i = 0; i < WEFT_LEN(keys); i++)
        if (keys[i].given) {
            printf("%s%s", before, keys[i].name);
            before = ", ";
        }
    if (before[0] == ',')
        printf("; remove these keys to have them chosen, too\n");
}

void wf_train_print_choice(const struct wf_train_settings *s,
                           const struct wf_layout_choice *choice)
{
    const struct wf_auto_candidate *rows[MAX_ROWS];
    size_t n = wf_layout_choice_divisions(choice, rows, MAX_ROWS);
    print_times(choice);
    print_table(rows, n);
    print_reasons(&choice->candidates, rows, n);

    if (s->parallel.micros != choice->default_micros)
        printf("auto     parallel.micros is %u, the minimum that can run here; set it to get "
               "the same bits again\n",
               s->parallel.micros);
    else if (s->parallel.micros == 1)
        printf("auto     replicas and efficient pipelines need more than one micro-batch; "
               "parallel.micros is not\n         chosen because it changes results\n");
    print_given(s);
    fflush(stdout);
}
