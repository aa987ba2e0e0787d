/* Prints the events of a session: the progress bar, step lines, and the command that resumes
 * the run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/numbers.h"
#include "base/printable.h"
#include "base/text.h"
#include "cli/train.h"
#include "training/session/stop.h"
#include "training/trainer/evaluate.h"
#include "weft/comm.h"

enum { NUMBER = WF_NUMBER_CHARS };

/* -- the bar -------------------------------------------------------------------------------- */

/* Returns the number of steps between two printed lines: 1, 2 or 5 times a power of ten, so
 * that a run prints about 20 lines. */
static uint64_t steps_between_lines(uint64_t steps)
{
    enum { LINES = 20 };
    uint64_t every = 1;
    for (unsigned i = 0; every < steps / LINES; i++)
        every = i % 3 == 1 ? every / 2 * 5 : every * 2;
    return every;
}

/* Returns a bar that is off under a launcher, even on a terminal: a launcher collects the
 * output of its ranks, possibly through a pseudoterminal. */
struct wf_bar wf_train_bar(void)
{
    struct wf_bar bar = wf_bar_make(stdout);
    bar.on = bar.on && weft_comm_launcher() == NULL;
    return bar;
}

void wf_train_catch_signals(void)
{
    bool on = wf_train_bar().on;
    wf_stop_catch_signals(
        on ? WF_BAR_CLEAR "stopping after this step; a second signal stops at once\n" : NULL,
        on ? WF_BAR_CLEAR : NULL);
}

struct wf_train_show wf_train_show_make(const struct wf_train_settings *settings)
{
    struct wf_train_show show = {.bar = wf_train_bar(), .every = settings->log.every};
    if (show.every == 0)
        show.every = show.bar.on ? steps_between_lines(settings->train.steps) : 1;
    return show;
}

static void draw_bar(struct wf_train_show *show, uint64_t step, uint64_t steps,
                     const char *const *fields, size_t n)
{
    char head[2 * NUMBER];
    if (!wf_bar_is_due(&show->bar))
        return;
    snprintf(head, sizeof head, "step %llu/%llu", (unsigned long long)step,
             (unsigned long long)steps);
    wf_bar_draw(&show->bar, (double)step / (double)steps, head, fields, n);
}

/* -- steps ---------------------------------------------------------------------------------- */

