/* Prints --help, the manual pages and the shell completion from the tables of commands and options. */
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "weft/schedule.h"
#include "weft/weft.h"

static void print_option(FILE *out, const struct wf_option *o)
{
    if (o->type == WF_OPTION_HEADING) {
        fprintf(out, "\n%s:\n", o->help);
        return;
    }
    char left[80];
    int n = o->letter != 0 ? snprintf(left, sizeof left, "-%c, ", o->letter)
                           : snprintf(left, sizeof left, "    ");
    const char *value = o->choices != NULL ? o->choices : o->arg;
    snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", o->name, value ? " " : "",
             value ? value : "");
    fprintf(out, "  %-30s %s\n", left, o->help);
}

static struct wf_setting_list settings_of(const struct wf_command *c)
{
    return c->settings != NULL ? c->settings() : (struct wf_setting_list){NULL, 0};
}

/* Returns true if a section starts with this row. */
static bool begins_section(struct wf_setting_list list, size_t i)
{
    return i == 0 || strcmp(list.at[i].section, list.at[i - 1].section) != 0;
}

/* Prints the choices and the default of a setting. */
static void put_setting_values(FILE *out, const struct wf_setting *row)
{
    bool given = row->fallback[0] != '\0';
    if (row->choices != NULL)
        fprintf(out, " (%s; %s)", row->choices, row->fallback);
    else if (given)
        fprintf(out, " (%s)", row->fallback);
}

static void print_settings(FILE *out, struct wf_setting_list list)
{
    if (list.n > 0)
        fputs("\nSettings with their defaults; in a file they are keys of their sections:\n",
              out);
    for (size_t i = 0; i < list.n; i++) {
        char name[WF_SETTING_NAME + 2];
        if (begins_section(list, i))
            fputc('\n', out);
        snprintf(name, sizeof name, "--%s.%s", list.at[i].section, list.at[i].key);
        fprintf(out, "  %-30s %s", name, list.at[i].help);
        put_setting_values(out, &list.at[i]);
        fputc('\n', out);
    }
}

void wf_print_overview(FILE *out)
{
    size_t n;
    const struct wf_command *const *all = wf_commands(&n);
    fprintf(out, "usage: weft COMMAND [OPTIONS]\n\n"
                 "Plans, verifies, simulates and runs pipeline-parallel training of "
                 "transformers.\n\n");
    for (size_t i = 0; i < n; i++)
        fprintf(out, "  %-10s %s\n", all[i]->name, all[i]->summary);
    fprintf(out, "\n  weft COMMAND --help   options and examples\n"
                 "  weft --version        version and build\n");
}

void wf_print_help(FILE *out, const struct wf_command *c)
{
    fprintf(out, "usage: weft %s [OPTIONS]%s%s\n\n%s\n", c->name, c->operands ? " " : "",
            c->operands ? c->operands : "", c->text);
    for (size_t i = 0; i < c->options.n; i++)
        print_option(out, &c->options.at[i]);
    print_settings(out, settings_of(c));
    fprintf(out, "\nExamples:\n%s", c->examples);
}

static const char wf_text_of_files[] =
    "One row per rank. Cells are separated by commas; each has a stage, a kind and a\n"
    "micro-batch: 2F0 is the forward of stage 2 on micro-batch 0. F is a forward, B a full\n"
    "backward, I the gradient of the input, W that of the weights; (0F7;7B3)OVERLAP_F_B is a\n"
    "forward and a backward that run as one. A lowered schedule also has SEND_F and RECV_F (a\n"
    "stage's output, its input), SEND_B and RECV_B (the gradient of its input, of its output),\n"
    "and 2REDUCE_GRAD without a micro-batch. An empty cell is an idle step. PyTorch's pipelining\n"
    "uses the same format; its UNSHARD and RESHARD are ignored.\n\n"
    "Files written by weft have header lines before the rows: # weft schedule 1, # weft name\n"
    "NAME, # weft ranks P stages S micros M, and # weft placement with the rank of each stage,\n"
    "one line per pipeline. Other lines that start with # are comments.";

/* -- man page ------------------------------------------------------------------------------- */

/* Prints text as roff: escapes backslashes, dashes, and a dot or quote at the start of a line. */
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

/* Prints paragraphs, which are separated by empty lines. */
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
        fputs(" \\fI", out);
        put_roff(out, o->choices != NULL ? o->choices : o->arg);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    put_roff(out, o->help);
    fputs(".\n", out);
}

static void man_settings(FILE *out, struct wf_setting_list list)
{
    for (size_t i = 0; i < list.n; i++) {
        const struct wf_setting *row = &list.at[i];
        if (begins_section(list, i))
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
    man_settings(out, settings_of(c));
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
    put_paragraphs(out, wf_text_of_files);
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
    for (int st = WEFT_OK; st <= WEFT_INTERNAL; st++)
        fprintf(out, ".TP\n%d\n%s\n", weft_status_exit_code((enum weft_status)st),
                weft_status_text((enum weft_status)st));
    fputs(".TP\n130, 143\nstopped in an orderly way by an interrupt or by SIGTERM\n", out);
    fputs(".PP\nA missing or unreadable file has the code of its kind: settings and costs 2; "
          "text, tokens, tokenizers, traces and runs 3; models and checkpoints 4; schedules "
          "5. A file that cannot be written has code 8.\n",
          out);
}

/* Prints references to all other pages; `self` NULL: the page of weft itself. */
static void man_see_also(FILE *out, const struct wf_command *self)
{
    size_t n;
    const struct wf_command *const *all = wf_commands(&n);
    bool comma = self != NULL;
    fprintf(out, ".SH \"SEE ALSO\"\n%s", self != NULL ? "\\fBweft\\fR(1)" : "");
    for (size_t i = 0; i < n; i++) {
        if (all[i] == self || all[i] == &wf_command_help)
            continue;
        fprintf(out, "%s\\fBweft\\-%s\\fR(1)", comma ? ",\n" : "", all[i]->name);
        comma = true;
    }
    fputc('\n', out);
}

/* Prints the page of one command, such as weft-plan(1). */
static void print_man_of(FILE *out, const struct wf_command *c)
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
    if (c == &wf_command_plan)
        man_schedules(out);
    man_environment(out);
    man_exit_codes(out);
    man_see_also(out, c);
}

