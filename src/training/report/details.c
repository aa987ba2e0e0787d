/* Writes the activities of the ranks in one step, their memory and their traffic. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "planning/draw/palette.h"
#include "planning/draw/picture.h"
#include "training/report/page_priv.h"

enum { WIDTH = 1080, MAX_BARS = 64, MAX_EVENTS = 30000 };

/* -- bars of parts ------------------------------------------------------------------------- */

enum { MAX_PARTS = 24 };

struct bars {
    enum wf_unit unit;
    const char *names[MAX_PARTS]; /* borrowed */
    char styles[MAX_PARTS][24];   /* SVG attributes */
    size_t n_parts;
    double max; /* maximum length of the bars */
    double y;
};

static void add_part(struct bars *b, const char *name, const char *style)
{
    b->names[b->n_parts] = name;
    snprintf(b->styles[b->n_parts++], sizeof b->styles[0], "%s", style);
}

static void add_kind(struct bars *b, const char *name, unsigned kind)
{
    char style[24];
    snprintf(style, sizeof style, "fill=\"#%06x\"", (unsigned)wf_kind_colour(kind, 1));
    add_part(b, name, style);
}

/* Writes a legend of the parts that occur in any bar, and starts the picture of n bars. */
static void begin_bars(FILE *out, struct bars *b, const double *parts, size_t n)
{
    fputs("<figure class=\"bars\"><figcaption><ul class=\"legend\">", out);
    for (size_t k = 0; k < b->n_parts; k++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += parts[i * b->n_parts + k];
        if (sum > 0)
            fprintf(out,
                    "<li><svg class=\"swatch\" viewBox=\"0 0 12 12\"><rect width=\"12\" "
                    "height=\"12\" %s/></svg>%s</li>",
                    b->styles[k], b->names[k]);
    }
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t k = 0; k < b->n_parts; k++)
            sum += parts[i * b->n_parts + k];
        b->max = fmax(b->max, sum);
    }
    fprintf(out, "</ul></figcaption>\n<svg viewBox=\"0 0 %d %zu\" role=\"img\">\n", WIDTH,
            n * 26 + 4);
}

static double bar_x(const struct bars *b, double value)
{
    enum { LEFT = 130, RIGHT = 90 };
    return LEFT + (b->max > 0 ? value / b->max : 0) * (WIDTH - LEFT - RIGHT);
}

/* Writes one bar.  `mark` is the planned length; NAN: no mark. */
static void put_bar(FILE *out, struct bars *b, const char *name, const double *parts,
                    double mark)
{
    char words[WF_FORMAT_LEN];
    double at = 0;

    fprintf(out, "<text class=\"name\" x=\"120\" y=\"%g\">%s</text>", b->y + 16, name);
    for (size_t k = 0; k < b->n_parts; k++) {
        if (!(parts[k] > 0))
            continue;
        fprintf(out,
                "<rect x=\"%.2f\" y=\"%g\" width=\"%.2f\" height=\"20\" %s><title>%s: %s: %s"
                "</title></rect>",
                bar_x(b, at), b->y + 2, bar_x(b, at + parts[k]) - bar_x(b, at), b->styles[k],
                name, b->names[k], wf_unit_format(words, b->unit, parts[k]));
        at += parts[k];
    }

    if (!isnan(mark))
        fprintf(out,
                "<path class=\"plan\" d=\"M%.2f %gv26\"><title>%s: planned: %s</title></path>",
                bar_x(b, mark), b->y - 1, name, wf_unit_format(words, b->unit, mark));

    fprintf(out, "<text class=\"sum\" x=\"%.2f\" y=\"%g\">%s</text>\n",
            bar_x(b, isnan(mark) ? at : fmax(at, mark)) + 8, b->y + 16,
            wf_unit_format(words, b->unit, at));
    b->y += 26;
}

static void end_bars(FILE *out)
{
    fputs("</svg></figure>\n", out);
}

/* Writes a table with the figures of the bars: one row per rank, without parts that do not
 * occur. */
