/* The table of commands, and the parsing of their arguments. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "weft/schedule.h"

struct wf_command_list wf_commands(void)
{
    static const struct wf_command *const all[] = {
        &wf_command_plan,   &wf_command_check,    &wf_command_simulate, &wf_command_compare,
        &wf_command_tune,   &wf_command_draw,     &wf_command_tokenize, &wf_command_train,
        &wf_command_eval,   &wf_command_generate, &wf_command_convert,  &wf_command_inspect,
        &wf_command_report, &wf_command_bench,    &wf_command_help,
    };
    return (struct wf_command_list){all, WEFT_LEN(all)};
}

const struct wf_command *wf_command_find(const char *name)
{
    struct wf_command_list all = wf_commands();
    for (size_t i = 0; i < all.n; i++)
        if (strcmp(all.at[i]->name, name) == 0)
            return all.at[i];
    return NULL;
}

enum weft_status wf_command_parse(const struct wf_command *command, int argc, char **argv,
                                  void *settings, const char **operand, struct weft_error *err)
{
    const char **operands = malloc(sizeof *operands * ((size_t)argc + 1));
    const char *expected = command->operands;
    size_t n = 0;
    if (operands == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %d arguments", argc);
    enum weft_status st =
        wf_options_parse(command->options, argc, argv, settings, operands, &n, err);
    if (st == WEFT_OK && n > 0 && expected == NULL && weft_generator_find(operands[0]) != NULL)
        st = WEFT_FAIL(err, WEFT_USAGE, "did you mean weft %s --schedule %s?", command->name,
                       operands[0]);
    else if (st == WEFT_OK && n > (expected != NULL))
        st = WEFT_FAIL(err, WEFT_USAGE, "%s takes %s%s, not '%.40s'; see weft %s --help",
                       command->name, expected == NULL ? "options only" : "one ",
                       expected == NULL ? "" : expected, operands[expected != NULL],
                       command->name);
    else if (st == WEFT_OK && n == 0 && expected != NULL && expected[0] != '[')
        st = WEFT_FAIL(err, WEFT_USAGE, "%s needs %s; see weft %s --help", command->name,
                       expected, command->name);
    *operand = st == WEFT_OK && n > 0 ? operands[0] : NULL;
    free(operands);
    return st;
}
