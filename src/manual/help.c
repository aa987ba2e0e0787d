/* Prints --help: the list of commands, or the options and settings of one command. */
#include "manual/manual_priv.h"

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
    if (o->type == WF_OPTION_OPTIONAL)
        snprintf(left + n, sizeof left - (size_t)n, "--%s[=%s]", o->name, o->arg);
    else
        snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", o->name, value ? " " : "",
                 value ? value : "");
    const char *example = wf_quantity_example(wf_option_quantity(o));
    fprintf(out, "  %-30s %s", left, o->help);
    fprintf(out, example != NULL ? " (%s)\n" : "\n", example);
}

/* Prints the choices and the default of a setting. */
static void put_setting_values(FILE *out, const struct wf_setting *row)
{
    bool given = row->fallback[0] != '\0';
    if (row->quantity != WF_QUANTITY_PLAIN)
        fprintf(out, " (%s)", wf_quantity_example(row->quantity));
    if (row->choices != NULL)
        fprintf(out, " (%s; default: %s)", row->choices, row->fallback);
    else if (given)
        fprintf(out, " (default: %s)", row->fallback);
}

static void print_settings(FILE *out, struct wf_setting_list list)
{
    if (list.n > 0)
        fputs("\nSettings; in a file they are keys of their sections:\n", out);
    for (size_t i = 0; i < list.n; i++) {
        char name[WF_SETTING_NAME + 2];
        if (wf_starts_section(list, i))
            fputc('\n', out);
        snprintf(name, sizeof name, "--%s.%s", list.at[i].section, list.at[i].key);
        fprintf(out, "  %-30s %s", name, list.at[i].help);
        put_setting_values(out, &list.at[i]);
        fputc('\n', out);
    }
}

void wf_print_overview(FILE *out, struct wf_command_list commands)
{
    fprintf(out, "usage: weft COMMAND [OPTIONS]\n\n"
                 "Plans, verifies, simulates and runs pipeline-parallel training of "
                 "transformers.\n\n");
    for (size_t i = 0; i < commands.n; i++)
        fprintf(out, "  %-10s %s\n", commands.at[i]->name, commands.at[i]->summary);
    fprintf(out, "\n  weft COMMAND --help   options and examples\n"
                 "  weft --version        version and build\n");
}

void wf_print_help(FILE *out, const struct wf_command *c)
{
    fprintf(out, "usage: weft %s [OPTIONS]%s%s\n\n%s", c->name, c->operands ? " " : "",
            c->operands ? c->operands : "", c->text);
    if (c->options.n == 0 || c->options.at[0].type != WF_OPTION_HEADING)
        fputc('\n', out); /* an empty line precedes a heading */
    for (size_t i = 0; i < c->options.n; i++)
        print_option(out, &c->options.at[i]);
    print_settings(out, wf_command_settings(c));
    fprintf(out, "\nExamples:\n%s", c->examples);
}
