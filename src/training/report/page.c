/* Writes the page: its head, the figures at the top, and the parts in order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "training/report/page_priv.h"
#include "training/report/report.h"

enum { RECENT = 50 }; /* number of last steps over which current figures are averaged */

void wf_page_section(struct wf_page *p, const char *title)
{
    fprintf(p->out, "<section><h2>%s</h2>\n", title);
}

void wf_page_section_end(struct wf_page *p)
{
    fputs("</section>\n", p->out);
}

void wf_page_cell(struct wf_page *p, enum wf_unit unit, double value)
{
    char words[WF_FORMAT_LEN];
    fprintf(p->out, "<td>%s</td>", isfinite(value) ? wf_unit_format(words, unit, value) : "");
}

/* -- figures at the top -------------------------------------------------------------------- */

static const char *state_words(enum wf_run_state state)
{
    static const char *const words[] = {"no steps yet", "running", "stopped", "finished"};
    return words[state];
}

static const char *state_class(enum wf_run_state state)
{
    static const char *const names[] = {"empty", "going", "stopped", "finished"};
    return names[state];
}

static void put_tile(struct wf_page *p, const char *name, enum wf_unit unit, double value,
                     const char *below, enum wf_unit below_unit, double below_value)
{
    char words[WF_FORMAT_LEN];
    if (!isfinite(value))
        return;
    fprintf(p->out, "<div><dt>%s</dt><dd>%s</dd>", name, wf_unit_format(words, unit, value));
    if (isfinite(below_value))
        fprintf(p->out, "<dd class=\"below\">%s %s</dd>", below,
                wf_unit_format(words, below_unit, below_value));
    fputs("</div>\n", p->out);
}

static double max_memory(const struct wf_run *run, bool planned)
{
    double max = NAN;
    for (size_t i = 0; run->has_plan && i < run->plan.n_ranks; i++)
        max = fmax(max, planned ? (double)run->plan.ranks[i].planned_bytes
                                : (double)run->plan.ranks[i].bytes.total);
    return max;
}

static double steps_left_ms(const struct wf_run *run)
{
    double last = wf_run_last(run, WF_RUN_COLUMN(step));
    if (!run->has_settings || isnan(last))
        return NAN;
    return ((double)run->settings.train.steps - last) *
           wf_run_mean(run, WF_RUN_COLUMN(ms), RECENT);
}

static void put_tiles(struct wf_page *p, const struct wf_run *run)
{
    double bubble = wf_run_mean(run, WF_RUN_COLUMN(bubble), RECENT);
    double first = run->n_points > 0 ? run->points[0].loss : NAN;
    bool going = wf_run_state(run, p->now) == WF_RUN_STATE_RUNNING;

    fputs("<dl class=\"tiles\">\n", p->out);
    put_tile(p, "loss", WF_UNIT_LOSS, wf_run_last(run, WF_RUN_COLUMN(loss)), "from",
             WF_UNIT_LOSS, first);
    put_tile(p, "validation", WF_UNIT_LOSS, wf_run_last(run, WF_RUN_COLUMN(val_loss)), "best",
             WF_UNIT_LOSS, wf_run_min(run, WF_RUN_COLUMN(val_loss)));
    put_tile(p, "tokens per second", WF_UNIT_COUNT,
             wf_run_mean(run, WF_RUN_COLUMN(tok_s), RECENT), "total", WF_UNIT_SHORT,
             wf_run_sum(run, WF_RUN_COLUMN(tokens)));
    put_tile(p, "time per step", WF_UNIT_MS, wf_run_mean(run, WF_RUN_COLUMN(ms), RECENT),
             going ? "remaining" : "total", WF_UNIT_MS,
             going ? steps_left_ms(run) : wf_run_sum(run, WF_RUN_COLUMN(ms)));

    if (bubble > 0)
        put_tile(p, "bubble", WF_UNIT_PERCENT, bubble, "planned", WF_UNIT_PERCENT,
                 wf_run_last(run, WF_RUN_COLUMN(bubble_plan)));
    put_tile(p, "utilization", WF_UNIT_PERCENT, wf_run_mean(run, WF_RUN_COLUMN(mfu), RECENT),
             "", WF_UNIT_PERCENT, NAN);
    put_tile(p, "memory per rank", WF_UNIT_BYTES, max_memory(run, false), "planned",
             WF_UNIT_BYTES, max_memory(run, true));

    fputs("</dl>\n", p->out);
}

