/* Writes one self-contained HTML page.  The page loads no file, uses no network and runs
 * only the script that is built into weft.
 *
 * The page contains the traces as JSON.  A lane is one flat list of numbers.  Each event has
 * the numbers start, length, code, stage and micro.  If code & 32 is set, then follow the
 * kind, stage and micro of the other action of a pair.  If code & 64 is set, then follow
 * bytes and peer. code & 31 is the kind. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/escape.h"
#include "base/sha256.h"
#include "planning/draw/axis.h"
#include "planning/draw/formats_priv.h"
#include "planning/draw/page_priv.h"
#include "planning/draw/palette.h"

/* Writes a number with ten digits: more than a screen can show, fewer than a double has. */
static void put_number(FILE *out, double value)
{
    if (value >= 0 && value < 1e9 && value == (double)(uint64_t)value)
        fprintf(out, "%" PRIu64, (uint64_t)value);
    else
        fprintf(out, "%.10g", value);
}

/* -- data ---------------------------------------------------------------------------------- */

static void put_event(FILE *out, const struct weft_trace_event *e)
{
    bool carries = e->bytes != 0 || e->peer != WEFT_NO_RANK;
    put_number(out, e->start);
    fputc(',', out);
    put_number(out, e->length);
    fprintf(out, ",%u,%u,%u",
            e->action.kind + (e->action.paired ? 32u : 0) + (carries ? 64u : 0),
            (unsigned)e->action.stage, e->action.micro);
    if (e->action.paired)
        fprintf(out, ",%u,%u,%u", (unsigned)e->partner.kind, (unsigned)e->partner.stage,
                e->partner.micro);
    if (carries)
        fprintf(out, ",%" PRIu64 ",%" PRId64, e->bytes,
                e->peer == WEFT_NO_RANK ? (int64_t)-1 : (int64_t)e->peer);
}

static size_t put_rank(FILE *out, const struct weft_trace *t, uint32_t rank, size_t memory)
{
    fputs("{\"stages\":[", out);
    for (size_t i = t->stage_first[rank]; i < t->stage_first[rank + 1]; i++)
        fprintf(out, "%s%u", i > t->stage_first[rank] ? "," : "", t->stages[i]);

    fputs("],\"lanes\":[", out);
    size_t i = t->first[rank];
    for (int lane = 0; lane < WEFT_LANE_COUNT; lane++) {
        fputs(lane > 0 ? ",[" : "[", out);
        size_t begin = i;
        for (; i < t->first[rank + 1] && t->events[i].lane == (enum weft_lane)lane; i++) {
            if (i > begin)
                fputc(',', out);
            put_event(out, &t->events[i]);
        }
        fputc(']', out);
    }

    fputs("],\"memory\":[", out);
    for (size_t n = 0; memory < t->n_memory && t->memory[memory].rank == rank; memory++, n++) {
        if (n > 0)
            fputc(',', out);
        put_number(out, t->memory[memory].time);
        fputc(',', out);
        put_number(out, t->memory[memory].amount);
    }

    fputs("]}", out);
    return memory;
}

static enum weft_status put_trace(FILE *out, const struct weft_trace *t,
                                  const struct wf_axis *axis, size_t index,
                                  struct weft_error *err)
{
    struct wf_text heading = {0}, figures = {0};
    size_t memory = 0;

    wf_draw_heading(&heading, t);
    enum weft_status st = wf_draw_metrics(&figures, t, axis, index, err);
    if (st == WEFT_OK && (heading.failed || figures.failed))
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a heading");
    if (st == WEFT_OK) {
        fputs("{\"name\":", out);
        wf_escape_script(out, t->name);
        fputs(",\"heading\":", out);
        wf_escape_script(out, heading.at);
        fputs(",\"figures\":", out);
        wf_escape_script(out, figures.at);
    }
    wf_text_release(&heading);
    wf_text_release(&figures);
    WEFT_TRY(st);

    fprintf(out, ",\"factor\":%.17g,\"makespan\":%.17g,\"shades\":[", axis->factor[index],
            t->makespan);
    for (uint32_t c = 0; c < t->n_chunks; c++)
        fprintf(out, "%s%u", c > 0 ? "," : "", wf_chunk_shade(c, t->n_chunks));

    fputs("],\"ranks\":[\n", out);
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        fputs(r > 0 ? ",\n" : "", out);
        memory = put_rank(out, t, r, memory);
    }
    fputs("]}", out);
    return WEFT_OK;
}

