/* Prints manual pages as roff. */
#include "manual/manual_priv.h"
#include "weft/schedule.h"
#include "weft/weft.h"

static const char schedule_files[] =
    "One row per rank. Cells are separated by commas; each has a stage, a kind and a\n"
    "micro-batch: 2F0 is the forward of stage 2 on micro-batch 0. F is a forward, B a full\n"
    "backward, I the gradient of the input, W that of the weights; (0F7;7B3)OVERLAP_F_B is a\n"
    "forward and a backward that run as one. A lowered schedule also has SEND_F and RECV_F (a\n"
    "stage's output, its input), SEND_B and RECV_B (the gradient of its input, of its output),\n"
    "and 2REDUCE_GRAD without a micro-batch. An empty cell is an idle step. PyTorch's pipelining\n"
    "uses the same format; its UNSHARD and RESHARD are ignored, and its WAIT_SEND_F, WAIT_SEND_B\n"
    "and WAIT_REDUCE_GRAD (2.15) are only checked.\n\n"
    "Files written by weft have header lines before the rows: # weft schedule 1, # weft name\n"
    "NAME, # weft ranks P stages S micros M, and # weft placement with the rank of each stage,\n"
    "one line per pipeline. Other lines that start with # are comments.";

/* Prints text as roff.  Escapes backslashes, dashes, and a dot or quote at the start of a
 * line. */
static void put_roff(FILE *out, const char *text)
{
    bool line_start = true;
    for (; *text != '\0'; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        if (*text == '\\' || *text == '-')
            fputc('\\', out);
        fputc(*text, out);
        line_start = *text == '\n';
    }
}

/* Prints paragraphs.  Empty lines separate the paragraphs of `text`. */
static void put_paragraphs(FILE *out, const char *text)
{
    const char *at = text;
    while (*at != '\0') {
        const char *end = strstr(at, "\n\n");
        size_t n = end == NULL ? strlen(at) : (size_t)(end - at);
        char part[4096];
        snprintf(part, sizeof part, "%.*s", (int)n, at);
        put_roff(out, part);
        fputs(end == NULL ? "\n" : "\n.PP\n", out);
        at += n + (end == NULL ? 0 : 2);
    }
}

static void man_option(FILE *out, const struct wf_option *o)
{
    if (o->type == WF_OPTION_HEADING) {
        fprintf(out, ".PP\n%s:\n", o->help);
        return;
    }
    fputs(".TP\n\\fB", out);
    if (o->letter != 0)
        fprintf(out, "\\-%c\\fR, \\fB", o->letter);
    fputs("\\-\\-", out);
    put_roff(out, o->name);
    fputs("\\fR", out);
    if (o->arg != NULL) {
        bool optional = o->type == WF_OPTION_OPTIONAL;
        fputs(optional ? "[=\\fI" : " \\fI", out);
        put_roff(out, o->choices != NULL && !optional ? o->choices : o->arg);
        fputs(optional ? "\\fR]" : "\\fR", out);
    }

    fputc('\n', out);
    put_roff(out, o->help);
    if (wf_option_quantity(o) != WF_QUANTITY_PLAIN)
        fprintf(out, " (%s)", wf_quantity_example(wf_option_quantity(o)));
    size_t len = strlen(o->help);
    fputs(len > 0 && o->help[len - 1] == '.' ? "\n" : ".\n", out);
}

static void man_settings(FILE *out, struct wf_setting_list list)
{
    for (size_t i = 0; i < list.n; i++) {
        const struct wf_setting *row = &list.at[i];
        if (wf_starts_section(list, i))
            fprintf(out, ".PP\nSettings of the section %s:\n", row->section);

        fputs(".TP\n\\fB\\-\\-", out);
        put_roff(out, row->section);
        fputc('.', out);
        put_roff(out, row->key);
        fputs("\\fR", out);
        if (row->choices != NULL) {
            fputs(" \\fI", out);
            put_roff(out, row->choices);
            fputs("\\fR", out);
        }

        fputc('\n', out);
        put_roff(out, row->help);
        if (row->quantity != WF_QUANTITY_PLAIN)
            fprintf(out, " (%s)", wf_quantity_example(row->quantity));
        if (row->fallback[0] != '\0') {
            fputs(" (", out);
            put_roff(out, row->fallback);
            fputc(')', out);
        }
        fputs(".\n", out);
    }
}

/* Prints options and settings, one per line. */
static void man_options(FILE *out, const struct wf_command *c)
{
    for (size_t i = 0; i < c->options.n; i++)
        man_option(out, &c->options.at[i]);
    man_settings(out, wf_command_settings(c));
}

static void man_examples(FILE *out, const struct wf_command *c)
{
    fputs(".nf\n", out);
    put_roff(out, c->examples);
    fputs(".fi\n", out);
}

static void man_usage(FILE *out, const struct wf_command *c)
{
    fprintf(out, "\\fBweft %s\\fR [\\fIoptions\\fR]%s%s\n", c->name, c->operands ? " " : "",
            c->operands ? c->operands : "");
}

