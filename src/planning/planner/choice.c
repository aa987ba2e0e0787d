/* Reads a schedule or a partition that the user selects by one word. */
#include "planning/planner/choice.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/input.h"
#include "planning/part/for_schedule.h"

/* -- schedules ------------------------------------------------------------------------------ */

bool wf_schedule_is_file(const char *name)
{
    return weft_generator_find(name) == NULL &&
           (strcmp(name, "-") == 0 || strpbrk(name, "./") != NULL || access(name, F_OK) == 0);
}

enum weft_status wf_schedule_read(const char *path, struct weft_schedule **out,
                                  struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    WEFT_TRY(wf_input_read_as(WEFT_SCHEDULE, path, &text, &len, err));
    enum weft_status st = weft_schedule_parse(text, len, path, out, err);
    free(text);
    return st;
}

enum weft_status wf_schedule_obtain(const char *name, const struct weft_gen_params *params,
                                    struct weft_schedule **out, struct weft_error *err)
{
    return wf_schedule_is_file(name) ? wf_schedule_read(name, out, err)
                                     : weft_schedule_generate(name, params, out, err);
}

bool wf_schedule_searches(const char *name)
{
    const struct weft_generator *g = weft_generator_find(name);
    return g != NULL && (g->flags & WEFT_GEN_USES_COST) != 0;
}

/* -- partitions ----------------------------------------------------------------------------- */

struct wf_partition_choice wf_partition_choice_parse(const char *text,
                                                     enum wf_partition_kind otherwise)
{
    struct wf_partition_choice choice = {otherwise, text};
    if (text == NULL)
        return choice;
    if (strcmp(text, "even") == 0)
        choice.kind = WF_PARTITION_EVEN;
    else if (strcmp(text, "balanced") == 0)
        choice.kind = WF_PARTITION_BALANCED;
    else if (strpbrk(text, "EtL|") == NULL)
        choice.kind = WF_PARTITION_COUNTS;
    else
        choice.kind = WF_PARTITION_PATTERN;
    return choice;
}

/* Reads layer counts or a pattern.  If the number of layers is 0, any total is accepted. */
static enum weft_status parse_explicit(struct weft_partition *out,
                                       struct wf_partition_choice choice, uint32_t stages,
                                       uint32_t layers, struct weft_error *err)
{
    size_t len = strlen(choice.text);
    return choice.kind == WF_PARTITION_COUNTS
               ? weft_partition_parse_counts(out, choice.text, len, stages, layers, err)
               : weft_partition_parse_pattern(out, choice.text, len, stages, layers, err);
}

static bool is_explicit(struct wf_partition_choice choice)
{
    return choice.kind == WF_PARTITION_COUNTS || choice.kind == WF_PARTITION_PATTERN;
}

enum weft_status wf_partition_choice_layers(struct wf_partition_choice choice, uint32_t stages,
                                            uint32_t *layers, struct weft_error *err)
{
    struct weft_partition p = {0};
    *layers = 0;
    if (!is_explicit(choice))
        return WEFT_OK;
    WEFT_TRY(parse_explicit(&p, choice, stages, 0, err));
    *layers = p.at[p.n_stages - 1].end_layer;
    weft_partition_release(&p);
    return WEFT_OK;
}

enum weft_status wf_partition_choose(struct weft_partition *out,
                                     struct wf_partition_choice choice,
                                     const struct weft_items *items, uint32_t stages,
                                     const struct wf_partition_limits *limits,
                                     struct weft_error *err)
{
    uint32_t layers = weft_items_n_layers(items);
    if (is_explicit(choice))
        return parse_explicit(out, choice, stages, layers, err);
    WEFT_TRY(weft_partition_check_filled(layers, stages, err));
    if (choice.kind == WF_PARTITION_EVEN)
        return weft_partition_init_even(out, layers, stages, err);
    if (limits == NULL)
        return weft_partition_init_balanced(out, items, stages, NULL, NULL, err);
    return wf_partition_init_limited(out, items, limits->schedule, 1, limits->bytes, limits->n,
                                     err);
}