/* Writes the state of the run, the steps ("step 40 of 40"), the model and the layout. */
static void put_summary(struct wf_page *p, const struct wf_run *run)
{
    FILE *out = p->out;
    enum wf_run_state state = wf_run_state(run, p->now);
    char words[WF_FORMAT_LEN];
    double last = wf_run_last(run, WF_RUN_COLUMN(step));

    fprintf(out, "<p class=\"lead\"><b class=\"state %s\">%s</b>", state_class(state),
            state_words(state));
    if (isfinite(last))
        fprintf(out, " <span>step %s", wf_unit_format(words, WF_UNIT_COUNT, last));
    if (isfinite(last) && run->has_settings)
        fprintf(out, " of %s",
                wf_unit_format(words, WF_UNIT_COUNT, (double)run->settings.train.steps));
    if (isfinite(last))
        fputs("</span>", out);
    if (run->has_plan)
        fprintf(out, " <span>%s, %s parameters</span>", weft_arch_name(run->plan.model.arch),
                wf_unit_format(words, WF_UNIT_SHORT, (double)run->plan.n_params));

    if (run->has_settings) {
        const struct wf_train_settings *s = &run->settings;
        fprintf(out, " <span>%u rank%s", s->parallel.pp * s->parallel.dp,
                s->parallel.pp * s->parallel.dp == 1 ? "" : "s");
        if (s->parallel.dp > 1)
            fprintf(out, " (%u \xc3\x97 %u)", s->parallel.pp, s->parallel.dp);
        fputs("</span>", out);
        if (s->parallel.pp > 1 && s->parallel.schedule != NULL) {
            const char *slash = strrchr(s->parallel.schedule, '/');
            fputs(" <span>", out);
            if (!wf_html_put_text(out, slash == NULL ? s->parallel.schedule : slash + 1))
                p->failed = true;
            fputs("</span>", out);
        }
    }

    if (run->n_restarts > 0)
        fprintf(out, " <span>restarted %zu time%s</span>", run->n_restarts,
                run->n_restarts == 1 ? "" : "s");
    if (run->n_malformed > 0)
        fprintf(out, " <span>%zu malformed line%s of metrics</span>", run->n_malformed,
                run->n_malformed == 1 ? "" : "s");
    fputs("</p>\n", out);
}

/* Writes a table with one row per run. */
static void put_runs_table(struct wf_page *p)
{
    fputs("<div class=\"wide\"><table><thead><tr><th>run</th><th>state</th><th>step</th>"
          "<th>loss</th><th>validation</th><th>tokens per second</th><th>time per step</th>"
          "<th>bubble</th><th>memory per rank</th></tr></thead><tbody>\n",
          p->out);
    for (size_t i = 0; i < p->n; i++) {
        const struct wf_run *run = &p->runs[i];
        fprintf(p->out, "<tr><th><i class=\"dot c%zu\"></i>", i % 8);
        wf_escape_markup(p->out, run->name);
        fprintf(p->out, "</th><td>%s</td>", state_words(wf_run_state(run, p->now)));
        wf_page_cell(p, WF_UNIT_COUNT, wf_run_last(run, WF_RUN_COLUMN(step)));
        wf_page_cell(p, WF_UNIT_LOSS, wf_run_last(run, WF_RUN_COLUMN(loss)));
        wf_page_cell(p, WF_UNIT_LOSS, wf_run_last(run, WF_RUN_COLUMN(val_loss)));
        wf_page_cell(p, WF_UNIT_COUNT, wf_run_mean(run, WF_RUN_COLUMN(tok_s), RECENT));
        wf_page_cell(p, WF_UNIT_MS, wf_run_mean(run, WF_RUN_COLUMN(ms), RECENT));
        wf_page_cell(p, WF_UNIT_PERCENT, wf_run_mean(run, WF_RUN_COLUMN(bubble), RECENT));
        wf_page_cell(p, WF_UNIT_BYTES, max_memory(run, false));
        fputs("</tr>\n", p->out);
    }
    fputs("</tbody></table></div>\n", p->out);
}

