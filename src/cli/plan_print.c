/* Prints a plan as text, and other output that several commands share. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/plan.h"
#include "planning/planner/check.h"
#include "weft/render.h"

enum weft_status wf_text_flush(struct wf_text *text, FILE *out, struct weft_error *err)
{
    bool failed = text->failed;
    if (!failed)
        fwrite(text->at, 1, text->len, out);
    wf_text_release(text);
    return failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory to print") : WEFT_OK;
}

enum weft_status wf_schedule_print_csv(FILE *out, const struct weft_schedule *s,
                                       const char *format, struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    bool csv = format == NULL || strcmp(format, "csv") == 0;
    if (!csv)
        WEFT_TRY(wf_torch_require(s, err));
    WEFT_TRY(weft_schedule_print(s, csv ? WEFT_TEXT_FORMAT_CSV : WEFT_TEXT_FORMAT_PYTORCH,
                                 &text, &len, err));
    fwrite(text, 1, len, out);
    free(text);
    return WEFT_OK;
}

enum weft_status wf_plan_draw(FILE *out, enum weft_draw_format format, const struct wf_plan *p,
                              const struct weft_metrics *m, uint32_t width,
                              struct weft_error *err)
{
    struct weft_trace t;
    const struct weft_draw_options how = {.width = width};
    WEFT_TRY(weft_trace_init_plan(&t, p->schedule, m, &p->memory, err));
    if (p->time.seconds > 0)
        t.unit_seconds = p->time.seconds;
    enum weft_status st = weft_render(out, format, &t, 1, &how, err);
    weft_trace_release(&t);
    return st;
}

void wf_plan_print_text(struct wf_text *out, const struct wf_plan *p, const char *file,
                        struct weft_text_style style)
{
    wf_plan_write_title(out, p, file);
    wf_draw_timeline(out, p->schedule, &p->metrics, wf_plan_axis(p->time), style);
    wf_text_addc(out, '\n');
    wf_plan_write_figures(out, p, style.width);
    if (wf_plan_has_unlikely_costs(p))
        wf_text_adds(out,
                     "note              all stages have the same cost; --layer-cost makes it "
                     "depend on their layers\n");
}