static void put_bars_table(struct wf_page *p, const struct bars *b, const double *parts,
                           size_t n, const char *first)
{
    FILE *out = p->out;
    bool seen[MAX_PARTS] = {false};

    for (size_t i = 0; i < n * b->n_parts; i++)
        seen[i % b->n_parts] = seen[i % b->n_parts] || parts[i] > 0;
    fprintf(out, "<div class=\"wide\"><table><thead><tr><th>%s</th>", first);
    for (size_t k = 0; k < b->n_parts; k++)
        if (seen[k])
            fprintf(out, "<th>%s</th>", b->names[k]);
    fputs("<th>total</th></tr></thead><tbody>\n", out);

    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        fprintf(out, "<tr><th>%zu</th>", i);
        for (size_t k = 0; k < b->n_parts; k++) {
            sum += parts[i * b->n_parts + k];
            if (seen[k])
                wf_page_cell(p, b->unit, parts[i * b->n_parts + k]);
        }
        wf_page_cell(p, b->unit, sum);
        fputs("</tr>\n", out);
    }

    fputs("</tbody></table></div>\n", out);
}

/* -- time by activity ---------------------------------------------------------------------- */

static void put_no_traces(struct wf_page *p)
{
    fputs("<p class=\"none\">No step was traced.  The setting <code>log.trace_steps: 3</code> "
          "records the first three steps.</p>\n",
          p->out);
}

/* Returns the milliseconds per time unit of the trace; an abstract time unit counts as 1 ms. */
static double to_ms(const struct weft_trace *t)
{
    return t->unit_seconds > 0 ? t->unit_seconds * 1e3 : 1;
}

static double traced_step_ms(const struct wf_run *run)
{
    for (size_t i = 0; i < run->n_points; i++)
        if (run->points[i].step == run->trace_step)
            return run->points[i].ms;
    return NAN;
}

static void add_idle_parts(struct bars *b)
{
    add_part(b, "warm-up", "class=\"i0\"");
    add_part(b, "drain", "class=\"i1\"");
    add_part(b, "messages", "class=\"i2\"");
    add_part(b, "imbalance", "class=\"i3\"");
    add_part(b, "waiting", "class=\"i4\"");
}

static void idle_parts(const struct weft_idle_time *idle, double factor, double *out)
{
    out[0] = idle->warm_up * factor;
    out[1] = idle->drain * factor;
    out[2] = idle->communication * factor;
    out[3] = idle->imbalance * factor;
    out[4] = idle->data * factor;
}

enum { N_BUSY = 5, N_IDLE = 5 };

void wf_page_time(struct wf_page *p, const struct wf_run *run)
{
    static const unsigned kinds[N_BUSY] = {WEFT_ACT_F, WEFT_ACT_B, WEFT_ACT_I, WEFT_ACT_W,
                                           WEFT_ACT_REDUCE_GRAD};
    static const char *const names[N_BUSY] = {"forward", "backward", "input gradient",
                                              "weight gradient", "gradient reduction"};
    const struct wf_run_trace *t = &run->measured;
    struct bars b = {.unit = WF_UNIT_MS};
    wf_page_section(p, "Time by activity");
    if (!run->has_traces) {
        put_no_traces(p);
        wf_page_section_end(p);
        return;
    }

    for (size_t k = 0; k < N_BUSY; k++)
        add_kind(&b, names[k], kinds[k]);
    add_idle_parts(&b);
    add_part(&b, "outside the pipeline", "class=\"rest\"");
    size_t n = t->trace.n_ranks;
    double *parts = calloc(n * b.n_parts, sizeof *parts), factor = to_ms(&t->trace);
    p->failed = p->failed || parts == NULL;
    double rest = traced_step_ms(run) - t->trace.makespan * factor;
    for (size_t r = 0; parts != NULL && r < n; r++) {
        double *at = parts + r * b.n_parts;
        for (size_t k = 0; k < N_BUSY; k++)
            at[k] = t->usage.busy[r * WEFT_N_ACT_KINDS + kinds[k]] * factor;
        idle_parts(&t->usage.idle[r], factor, at + N_BUSY);
        at[N_BUSY + N_IDLE] = rest > 0 ? rest : 0;
    }

    fprintf(p->out,
            "<p class=\"note\">Step %u%s, per rank. Outside the pipeline: reading data, "
            "reducing gradients, updating weights.</p>\n",
            run->trace_step, run->has_plan && run->plan.dp > 1 ? ", the first replica" : "");
    if (parts != NULL) {
        size_t shown = n < MAX_BARS ? n : MAX_BARS;
        begin_bars(p->out, &b, parts, shown);
        for (size_t r = 0; r < shown; r++) {
            char name[32];
            snprintf(name, sizeof name, "rank %zu", r);
            put_bar(p->out, &b, name, parts + r * b.n_parts, NAN);
        }
        end_bars(p->out);
        put_bars_table(p, &b, parts, n, "rank");
    }
    free(parts);
    wf_page_section_end(p);
}