/* -- the page ------------------------------------------------------------------------------ */

void wf_page_policy(FILE *out, bool live, bool header)
{
    fputs("default-src 'none'; script-src ", out);
    wf_sha256_policy(out, wf_report_script, wf_report_script_len);
    fputs("; style-src ", out);
    wf_sha256_policy(out, wf_report_style, wf_report_style_len);
    fprintf(out, "%s; base-uri 'none'; form-action 'none'%s",
            live ? "; connect-src 'self'" : "", header ? "; frame-ancestors 'none'" : "");
}

static void put_title(FILE *out, const struct wf_page *p)
{
    for (size_t i = 0; i < p->n && i < 4; i++) {
        fputs(i > 0 ? ", " : "", out);
        wf_escape_markup(out, p->runs[i].name);
    }
    if (p->n > 4)
        fprintf(out, " and %zu more", p->n - 4);
}

static void put_head(struct wf_page *p, bool live)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"",
          p->out);
    wf_page_policy(p->out, live, false);
    fputs("\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"referrer\" content=\"no-referrer\">\n<title>",
          p->out);
    put_title(p->out, p);
    fputs(" \xc2\xb7 weft</title>\n<style>", p->out);
    fwrite(wf_report_style, 1, wf_report_style_len, p->out);
    fputs("</style>\n</head>\n<body>\n", p->out);
}

static void put_details(struct wf_page *p, const struct wf_run *run)
{
    wf_page_time(p, run);
    wf_page_timeline(p, run);
    wf_page_bubble(p, run);
    wf_page_memory(p, run);
    wf_page_traffic(p, run);
    wf_page_checkpoints(p, run);
    wf_page_samples(p, run);
    wf_page_settings(p, run);
}

static void put_body(struct wf_page *p)
{
    fputs("<header><h1>", p->out);
    put_title(p->out, p);
    fputs("</h1>\n", p->out);

    if (p->n == 1) {
        put_summary(p, &p->runs[0]);
        put_tiles(p, &p->runs[0]);
    } else {
        put_runs_table(p);
    }

    fputs("</header>\n<main>\n", p->out);
    wf_page_curves(p);

    for (size_t i = 0; i < p->n; i++) {
        if (p->n > 1) {
            fputs("<article><h2 class=\"run\">", p->out);
            wf_escape_markup(p->out, p->runs[i].name);
            fputs("</h2>\n", p->out);
            put_summary(p, &p->runs[i]);
        }
        put_details(p, &p->runs[i]);
        if (p->n > 1)
            fputs("</article>\n", p->out);
    }
    fputs("</main>\n", p->out);
}

static void put_script(struct wf_page *p, bool live, const char *charts, const char *timelines)
{
    fprintf(p->out,
            "<div id=\"tip\" role=\"status\"></div>\n"
            "<script type=\"application/json\" id=\"data\">{\"live\":%s,\"charts\":[%s],\n"
            "\"timelines\":[%s]}</script>\n<script>",
            live ? "true" : "false", charts, timelines);
    fwrite(wf_report_script, 1, wf_report_script_len, p->out);
    fputs("</script>\n</body>\n</html>\n", p->out);
}

