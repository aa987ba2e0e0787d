/* weft help. */
#include "base/error.h"
#include "cli/cli.h"

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
        wf_print_man(stdout, wf_commands(), command);
    else if (settings.completion)
        wf_print_completion(stdout, wf_commands());
    else if (command == NULL)
        wf_print_overview(stdout, wf_commands());
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