/* -- the timeline -------------------------------------------------------------------------- */

static void put_action(FILE *out, struct weft_action a, bool stages)
{
    if (stages)
        fprintf(out, "%u", (unsigned)a.stage);
    fprintf(out, "%s%u", weft_act_name(a.kind), (unsigned)a.micro);
}

/* Writes one row of the picture for the script: the box and the end of the row, and the start,
 * length and name of its events. */
static void put_row(FILE *out, const struct weft_trace *t, uint32_t rank,
                    const struct wf_area *area, bool events)
{
    double factor = to_ms(t);
    bool comma = false;
    fprintf(out, "{\"name\":\"rank %u, %s\",\"box\":[%.2f,%.2f,%.2f,%.2f],\"end\":%.7g,", rank,
            t->name, area->x, area->y, area->w, area->h, t->makespan * factor);
    fputs("\"events\":[", out);
    for (size_t i = t->first[rank]; events && i < t->first[rank + 1]; i++) {
        const struct weft_trace_event *e = &t->events[i];
        if (e->lane != WEFT_LANE_COMPUTE)
            continue;
        fprintf(out, "%s%.7g,%.7g,\"", comma ? "," : "", e->start * factor, e->length * factor);
        put_action(out, e->action, true);
        if (e->action.paired) {
            fputs(" & ", out);
            put_action(out, e->partner, true);
        }
        fputc('"', out);
        comma = true;
    }
    fputs("]}", out);
}

static void put_rows(struct wf_page *p, const char *id, const struct wf_picture *picture,
                     const struct weft_trace *traces, size_t n)
{
    size_t area = 0, n_events = 0, rows = 0;
    for (size_t i = 0; i < n; i++)
        n_events += traces[i].n_events;
    fprintf(p->timelines, "%s{\"id\":\"%s\",\"size\":[%g,%g],\"rows\":[",
            p->n_timelines++ > 0 ? ",\n" : "", id, picture->width, picture->height);
    for (size_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < traces[i].n_ranks; r++) {
            /* The first idle areas of the picture are the rows of the ranks, in order. */
            while (area < picture->n_areas && picture->areas[area].ink != WF_INK_IDLE)
                area++;
            if (area == picture->n_areas)
                break;
            fputs(rows++ > 0 ? ",\n" : "", p->timelines);
            put_row(p->timelines, &traces[i], r, &picture->areas[area++],
                    n_events <= MAX_EVENTS);
        }
    fputs("]}", p->timelines);
}

void wf_page_timeline(struct wf_page *p, const struct wf_run *run)
{
    if (!run->has_traces)
        return;
    /* Shallow copies of the traces, in the order in which they are drawn. */
    const struct weft_trace traces[] = {run->planned.trace, run->measured.trace};
    const struct weft_draw_options options = {.width = WIDTH};
    struct wf_picture picture;
    char id[40];

    wf_page_section(p, "Timeline");
    fprintf(
        p->out,
        "<p class=\"note\">Step %u. Planned: the same schedule with the measured mean times "
        "and messages that take no time.</p>\n",
        run->trace_step);

    enum weft_status st = wf_picture_init(&picture, traces, 2, &options, NULL);
    p->failed = p->failed || st == WEFT_NOMEM;
    if (st == WEFT_OK) {
        snprintf(id, sizeof id, "timeline%zu", p->n_timelines);
        fprintf(p->out, "<figure class=\"timeline\" id=\"%s\" tabindex=\"0\">", id);
        wf_paint_svg(p->out, &picture);
        fputs("</figure>\n", p->out);
        put_rows(p, id, &picture, traces, 2);
        wf_picture_release(&picture);
    } else {
        fputs("<p class=\"none\">There are too many ranks for one picture.</p>\n", p->out);
    }

    wf_page_section_end(p);
}

/* -- the bubble ---------------------------------------------------------------------------- */

static void mean_idle(const struct wf_run_trace *t, double out[N_IDLE])
{
    double parts[N_IDLE], all = t->trace.makespan * t->trace.n_ranks;
    for (size_t k = 0; k < N_IDLE; k++)
        out[k] = 0;
    for (uint32_t r = 0; all > 0 && r < t->trace.n_ranks; r++) {
        idle_parts(&t->usage.idle[r], 1 / all, parts);
        for (size_t k = 0; k < N_IDLE; k++)
            out[k] += parts[k];
    }
}

