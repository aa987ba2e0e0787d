/* The common time axis of several traces, and the texts that all formats share. */
#include "planning/draw/axis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* -- the axis ------------------------------------------------------------------------------ */

static void choose_unit(struct wf_axis *a, bool real)
{
    static const struct {
        double seconds;
        const char *name;
    } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "\302\265s"}, {1e-9, "ns"}};
    size_t i = 0;
    a->show = 1;
    a->unit = "";
    if (!real)
        return;
    while (i + 1 < WEFT_LEN(units) && a->end < units[i].seconds)
        i++;
    a->show = 1 / units[i].seconds;
    a->unit = units[i].name;
}

enum weft_status wf_axis_init(struct wf_axis *out, const struct weft_trace *traces, size_t n,
                              double unit_seconds, struct weft_error *err)
{
    struct wf_axis a = {.end = 0};
    bool real = false, abstract = false;
    for (size_t i = 0; i < n; i++) {
        real = real || traces[i].unit_seconds > 0;
        abstract = abstract || traces[i].unit_seconds == 0;
    }

    if (real && abstract && unit_seconds == 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "some traces are in real time and others in abstract units; the "
                         "length of an abstract unit must be given");
    real = real || unit_seconds > 0;

    a.factor = malloc(sizeof *a.factor * (n + 1));
    if (a.factor == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu traces", n);
    for (size_t i = 0; i < n; i++) {
        a.factor[i] = !real                        ? 1
                      : traces[i].unit_seconds > 0 ? traces[i].unit_seconds
                                                   : unit_seconds;
        a.end = fmax(a.end, traces[i].makespan * a.factor[i]);
    }

    if (!(a.end > 1e-200) || a.end > 1e200) {
        wf_axis_release(&a);
        return WEFT_FAIL(err, WEFT_DATA, "%s",
                         a.end > 1 ? "the times are too large to be drawn"
                                   : "no event takes any time; there is nothing to draw");
    }

    choose_unit(&a, real);
    *out = a;
    return WEFT_OK;
}

void wf_axis_release(struct wf_axis *a)
{
    free(a->factor);
    a->factor = NULL;
}

double wf_axis_step(double min)
{
    double power = pow(10, floor(log10(min)));
    static const double steps[] = {1, 2, 5, 10, 20};
    for (size_t i = 0; i < WEFT_LEN(steps); i++)
        if (steps[i] * power >= min * (1 - 1e-9))
            return steps[i] * power;
    return min;
}

void wf_axis_print(const struct wf_axis *a, double time, char out[40])
{
    snprintf(out, 40, "%.6g", time * a->show);
}

const char *wf_axis_unit(const struct wf_axis *a)
{
    return a->unit[0] == '\0' ? "time" : a->unit;
}

/* -- texts --------------------------------------------------------------------------------- */

void wf_draw_heading(struct wf_text *out, const struct weft_trace *t)
{
    wf_text_addf(out, "%s%s%u rank%s, %u stage%s, %u micro%s", t->name,
                 t->name[0] != '\0' ? ": " : "", t->n_ranks, t->n_ranks == 1 ? "" : "s",
                 t->n_stages, t->n_stages == 1 ? "" : "s", t->n_micros,
                 t->n_micros == 1 ? "" : "s");
}

enum weft_status wf_draw_metrics(struct wf_text *out, const struct weft_trace *t,
                                 const struct wf_axis *axis, size_t index,
                                 struct weft_error *err)
{
    struct weft_trace_summary s;
    char makespan[40], span[40];
    const char *blank = axis->unit[0] == '\0' ? "" : " ";
    WEFT_TRY(weft_trace_summary_init(&s, t, err));
    wf_axis_print(axis, s.makespan * axis->factor[index], makespan);
    wf_axis_print(axis, s.span * axis->factor[index], span);
    wf_text_addf(out, "makespan %s%s%s, bubble %.1f%%; span %s%s%s, bubble %.1f%%", makespan,
                 blank, axis->unit, 100 * s.bubble, span, blank, axis->unit,
                 100 * s.bubble_span);
    weft_trace_summary_release(&s);
    return WEFT_OK;
}

const char *wf_lane_label(enum weft_lane lane)
{
    static const char *const labels[] = {"", "send", "recv", "coll", "wait"};
    return labels[lane];
}

void wf_draw_kind_label(unsigned kind, char *out, size_t size)
{
    static const char *const words[WEFT_N_ACT_KINDS] = {
        [WEFT_ACT_F] = "F forward",
        [WEFT_ACT_B] = "B backward",
        [WEFT_ACT_I] = "I input gradient",
        [WEFT_ACT_W] = "W weight gradient",
        [WEFT_ACT_SEND_F] = "activation sent",
        [WEFT_ACT_RECV_F] = "activation received",
        [WEFT_ACT_SEND_B] = "gradient sent",
        [WEFT_ACT_RECV_B] = "gradient received",
        [WEFT_ACT_REDUCE_GRAD] = "R gradient sync",
        [WEFT_ACT_UNSHARD] = "U unshard",
        [WEFT_ACT_RESHARD] = "R reshard",
        [WEFT_ACT_WAIT_SEND_F] = "wait for a sent activation",
        [WEFT_ACT_WAIT_SEND_B] = "wait for a sent gradient",
        [WEFT_ACT_WAIT_REDUCE_GRAD] = "wait for gradient sync",
    };
    snprintf(out, size, "%s", words[kind]);
}

/* Returns the length in bytes of the UTF-8 character at `c`, or 0 if the character is
 * invalid or a control character. */
static size_t utf8_length(const unsigned char *c)
{
    static const uint32_t min[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = c[0] < 0x80       ? 1
               : c[0] >> 5 == 6  ? 2
               : c[0] >> 4 == 14 ? 3
               : c[0] >> 3 == 30 ? 4
                                 : 0;
    uint32_t code = n <= 1 ? c[0] : c[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if (c[i] >> 6 != 2)
            return 0;
        code = code << 6 | (c[i] & 0x3f);
    }
    bool bad = n == 0 || code < min[n] || code < 0x20 || (code >= 0x7f && code < 0xa0) ||
               (code >= 0xd800 && code < 0xe000) || code > 0x10ffff ||
               (code & 0xfffe) == 0xfffe;
    return bad ? 0 : n;
}

void wf_draw_sanitize(struct wf_text *out, const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    while (*c != '\0') {
        size_t n = utf8_length(c);
        if (n == 0)
            wf_text_addc(out, '?');
        else
            wf_text_add(out, (const char *)c, n);
        c += n == 0 ? 1 : n;
    }
}
