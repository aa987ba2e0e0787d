/* --help, the man page and the completion: all from the tables of commands and options. */
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

/* Does a section begin with this row? */
static bool begins_section(struct wf_setting_list list, size_t i)
{
    return i == 0 || strcmp(list.at[i].section, list.at[i - 1].section) != 0;
}

/* What may stand there and what stands there by default, as far as it is worth a line. */
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
        fputs("\nSettings, each with its default; in a file they are keys of their sections:\n",
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
                 "Plans pipeline-parallel training: makes a schedule, proves it, times it. And "
                 "trains.\n\n");
    for (size_t i = 0; i < n; i++)
        fprintf(out, "  %-10s %s\n", all[i]->name, all[i]->summary);
    fprintf(out, "\n  weft COMMAND --help   its options, with examples\n"
                 "  weft --version        what this is and how it was built\n");
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
    "One row a rank, cells by comma, each a stage, a kind and a micro: 2F0 is the forward of\n"
    "stage 2 on micro 0. F is a forward, B a whole backward, I the gradient of the input, W that\n"
    "of the weights; (0F7;7B3)OVERLAP_F_B is a forward and a backward that run as one. With\n"
    "messages there are also SEND_F and RECV_F (a stage's output, its input), SEND_B and RECV_B\n"
    "(the gradient of its input, of its output), and 2REDUCE_GRAD without a micro. An empty cell\n"
    "is an idle step. PyTorch's pipelining reads and writes the same; its UNSHARD and RESHARD\n"
    "are read and passed over.\n\n"
    "weft's own files have header lines before the rows: # weft schedule 1, # weft name NAME,\n"
    "# weft ranks P stages S micros M, and # weft placement with the rank of each stage, one line\n"
    "for each pipe. Other lines that start with # are comments.";

/* -- man page ------------------------------------------------------------------------------- */

/* Text in roff: backslashes and dashes escaped, a leading dot or quote kept from being a macro. */
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

/* Paragraphs are parted by empty lines. */
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

/* Options and settings, each with a line of its own. */
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
        ".SH ENVIRONMENT\n.TP\nCOLUMNS\nwidth to draw in when the output is no terminal\n"
        ".TP\nNO_COLOR\nno colours when set\n"
        ".TP\nTMPDIR\nwhere the tokens of bench pipeline are meanwhile, instead of /tmp\n"
        ".TP\nWEFT_ISA\nportable, avx2, avx512 or avx512_bf16: compute with no more than that\n"
        ".TP\nWEFT_MODULES\nfolder of weft\\-openmpi.so and weft\\-mpich.so\n",
        out);
}

static void man_exit_codes(FILE *out)
{
    fputs(".SH \"EXIT STATUS\"\n", out);
    for (int st = WEFT_OK; st <= WEFT_INTERNAL; st++)
        fprintf(out, ".TP\n%d\n%s\n", weft_status_exit_code((enum weft_status)st),
                weft_status_text((enum weft_status)st));
    fputs(".TP\n130, 143\nafter an interrupt, or SIGTERM, and an end in good order\n", out);
    fputs(".PP\nA file that is missing or cannot be read has the code of what it should have "
          "been: settings and costs 2; text, tokens, tokenizers, traces and runs 3; models and "
          "checkpoints 4; schedules 5. What cannot be written is 8.\n",
          out);
}

/* All pages but the one that they are in; NULL: that of weft itself. */
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

/* "weft-plan", as a page is called. */
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
        ".SH NAME\nweft \\- plan pipeline\\-parallel training, and prove the plan\n"
        ".SH SYNOPSIS\n\\fBweft\\fR \\fIcommand\\fR [\\fIoptions\\fR]\n"
        ".SH DESCRIPTION\n"
        "A schedule says which rank runs which stage on which micro\\-batch, in which order.\n"
        "weft makes schedules, proves that they complete, and tells their time and memory.\n"
        "It also trains transformers.\n",
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
    {"man", 0, WF_OPTION_SWITCH, NULL, "print the manual page (roff), of all or of one command",
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
        return WEFT_FAIL(err, WEFT_USAGE, "there is no command '%.40s' (weft help)", about);
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
    .summary = "what the commands do, the manual page, the shell completion",
    .operands = "[COMMAND]",
    .text = "Says what weft or one of its commands does.\n",
    .examples = "  weft help plan\n"
                "  weft help --man | man -l -\n"
                "  weft help --man train | man -l -\n",
    .options = {help_options, WEFT_LEN(help_options)},
    .run = run_help,
};