static void put_bubble_table(struct wf_page *p, const double *planned, const double *measured)
{
    static const char *const causes[N_IDLE][2] = {
        {"warm-up", "before the rank's first action"},
        {"drain", "after the rank's last action"},
        {"messages", "the input was computed and in transit"},
        {"imbalance", "the rank had less work than the busiest one"},
        {"waiting", "another rank was still computing the input"}};
    double sums[2] = {0, 0};

    fputs(
        "<div class=\"wide\"><table><thead><tr><th>cause</th><th>planned</th>"
        "<th>measured</th><th>difference</th><th class=\"text\">meaning</th></tr></thead><tbody>\n",
        p->out);

    for (size_t k = 0; k < N_IDLE; k++) {
        fprintf(p->out,
                "<tr><th><svg class=\"swatch\" viewBox=\"0 0 12 12\"><rect width=\"12\" "
                "height=\"12\" class=\"i%zu\"/></svg>%s</th>",
                k, causes[k][0]);
        wf_page_cell(p, WF_UNIT_PERCENT, planned[k]);
        wf_page_cell(p, WF_UNIT_PERCENT, measured[k]);
        wf_page_cell(p, WF_UNIT_PERCENT, measured[k] - planned[k]);
        fprintf(p->out, "<td class=\"text\">%s</td></tr>\n", causes[k][1]);

        sums[0] += planned[k];
        sums[1] += measured[k];
    }

    fputs("</tbody><tfoot><tr><th>bubble</th>", p->out);
    wf_page_cell(p, WF_UNIT_PERCENT, sums[0]);
    wf_page_cell(p, WF_UNIT_PERCENT, sums[1]);
    wf_page_cell(p, WF_UNIT_PERCENT, sums[1] - sums[0]);
    fputs("<td class=\"text\">of the ranks' time</td></tr></tfoot></table></div>\n", p->out);
}

void wf_page_bubble(struct wf_page *p, const struct wf_run *run)
{
    double planned[N_IDLE], measured[N_IDLE];
    if (!run->has_traces || run->measured.trace.n_ranks < 2)
        return;
    mean_idle(&run->planned, planned);
    mean_idle(&run->measured, measured);
    wf_page_section(p, "Bubble by cause");
    fprintf(p->out,
            "<p class=\"note\">Step %u, mean over the ranks, as a share of the time from the "
            "first action to the last.</p>\n",
            run->trace_step);
    put_bubble_table(p, planned, measured);
    wf_page_section_end(p);
}

/* -- memory -------------------------------------------------------------------------------- */

void wf_page_memory(struct wf_page *p, const struct wf_run *run)
{
    struct bars b = {.unit = WF_UNIT_BYTES};
    if (!run->has_plan || run->plan.n_ranks == 0)
        return;
    static const char *const names[] = {"weights",     "gradients", "moments", "packed",
                                        "activations", "messages",  "scratch", "other"};
    for (unsigned k = 0; k < 8; k++) {
        char style[24];
        snprintf(style, sizeof style, "class=\"m%u\"", k);
        add_part(&b, names[k], style);
    }
    size_t n = run->plan.n_ranks;
    double *parts = calloc(n * b.n_parts, sizeof *parts);
    p->failed = p->failed || parts == NULL;
    for (size_t r = 0; parts != NULL && r < n; r++) {
        const struct wf_planfile_bytes *m = &run->plan.ranks[r].bytes;
        const uint64_t values[] = {m->weights,     m->gradients, m->moments, m->packed,
                                   m->activations, m->messages,  m->scratch};
        double *at = parts + r * b.n_parts, sum = 0;
        for (size_t k = 0; k < 7; k++)
            sum += at[k] = (double)values[k];
        at[7] = (double)m->total > sum ? (double)m->total - sum : 0;
        b.max = fmax(b.max, (double)run->plan.ranks[r].planned_bytes);
    }

    wf_page_section(p, "Memory");
    fputs(
        "<p class=\"note\">Memory that each rank has allocated. The line marks the planned amount: "
        "weights, gradients, moments and activations.</p>\n",
        p->out);
    if (parts != NULL) {
        size_t shown = n < MAX_BARS ? n : MAX_BARS;
        begin_bars(p->out, &b, parts, shown);
        for (size_t r = 0; r < shown; r++) {
            const struct wf_planfile_rank *rank = &run->plan.ranks[r];
            char name[64];
            if (rank->n_stages == 1)
                snprintf(name, sizeof name, "rank %u: stage %u", rank->rank, rank->stages[0]);
            else if (rank->n_stages == 2)
                snprintf(name, sizeof name, "rank %u: stages %u, %u", rank->rank,
                         rank->stages[0], rank->stages[1]);
            else
                snprintf(name, sizeof name, "rank %u: %zu stages", rank->rank, rank->n_stages);
            put_bar(p->out, &b, name, parts + r * b.n_parts, (double)rank->planned_bytes);
        }
        end_bars(p->out);
        put_bars_table(p, &b, parts, n, "rank");
    }
    free(parts);
    wf_page_section_end(p);
}