static const char *clock_text(char out[NUMBER], double seconds)
{
    unsigned long long s = seconds < 1e12 ? (unsigned long long)(seconds + 0.5) : 0;
    snprintf(out, NUMBER, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
    return out;
}

static void print_step(const struct wf_session_event *e)
{
    const struct wf_metrics_record *r = e->record;
    char rate[NUMBER], eta[NUMBER];
    printf("step %llu/%llu | loss %.4f | norm %.3f | lr %.1e | %.*f ms | %s tok/s | mfu %.1f%%",
           (unsigned long long)r->step, (unsigned long long)e->settings->train.steps, r->loss,
           r->grad_norm, r->lr, r->ms < 10 ? 2 : 0, r->ms,
           wf_grouped(rate, (unsigned long long)(r->tok_s + 0.5)), 100 * r->mfu);
    if (e->n_ranks > 1)
        printf(" | bubble %.1f%% (plan %.1f%%)", 100 * r->bubble, 100 * r->bubble_plan);
    printf(" | eta %s\n", clock_text(eta, e->seconds));
}

static void show_step(struct wf_train_show *show, const struct wf_session_event *e)
{
    const struct wf_metrics_record *r = e->record;
    char loss[NUMBER], speed[2 * NUMBER], rest[2 * NUMBER], number[NUMBER];
    const char *const fields[] = {loss, rest, speed};
    uint64_t steps = e->settings->train.steps;
    if (r->step % show->every == 0 || r->step == 1 || r->step == steps) {
        wf_bar_clear(&show->bar);
        print_step(e);
        fflush(stdout);
    }

    snprintf(loss, sizeof loss, "loss %.4f", r->loss);
    snprintf(speed, sizeof speed, "%s tok/s",
             wf_grouped(number, (unsigned long long)(r->tok_s + 0.5)));
    snprintf(rest, sizeof rest, "eta %s", clock_text(number, e->seconds));
    draw_bar(show, r->step, steps, fields, WEFT_LEN(fields));

    if (r->val_loss != 0) {
        wf_bar_clear(&show->bar);
        printf("eval %llu/%llu | val loss %.4f | perplexity %.2f\n",
               (unsigned long long)r->step, (unsigned long long)steps, r->val_loss,
               wf_perplexity(r->val_loss));
    }
}

/* -- samples -------------------------------------------------------------------------------- */

/* Adds text with an indentation.  Control characters, which could move the cursor, are replaced
 * by their numbers. */
static void add_indented(struct wf_text *out, const char *text)
{
    wf_text_adds(out, "         ");
    while (*text != '\0') {
        int n = wf_utf8_length(text);
        unsigned char c = (unsigned char)text[0];
        bool c1 = n == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0;
        if (c == '\n')
            wf_text_adds(out, "\n         ");
        else if (c == '\t')
            wf_text_adds(out, "    ");
        else if (n == 0 || c < 0x20 || c == 0x7f)
            wf_text_addf(out, "\\x%02x", c);
        else if (c1)
            wf_text_addf(out, "\\u00%02x", (unsigned char)text[1]);
        else
            wf_text_add(out, text, (size_t)n);
        text += n == 0 ? 1 : n;
    }
}

static void print_sample(const struct wf_session_event *e)
{
    struct wf_text text = {0};
    add_indented(&text, e->text);
    printf("sample %llu/%llu\n%s\n", (unsigned long long)e->step,
           (unsigned long long)e->settings->train.steps,
           text.failed ? "         (no memory to print it)" : text.at);
    wf_text_release(&text);
}

/* -- the beginning and the end -------------------------------------------------------------- */

static void print_start(const struct wf_session_event *e)
{
    const struct wf_session_start *start = e->start;
    wf_train_print_head(e->settings, start);
    if (start->info.resume_note[0] != '\0') {
        fflush(stdout);
        fprintf(stderr, "weft: warning: %s\n", wf_shown(start->info.resume_note).at);
    }
    if (!start->info.has_resumed && e->settings->checkpoint.resume_mode == WF_RESUME_NEWEST)
        printf("resumed  nothing: there is no checkpoint in %s/checkpoints\n",
               wf_shown(e->settings->log.dir).at);
    if (start->info.resumed > 0)
        printf("resumed  from the checkpoint of step %llu\n",
               (unsigned long long)start->info.resumed);
    if (start->archived_model != NULL)
        printf("         continues a finished run, whose weights are now in %s\n",
               wf_shown(start->archived_model).at);
    if (start->archived_metrics != NULL)
        printf("         replaces an unfinished run, whose metrics are now in %s\n",
               wf_shown(start->archived_metrics).at);
}

static void print_end(const struct wf_session_event *e)
{
    static const char *const reasons[] = {[WF_SESSION_END_SIGNAL] = "received a signal",
                                          [WF_SESSION_END_TIME] = "train.max_time has elapsed",
                                          [WF_SESSION_END_FAILED] = "the next step failed"};
    if (e->end != WF_SESSION_END_DONE)
        printf("stopped after step %llu of %llu: %s\n", (unsigned long long)e->step,
               (unsigned long long)e->settings->train.steps, reasons[e->end]);
}

/* Prints a word of a command with an escape for every byte that a terminal might interpret. */
static void print_escaped_word(const char *word)
{
    fputs("$'", stdout);
    for (; *word != '\0'; word++) {
        if (wf_is_printable_char(*word) && *word != '\'' && *word != '\\')
            putchar(*word);
        else
            printf("\\%03o", (unsigned)(unsigned char)*word);
    }
    putchar('\'');
}

/* Returns true if a terminal shows all characters of the text as they are. */
static bool is_shown(const char *text)
{
    for (size_t n; *text != '\0'; text += n)
        if ((n = wf_shown_length(text)) == 0)
            return false;
    return true;
}

/* Prints a word of a command, quoted for a shell if necessary. */
static void print_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-+=:,@%";
    if (word[0] != '\0' && strspn(word, plain) == strlen(word)) {
        fputs(word, stdout);
        return;
    }
    if (!is_shown(word)) {
        print_escaped_word(word);
        return;
    }
    putchar('\'');
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            fputs("'\\'", stdout);
        putchar(*word);
    }
    putchar('\'');
}

