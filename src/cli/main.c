/* The program: finds the command, runs it, prints its error and returns the exit code. */
#include <errno.h>
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
        st = WEFT_FAIL(&err, WEFT_IO, "cannot write standard output: %s", strerror(errno));
    if (st != WEFT_OK)
        wf_error_add_hint(&err);
    if (st != WEFT_OK)
        fprintf(stderr, "weft: %s\n",
                wf_shown(err.msg[0] != '\0' ? err.msg : weft_status_text(st)).at);
    return weft_status_exit_code(st);
}