/* -- messages ------------------------------------------------------------------------------ */

static void put_link(struct wf_page *p, const struct wf_planfile_link *l, bool cache)
{
    double sent = (double)l->forward_bytes + (double)l->backward_bytes;
    double without =
        (double)l->forward_bytes_without_cache + (double)l->backward_bytes_without_cache;
    wf_page_cell(p, WF_UNIT_BYTES, (double)l->forward_bytes);
    wf_page_cell(p, WF_UNIT_BYTES, (double)l->backward_bytes);
    if (cache) {
        wf_page_cell(p, WF_UNIT_BYTES, without);
        wf_page_cell(p, WF_UNIT_PERCENT, without > 0 ? 1 - sent / without : NAN);
    }
    fputs("</tr>\n", p->out);
}

static void put_links(struct wf_page *p, const struct wf_planfile_link *links, size_t n)
{
    struct wf_planfile_link all = {0};
    bool cache = false;

    for (size_t i = 0; i < n; i++) {
        const struct wf_planfile_link *l = &links[i];
        all.forward_bytes += l->forward_bytes;
        all.backward_bytes += l->backward_bytes;
        all.forward_bytes_without_cache += l->forward_bytes_without_cache;
        all.backward_bytes_without_cache += l->backward_bytes_without_cache;
        cache = cache || l->forward_bytes_without_cache > l->forward_bytes ||
                l->backward_bytes_without_cache > l->backward_bytes;
    }

    fprintf(p->out,
            "<div class=\"wide\"><table><thead><tr><th>link</th><th>forward</th>"
            "<th>backward</th>%s</tr></thead><tbody>\n",
            cache ? "<th>without the cache</th><th>saved</th>" : "");
    for (size_t i = 0; i < n; i++) {
        fprintf(p->out, "<tr><th>rank %u to %u</th>", links[i].from, links[i].to);
        put_link(p, &links[i], cache);
    }

    fputs("</tbody><tfoot><tr><th>total</th>", p->out);
    put_link(p, &all, cache);
    fputs("</tfoot></table></div>\n", p->out);
}

/* Collects the links that a trace used, for a run without a plan.  The caller frees *out. */
static size_t traced_links(struct wf_page *p, const struct weft_trace *t,
                           struct wf_planfile_link **out)
{
    size_t n = 0, capacity = 0;
    struct wf_planfile_link *links = NULL;

    for (size_t i = 0; i < t->n_events; i++) {
        const struct weft_trace_event *e = &t->events[i];
        if (e->lane != WEFT_LANE_SEND || e->peer == WEFT_NO_RANK)
            continue;

        size_t k = 0;
        while (k < n && (links[k].from != e->rank || links[k].to != e->peer))
            k++;
        if (k == capacity) {
            capacity = capacity == 0 ? 16 : capacity * 2;
            struct wf_planfile_link *more = realloc(links, capacity * sizeof *more);
            p->failed = p->failed || more == NULL;
            if (more == NULL)
                break;
            links = more;
        }
        if (k == n)
            links[n++] = (struct wf_planfile_link){.from = e->rank, .to = e->peer};

        if (e->action.kind == WEFT_ACT_SEND_F)
            links[k].forward_bytes += e->bytes;
        else
            links[k].backward_bytes += e->bytes;
    }
    *out = links;
    return n;
}

void wf_page_traffic(struct wf_page *p, const struct wf_run *run)
{
    struct wf_planfile_link *own = NULL;
    const struct wf_planfile_link *links = run->plan.links;
    size_t n = run->has_plan ? run->plan.n_links : 0;
    if (n == 0 && run->has_traces) {
        n = traced_links(p, &run->measured.trace, &own);
        links = own;
    }
    if (n > 0) {
        wf_page_section(p, "Bytes between ranks");
        fputs("<p class=\"note\">Per step, in one replica.</p>\n", p->out);
        put_links(p, links, n);
        wf_page_section_end(p);
    }
    free(own);
}
