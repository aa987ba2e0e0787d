/* Writes the checkpoints, samples and settings of a run. */
#include <stdlib.h>
#include <string.h>

#include "training/report/page_priv.h"

enum { OPEN_SAMPLES = 3, MAX_SAMPLE = 4000 };

void wf_page_checkpoints(struct wf_page *p, const struct wf_run *run)
{
    if (run->n_checkpoints == 0)
        return;
    wf_page_section(p, "Checkpoints");
    fputs("<div class=\"wide\"><table><thead><tr><th>step</th><th>size</th><th>written (UTC)"
          "</th><th></th></tr></thead><tbody>\n",
          p->out);
    for (size_t i = run->n_checkpoints; i-- > 0;) {
        const struct wf_run_checkpoint *c = &run->checkpoints[i];
        char when[32] = "";
        struct tm parts;
        if (gmtime_r(&c->written, &parts) != NULL)
            strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &parts);
        fprintf(p->out, "<tr><th>%llu</th>", c->step);
        wf_page_cell(p, WF_UNIT_BYTES, (double)c->bytes);
        fprintf(p->out, "<td>%s</td><td>%s</td></tr>\n", when, c->complete ? "" : "incomplete");
    }
    fputs("</tbody></table></div>\n", p->out);
    wf_page_section_end(p);
}

static void put_sample(struct wf_page *p, const struct wf_run_sample *s)
{
    char *cut = strndup(s->text, MAX_SAMPLE);
    fprintf(p->out, "<h3>step %.0f</h3><pre>", s->step);
    p->failed = p->failed || cut == NULL;
    if (cut != NULL) {
        /* Do not cut within a UTF-8 character. */
        size_t n = strlen(cut);
        while (s->text[n] != '\0' && n > 0 && ((unsigned char)s->text[n] & 0xc0) == 0x80)
            cut[--n] = '\0';
        p->failed = !wf_html_put_text(p->out, cut) || p->failed;
    }
    fprintf(p->out, "%s</pre>\n", strlen(s->text) > MAX_SAMPLE ? " \xe2\x80\xa6" : "");
    free(cut);
}

void wf_page_samples(struct wf_page *p, const struct wf_run *run)
{
    if (run->n_samples == 0)
        return;
    wf_page_section(p, "Samples");
    for (size_t i = 0; i < run->n_samples; i++) {
        if (i == OPEN_SAMPLES)
            fprintf(p->out, "<details><summary>earlier samples (%zu)</summary>\n",
                    run->n_samples - OPEN_SAMPLES);
        put_sample(p, &run->samples[run->n_samples - 1 - i]);
    }
    if (run->n_samples > OPEN_SAMPLES)
        fputs("</details>\n", p->out);
    wf_page_section_end(p);
}

/* Writes the value of a setting.  Only the last part of a path is shown, since the page may be
 * published.  Returns false if memory runs out. */
static bool put_value(FILE *out, const char *value)
{
    bool ok = true;
    while (*value != '\0') {
        size_t n = strcspn(value, ",");
        const char *last = value;
        for (size_t i = 0; i < n; i++)
            if (value[i] == '/' && i + 1 < n)
                last = value + i + 1;
        char *part = strndup(last, (size_t)(value + n - last));
        if (last != value)
            fputs("\xe2\x80\xa6/", out);
        ok = part != NULL && wf_html_put_text(out, part) && ok;
        free(part);
        value += n;
        if (*value == ',')
            fputs(", ", out);
        value += *value == ',';
        value += strspn(value, " ");
    }
    return ok;
}

static void put_settings(struct wf_page *p, const struct wf_run *run, bool changed)
{
    struct wf_setting_list list = wf_train_setting_list();
    fputs("<div class=\"wide\"><table class=\"settings\"><tbody>\n", p->out);
    for (size_t i = 0; i < list.n; i++) {
        const struct wf_setting *row = &list.at[i];
        struct wf_text value = {0};
        if (changed && wf_setting_is_default(row, &run->settings))
            continue;
        wf_setting_add_value(row, &run->settings, &value);
        fprintf(p->out, "<tr><th>%s.%s</th><td>", row->section, row->key);
        p->failed = p->failed || value.failed;
        if (value.at != NULL && !value.failed)
            p->failed = !put_value(p->out, value.at) || p->failed;
        fputs("</td><td class=\"text\">", p->out);
        p->failed = !wf_html_put_text(p->out, row->help) || p->failed;
        fputs("</td></tr>\n", p->out);
        wf_text_release(&value);
    }
    fputs("</tbody></table></div>\n", p->out);
}

void wf_page_settings(struct wf_page *p, const struct wf_run *run)
{
    if (!run->has_settings)
        return;
    wf_page_section(p, "Settings");
    fputs("<p class=\"note\">Settings that differ from their defaults.</p>\n", p->out);
    put_settings(p, run, true);
    fputs("<details><summary>All settings</summary>\n", p->out);
    put_settings(p, run, false);
    fputs("</details>\n", p->out);
    wf_page_section_end(p);
}