static void man_command(FILE *out, const struct wf_command *c)
{
    fprintf(out, ".SH \"WEFT %s\"\n", c->name);
    man_usage(out, c);
    fputs(".PP\n", out);
    put_paragraphs(out, c->text);
    man_options(out, c);
    fputs(".PP\nExamples:\n.PP\n", out);
    man_examples(out, c);
}

static void man_schedules(FILE *out)
{
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    fputs(".SH SCHEDULES\n", out);
    for (size_t i = 0; i < n; i++) {
        fputs(".TP\n\\fB", out);
        put_roff(out, all[i].name);
        fputs("\\fR (", out);
        put_roff(out, all[i].limits);
        fputs(")\n", out);
        put_roff(out, all[i].help);
        fputc('\n', out);
    }
}

static void man_files(FILE *out)
{
    fputs(".SH \"SCHEDULE FILES\"\n", out);
    put_paragraphs(out, schedule_files);
}

static void man_environment(FILE *out)
{
    fputs(
        ".SH ENVIRONMENT\n.TP\nCOLUMNS\nwidth of drawings if the output is not a terminal\n"
        ".TP\nNO_COLOR\nno colours if set\n"
        ".TP\nTMPDIR\ndirectory for temporary files of bench pipeline (/tmp)\n"
        ".TP\nWEFT_ISA\nportable, avx2, avx512 or avx512_bf16: the most advanced instruction set to use\n"
        ".TP\nWEFT_MODULES\ndirectory of weft\\-openmpi.so and weft\\-mpich.so\n",
        out);
}

static void man_exit_codes(FILE *out)
{
    fputs(".SH \"EXIT STATUS\"\n", out);
#define MAN_STATUS(name, code, text) fprintf(out, ".TP\n%d\n%s\n", code, text);
    WEFT_STATUS_MAP(MAN_STATUS)
#undef MAN_STATUS
    fputs(".TP\n130, 143\nstopped in an orderly way by an interrupt or by SIGTERM\n", out);
    fputs(".PP\nA missing or unreadable file has the code of its kind: settings and costs 2; "
          "text, tokens, tokenizers, traces and runs 3; models and checkpoints 4; schedules "
          "5. A file that cannot be written has code 8.\n",
          out);
}

/* Prints references to all other pages.  `self` is NULL for the page of weft itself. */
static void man_see_also(FILE *out, struct wf_command_list commands,
                         const struct wf_command *self)
{
    bool comma = self != NULL;
    fprintf(out, ".SH \"SEE ALSO\"\n%s", self != NULL ? "\\fBweft\\fR(1)" : "");
    for (size_t i = 0; i < commands.n; i++) {
        if (commands.at[i] == self || strcmp(commands.at[i]->name, "help") == 0)
            continue;
        fprintf(out, "%s\\fBweft\\-%s\\fR(1)", comma ? ",\n" : "", commands.at[i]->name);
        comma = true;
    }
    fputc('\n', out);
}

/* Prints the page of one command, such as weft-plan(1). */
static void print_page(FILE *out, struct wf_command_list commands, const struct wf_command *c)
{
    fputs(".TH WEFT\\-", out);
    for (const char *at = c->name; *at != '\0'; at++)
        fputc(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at, out);
    fprintf(out, " 1 \"\" \"weft %s\" \"User Commands\"\n.SH NAME\nweft\\-%s \\- ",
            weft_version(), c->name);
    put_roff(out, c->summary);
    fputs("\n.SH SYNOPSIS\n", out);
    man_usage(out, c);
    fputs(".SH DESCRIPTION\n", out);
    put_paragraphs(out, c->text);
    fputs(".SH OPTIONS\n", out);
    man_options(out, c);
    fputs(".SH EXAMPLES\n", out);
    man_examples(out, c);
    if (strcmp(c->name, "plan") == 0)
        man_schedules(out);
    man_environment(out);
    man_exit_codes(out);
    man_see_also(out, commands, c);
}

static void print_main_page(FILE *out, struct wf_command_list commands)
{
    fprintf(
        out,
        ".TH WEFT 1 \"\" \"weft %s\" \"User Commands\"\n"
        ".SH NAME\nweft \\- plan, verify, simulate and run pipeline\\-parallel training\n"
        ".SH SYNOPSIS\n\\fBweft\\fR \\fIcommand\\fR [\\fIoptions\\fR]\n"
        ".SH DESCRIPTION\n"
        "A schedule defines which rank runs which stage on which micro\\-batch, and in which\n"
        "order. weft generates schedules, proves that they complete, and reports makespan,\n"
        "bubble and peak memory. It also trains transformers with them.\n",
        weft_version());
    for (size_t i = 0; i < commands.n; i++)
        man_command(out, commands.at[i]);
    man_schedules(out);
    man_files(out);
    man_environment(out);
    man_exit_codes(out);
    man_see_also(out, commands, NULL);
}

void wf_print_man(FILE *out, struct wf_command_list commands, const struct wf_command *command)
{
    if (command == NULL)
        print_main_page(out, commands);
    else
        print_page(out, commands, command);
}