enum weft_status wf_page_write(FILE *out, struct wf_run *runs, size_t n, bool live,
                               struct weft_error *err)
{
    struct wf_text charts = {0}, timelines = {0};
    struct wf_page p = {.out = out, .runs = runs, .n = n, .now = time(NULL)};
    p.charts = wf_text_open(&charts);
    p.timelines = wf_text_open(&timelines);
    p.failed = p.charts == NULL || p.timelines == NULL;

    if (!p.failed) {
        put_head(&p, live);
        put_body(&p);
    }
    if (p.charts != NULL)
        fclose(p.charts);
    if (p.timelines != NULL)
        fclose(p.timelines);
    p.failed = p.failed || charts.failed || timelines.failed;
    if (!p.failed)
        put_script(&p, live, charts.len > 0 ? charts.at : "",
                   timelines.len > 0 ? timelines.at : "");
    wf_text_release(&charts);
    wf_text_release(&timelines);
    return p.failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the page") : WEFT_OK;
}

/* -- updates ------------------------------------------------------------------------------- */

void wf_page_write_data(FILE *out, const struct wf_run *runs, size_t n)
{
    static const struct {
        const char *name;
        size_t column;
    } figures[] = {{"step", WF_RUN_COLUMN(step)},           {"loss", WF_RUN_COLUMN(loss)},
                   {"val_loss", WF_RUN_COLUMN(val_loss)},   {"lr", WF_RUN_COLUMN(lr)},
                   {"grad_norm", WF_RUN_COLUMN(grad_norm)}, {"ms", WF_RUN_COLUMN(ms)},
                   {"tok_s", WF_RUN_COLUMN(tok_s)},         {"mfu", WF_RUN_COLUMN(mfu)},
                   {"bubble", WF_RUN_COLUMN(bubble)}};

    struct wf_json j = {.out = out};
    time_t now = time(NULL);

    wf_json_begin(&j, NULL, '{');
    wf_json_string(&j, "format", "weft report");
    wf_json_uint(&j, "version", 1);
    wf_json_begin(&j, "runs", '[');

    for (size_t i = 0; i < n; i++) {
        const struct wf_run *run = &runs[i];
        wf_json_begin(&j, NULL, '{');
        wf_json_string(&j, "name", run->name);
        wf_json_string(&j, "state", state_class(wf_run_state(run, now)));
        if (run->has_settings)
            wf_json_uint(&j, "steps", run->settings.train.steps);

        for (size_t k = 0; k < WEFT_LEN(figures); k++)
            wf_json_number(&j, figures[k].name, wf_run_last(run, figures[k].column));
        wf_json_uint(&j, "checkpoints", run->n_checkpoints);
        wf_json_uint(&j, "samples", run->n_samples);
        wf_json_uint(&j, "traced", run->has_traces ? run->trace_step : 0);
        wf_json_end(&j, '}');
    }

    wf_json_end(&j, ']');
    wf_json_end(&j, '}');
    fputc('\n', out);
}

/* -- a file -------------------------------------------------------------------------------- */

enum weft_status wf_report_write(FILE *out, const char *const *dirs, size_t n,
                                 struct weft_error *err)
{
    struct wf_run *runs = calloc(n, sizeof *runs);
    enum weft_status st =
        runs == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu runs", n) : WEFT_OK;
    for (size_t i = 0; st == WEFT_OK && i < n; i++) {
        st = wf_run_init(&runs[i], dirs[i], err);
        if (st == WEFT_OK)
            st = wf_run_update(&runs[i], err);
        if (st == WEFT_OK && runs[i].problem[0] != '\0')
            st = WEFT_FAIL(err, runs[i].problem_status,
                           "%.300s; the page would be incomplete%s", runs[i].problem,
                           runs[i].problem_status == WEFT_DATA ? ": repair or remove the file"
                                                               : "");
    }

    if (st == WEFT_OK)
        st = wf_page_write(out, runs, n, false, err);
    for (size_t i = 0; runs != NULL && i < n; i++)
        wf_run_release(&runs[i]);
    free(runs);
    return st;
}