/* Prints the command that resumes the run.  config.yaml contains all settings, so the command
 * needs no other options. */
static void print_command(const char *dir, uint32_t n_ranks)
{
    char *config = wf_path_join(dir, "config.yaml");
    printf("resume   ");
    if (weft_comm_launcher() != NULL)
        printf("mpirun -n %u ", n_ranks);
    printf("weft train ");
    print_word(config == NULL ? dir : config);
    printf(" --checkpoint.resume=auto\n");
    free(config);
}

static void print_unfinished(const struct wf_session_event *e)
{
    const char *dir = e->settings->log.dir;
    if (dir == NULL) {
        printf("kept     nothing: log.dir is not set\n");
    } else if (e->step != 0) {
        print_command(dir, e->n_ranks);
    } else if (e->has_weights) {
        printf("kept     weights and metrics, but no checkpoint (checkpoint.every is off): the "
               "run cannot be resumed;\n         start a new run from these weights with "
               "--model.dir=");
        print_word(dir);
        printf("/model\n");
    } else {
        printf("kept     the metrics only: there is no checkpoint%s\n",
               e->settings->checkpoint.every == 0 ? " (checkpoint.every is off)" : "");
    }
}

/* -- events --------------------------------------------------------------------------------- */

void wf_train_show_event(void *arg, const struct wf_session_event *e)
{
    struct wf_train_show *show = arg;
    if (e->kind != WF_SESSION_EVENT_STARTED && e->kind != WF_SESSION_EVENT_STEP)
        wf_bar_clear(&show->bar);

    switch (e->kind) {
    case WF_SESSION_EVENT_LAYOUT:
        wf_train_print_choice(e->settings, e->choice);
        break;
    case WF_SESSION_EVENT_SERVING:
        printf("page     http://127.0.0.1:%u/\n", e->settings->log.serve);
        break;
    case WF_SESSION_EVENT_READY:
        print_start(e);
        break;
    case WF_SESSION_EVENT_STARTED:
        draw_bar(show, e->step, e->settings->train.steps, NULL, 0);
        break;
    case WF_SESSION_EVENT_STEP:
        show_step(show, e);
        break;
    case WF_SESSION_EVENT_SAMPLE:
        print_sample(e);
        break;
    case WF_SESSION_EVENT_CHECKPOINT:
        printf("saved    checkpoint of step %llu in %.2f s\n", (unsigned long long)e->step,
               e->seconds);
        break;
    case WF_SESSION_EVENT_WARNING:
        fprintf(stderr, "weft: warning: %s\n", wf_shown(e->text).at);
        break;
    case WF_SESSION_EVENT_ENDED:
        show->bar.on = false;
        print_end(e);
        break;
    case WF_SESSION_EVENT_MODEL_SAVED:
        printf("saved    %s\n", wf_shown(e->text).at);
        break;
    case WF_SESSION_EVENT_UNFINISHED:
        print_unfinished(e);
        break;
    case WF_SESSION_EVENT_REPORT:
        printf("report   %s\n", wf_shown(e->text).at);
        break;
    case WF_SESSION_EVENT_DRY_RUN:
        wf_train_print_dry_run(e->settings, e->dry_run);
        break;
    }
    fflush(stdout);
}
