/* Prints the bash completion. */
#include "manual/manual_priv.h"
#include "weft/schedule.h"

static void put_choices(FILE *out, const char *choices)
{
    for (; *choices != '\0'; choices++)
        fputc(*choices == '|' ? ' ' : *choices, out);
}

/* Prints the start of a case such as "-s|--schedule) words='". */
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
    const struct wf_setting_list settings = wf_command_settings(c);
    fprintf(out, "    %s)\n        case $prev in\n", c->name);

    /* Values that follow an option. */
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

    /* Names of options. */
    fputs("        *) words='--help", out);
    for (size_t i = 0; i < c->options.n; i++)
        if (c->options.at[i].type != WF_OPTION_HEADING)
            fprintf(out, " --%s", c->options.at[i].name);
    for (size_t i = 0; i < settings.n; i++)
        fprintf(out, " --%s.%s", settings.at[i].section, settings.at[i].key);
    fputs("' ;;\n        esac ;;\n", out);
}

void wf_print_completion(FILE *out, struct wf_command_list commands)
{
    fputs("# bash completion for weft\n_weft()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=''\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words='--help --version",
          out);
    for (size_t i = 0; i < commands.n; i++)
        fprintf(out, " %s", commands.at[i]->name);
    fputs("'\n    else case ${COMP_WORDS[1]} in\n", out);
    for (size_t i = 0; i < commands.n; i++)
        complete_command(out, commands.at[i]);
    fputs("    esac; fi\n"
          "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
          "}\ncomplete -o default -F _weft weft\n",
          out);
}