static void put_kinds(FILE *out)
{
    fputs(",\"kinds\":[", out);
    for (unsigned k = 0; k < WEFT_N_ACT_KINDS; k++)
        fprintf(out, "%s\"%s\"", k > 0 ? "," : "", weft_act_name(k));

    fputs("],\"words\":[", out);
    for (unsigned k = 0; k < WEFT_N_ACT_KINDS; k++) {
        char words[64];
        wf_draw_kind_label(k, words, sizeof words);
        fprintf(out, "%s\"%s\"", k > 0 ? "," : "", words);
    }

    fputs("],\"bands\":[", out);
    for (unsigned k = 0; k < WEFT_N_ACT_KINDS; k++)
        fprintf(out, "%s\"#%06x\"", k > 0 ? "," : "", (unsigned)wf_band_colour(k));

    fputs("],\"colours\":[", out);
    for (unsigned k = 0; k < WEFT_N_ACT_KINDS; k++) {
        fputs(k > 0 ? ",[" : "[", out);
        for (unsigned s = 0; s < WF_SHADES; s++)
            fprintf(out, "%s\"#%06x\"", s > 0 ? "," : "", (unsigned)wf_kind_colour(k, s));
        fputc(']', out);
    }
    fputc(']', out);
}

static void put_seen(FILE *out, const struct weft_trace *traces, size_t n)
{
    bool seen[WEFT_N_ACT_KINDS] = {false}, comma = false;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < traces[i].n_events; k++) {
            const struct weft_trace_event *e = &traces[i].events[k];
            seen[e->action.kind] = true;
            seen[e->partner.kind] = seen[e->partner.kind] || e->action.paired;
        }
    fputs(",\"seen\":[", out);
    for (unsigned k = 0; k < WEFT_N_ACT_KINDS; k++)
        if (seen[k]) {
            fprintf(out, "%s%u", comma ? "," : "", k);
            comma = true;
        }
    fputc(']', out);
}

static enum weft_status put_data(FILE *out, const struct weft_trace *traces, size_t n,
                                 const struct weft_draw_options *options, const char *title,
                                 const struct wf_axis *axis, struct weft_error *err)
{
    enum weft_status st = WEFT_OK;
    fputs("<script type=\"application/json\" id=\"data\">\n{\"title\":", out);
    wf_escape_script(out, title);
    fputs(",\"unit\":", out);
    wf_escape_script(out, axis->unit);
    fprintf(out, ",\"show\":%.17g,\"end\":%.17g,\"lanes\":%s", axis->show, axis->end,
            options->lanes ? "true" : "false");
    put_kinds(out);
    put_seen(out, traces, n);
    fputs(",\"traces\":[", out);
    for (size_t i = 0; st == WEFT_OK && i < n; i++) {
        fputs(i > 0 ? ",\n" : "", out);
        st = put_trace(out, &traces[i], axis, i, err);
    }
    fputs("]}\n</script>\n", out);
    return st;
}

/* -- the page ------------------------------------------------------------------------------ */

static void put_head(FILE *out, const char *title)
{
    fputs(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src ",
        out);
    wf_sha256_policy(out, wf_page_script, wf_page_script_len);
    fputs("; style-src ", out);
    wf_sha256_policy(out, wf_page_style, wf_page_style_len);
    fputs("; base-uri 'none'; form-action 'none'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          out);

    wf_escape_markup(out, title);
    fputs("</title>\n<style>", out);
    fwrite(wf_page_style, 1, wf_page_style_len, out);

    fputs(
        "</style>\n</head>\n<body>\n"
        "<header><h1></h1><p></p></header>\n<ul id=\"legend\"></ul>\n"
        "<main><canvas id=\"chart\" tabindex=\"0\" role=\"img\"></canvas>"
        "<div id=\"tip\" role=\"status\"></div></main>\n"
        "<footer><kbd>wheel</kbd> or <kbd>+</kbd> <kbd>-</kbd> zoom, <kbd>drag</kbd> or arrows "
        "move, <kbd>0</kbd> all, <kbd>n</kbd> <kbd>p</kbd> next and previous action, "
        "<kbd>j</kbd> <kbd>k</kbd> next and previous row"
        "<span class=\"lanes\">, <kbd>l</kbd> messages</span>"
        "<span class=\"shares\" hidden>; narrow actions are drawn as shares of the time</span>"
        "</footer>\n"
        "<noscript>This page needs JavaScript; the script is part of the page.</noscript>\n",
        out);
}

enum weft_status wf_write_html(FILE *out, const struct weft_trace *traces, size_t n,
                               const struct weft_draw_options *options, struct weft_error *err)
{
    struct wf_axis axis;
    struct wf_text title = {0};
    WEFT_TRY(wf_axis_init(&axis, traces, n, options->unit_seconds, err));

    if (options->title != NULL && options->title[0] != '\0')
        wf_draw_sanitize(&title, options->title);
    else if (n == 1)
        wf_draw_heading(&title, &traces[0]);
    else
        wf_text_addf(&title, "%zu traces", n);

    enum weft_status st =
        title.failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a title") : WEFT_OK;
    if (st == WEFT_OK) {
        put_head(out, title.at);
        st = put_data(out, traces, n, options, title.at, &axis, err);
        fputs("<script>", out);
        fwrite(wf_page_script, 1, wf_page_script_len, out);
        fputs("</script>\n</body>\n</html>\n", out);
    }

    wf_text_release(&title);
    wf_axis_release(&axis);
    return st;
}
