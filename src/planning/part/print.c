/* Prints a partition as a layout string of Megatron.  Megatron expands (..)*n, whose group has
 * no parentheses inside, and then x*n; the printer uses nothing else. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "weft/part.h"

/* Returns true if two stages have the same text. */
static bool same_text(const struct weft_stage_range *a, const struct weft_stage_range *b)
{
    return a->end_layer - a->first_layer == b->end_layer - b->first_layer &&
           a->n_mtp == b->n_mtp && a->embedding == b->embedding && a->head == b->head;
}

/* Appends n equal items: t, tt, t*3 .. */
static void put_items(struct wf_text *out, char item, uint32_t n)
{
    if (n > 2) {
        wf_text_addc(out, item);
        wf_text_addf(out, "*%u", n);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        wf_text_addc(out, item);
}

static void put_stage(struct wf_text *out, const struct weft_stage_range *stage)
{
    put_items(out, 'E', stage->embedding);
    put_items(out, 't', stage->end_layer - stage->first_layer);
    put_items(out, 'm', stage->n_mtp);
    put_items(out, 'L', stage->head);
}

enum weft_status weft_partition_print_pattern(const struct weft_partition *p, char **out,
                                              struct weft_error *err)
{
    struct wf_text text = {0};
    for (uint32_t s = 0; s < p->n_stages;) {
        uint32_t n = 1;
        while (s + n < p->n_stages && same_text(&p->at[s], &p->at[s + n]))
            n++;
        if (n > 1) /* the last stage has the head, so that a bar follows each of these */
            wf_text_addc(&text, '(');
        put_stage(&text, &p->at[s]);
        if (s + n < p->n_stages)
            wf_text_addc(&text, '|');
        if (n > 1)
            wf_text_addf(&text, ")*%u,", n);
        s += n;
    }

    if (text.failed || text.at == NULL) {
        wf_text_release(&text);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to print a layout of %u stages",
                         p->n_stages);
    }
    *out = text.at;
    return WEFT_OK;
}