static void print_man_of_all(FILE *out)
{
    size_t n;
    const struct wf_command *const *all = wf_commands(&n);
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
    for (size_t i = 0; i < n; i++)
        man_command(out, all[i]);
    man_schedules(out);
    man_files(out);
    man_environment(out);
    man_exit_codes(out);
    man_see_also(out, NULL);
}

void wf_print_man(FILE *out, const struct wf_command *command)
{
    if (command == NULL)
        print_man_of_all(out);
    else
        print_man_of(out, command);
}

/* -- completion ----------------------------------------------------------------------------- */

static void put_choices(FILE *out, const char *choices)
{
    for (; *choices != '\0'; choices++)
        fputc(*choices == '|' ? ' ' : *choices, out);
}

/* "-s|--schedule) words='" */
static void put_pattern(FILE *out, const struct wf_option *o)
{
    fputs("        ", out);
    if (o->letter != 0)
        fprintf(out, "-%c|", o->letter);
    fprintf(out, "--%s) words='", o->name);
}

static void complete_command(FILE *out, const struct wf_command *c)
{
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    const struct wf_setting_list settings = settings_of(c);
    fprintf(out, "    %s)\n        case $prev in\n", c->name);
    for (size_t i = 0; i < c->options.n; i++) {
        const struct wf_option *o = &c->options.at[i];
        if (o->type == WF_OPTION_CHOICE) {
            put_pattern(out, o);
            put_choices(out, o->choices);
            fputs("' ;;\n", out);
        } else if (o->type == WF_OPTION_TEXT && strcmp(o->name, "schedule") == 0) {
            put_pattern(out, o);
            for (size_t k = 0; k < n; k++)
                fprintf(out, "%s%s", k > 0 ? " " : "", all[k].name);
            fputs("' ;;\n", out);
        }
    }
    for (size_t i = 0; i < settings.n; i++)
        if (settings.at[i].choices != NULL) {
            fprintf(out, "        --%s.%s) words='", settings.at[i].section,
                    settings.at[i].key);
            put_choices(out, settings.at[i].choices);
            fputs("' ;;\n", out);
        }
    fputs("        *) words='--help", out);
    for (size_t i = 0; i < c->options.n; i++)
        if (c->options.at[i].type != WF_OPTION_HEADING)
            fprintf(out, " --%s", c->options.at[i].name);
    for (size_t i = 0; i < settings.n; i++)
        fprintf(out, " --%s.%s", settings.at[i].section, settings.at[i].key);
    fputs("' ;;\n        esac ;;\n", out);
}

void wf_print_completion(FILE *out)
{
    size_t n;
    const struct wf_command *const *all = wf_commands(&n);
    fputs("# bash completion for weft\n_weft()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=''\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words='--help --version",
          out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, " %s", all[i]->name);
    fputs("'\n    else case ${COMP_WORDS[1]} in\n", out);
    for (size_t i = 0; i < n; i++)
        complete_command(out, all[i]);
    fputs("    esac; fi\n"
          "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
          "}\ncomplete -o default -F _weft weft\n",
          out);
}

/* -- weft help ------------------------------------------------------------------------------ */

struct help_settings {
    bool man, completion;
};

static const struct wf_option help_options[] = {
    {"man", 0, WF_OPTION_SWITCH, NULL, "print the manual page (roff) of weft or of one command",
     NULL, offsetof(struct help_settings, man)},
    {"completion", 0, WF_OPTION_SWITCH, NULL, "print the bash completion", NULL,
     offsetof(struct help_settings, completion)},
};

static enum weft_status run_help(int argc, char **argv, struct weft_error *err)
{
    struct help_settings settings = {0};
    const char *about = NULL;
    WEFT_TRY(wf_command_parse(&wf_command_help, argc, argv, &settings, &about, err));
    const struct wf_command *command = about == NULL ? NULL : wf_command_find(about);
    if (about != NULL && command == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "no command '%.40s' (see weft help)", about);
    if (settings.man)
        wf_print_man(stdout, command);
    else if (settings.completion)
        wf_print_completion(stdout);
    else if (command == NULL)
        wf_print_overview(stdout);
    else
        wf_print_help(stdout, command);
    return WEFT_OK;
}

const struct wf_command wf_command_help = {
    .name = "help",
    .summary = "print help, the manual pages or the shell completion",
    .operands = "[COMMAND]",
    .text = "Prints the help of weft or of one of its commands.\n",
    .examples = "  weft help plan\n"
                "  weft help --man | man -l -\n"
                "  weft help --man train | man -l -\n",
    .options = {help_options, WEFT_LEN(help_options)},
    .run = run_help,
};
