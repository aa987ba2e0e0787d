/* The program: finds the command, runs it, prints its error and returns the exit code. */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/printable.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/hints.h"
#include "compute/kern/isa.h"
#include "weft/weft.h"

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

static enum weft_status no_such_command(const char *name, struct weft_error *err)
{
    const char *names[64];
    struct wf_command_list all = wf_commands();
    for (size_t i = 0; i < all.n && i < WEFT_LEN(names); i++)
        names[i] = all.at[i]->name;
    const char *near = wf_text_nearest(name, names, all.n, sizeof names[0]);
    return WEFT_FAIL(err, WEFT_USAGE, "no command '%.40s'%s%s%s (see weft help)", name,
                     near == NULL ? "" : ": did you mean ", near == NULL ? "" : near,
                     near == NULL ? "" : "?");
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static enum weft_status check_environment(struct weft_error *err)
{
    const char *isa = getenv("WEFT_ISA");
    if (isa != NULL && !wf_isa_is_name(isa))
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "WEFT_ISA: unknown instruction set '%.40s' (expected portable, avx2, avx512 "
            "or avx512_bf16)",
            isa);
    return WEFT_OK;
}

static enum weft_status run(int argc, char **argv, struct weft_error *err)
{
    WEFT_TRY(check_environment(err));
    if (argc < 2) {
        wf_print_overview(stderr, wf_commands());
        return WEFT_FAIL(err, WEFT_USAGE, "no command is given");
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        wf_print_overview(stdout, wf_commands());
        return WEFT_OK;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("weft %s (%s), computes with %s\n", weft_version(), weft_build_info(),
               wf_isa_name(wf_isa()));
        return WEFT_OK;
    }
    const struct wf_command *command = wf_command_find(argv[1]);
    if (command == NULL)
        return no_such_command(argv[1], err);
    if (wants_help(argc - 2, argv + 2)) {
        wf_print_help(stdout, command);
        return WEFT_OK;
    }
    return command->run(argc - 2, argv + 2, err);
}

int main(int argc, char **argv)
{
    struct weft_error err = {0};
    setlocale(LC_CTYPE, "");  /* the locale affects drawing only; numbers keep the C locale */
    signal(SIGXFSZ, SIG_IGN); /* writing a file that is too large returns an error */
    enum weft_status st = run(argc, argv, &err);
    if (st == WEFT_OK && (fflush(stdout) != 0 || ferror(stdout)))
        st = WEFT_FAIL(&err, WEFT_IO, "cannot write standard output");
    if (st != WEFT_OK)
        wf_error_add_hint(&err);
    if (st != WEFT_OK)
        fprintf(stderr, "weft: %s\n",
                wf_shown(err.msg[0] != '\0' ? err.msg : weft_status_text(st)).at);
    return weft_status_exit_code(st);
}
