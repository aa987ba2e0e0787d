#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cli.h"
#include "training/ckpt/file.h"
#include "training/report/report.h"

enum { DEFAULT_PORT = 8384, MOST_RUNS = 100 };

struct report_settings {
    const char *output;
    bool serve;
    uint32_t port;
};

#define AT(field) offsetof(struct report_settings, field)

static const struct wf_option options[] = {
    {"output", 'o', WF_OPTION_TEXT, "FILE",
     "write there; default: report.html in the first RUN", NULL, AT(output)},
    {"serve", 0, WF_OPTION_SWITCH, NULL,
     "serve the page to this machine until Ctrl-C, anew as the run goes on", NULL, AT(serve)},
    {"port", 0, WF_OPTION_COUNT, "N", "where to serve: http://127.0.0.1:N/ (8384)", NULL,
     AT(port)},
};

static enum weft_status check_runs(const char *const *dirs, size_t n, struct weft_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!wf_is_directory(dirs[i]))
            return WEFT_FAIL(err, WEFT_DATA,
                             "%.200s %s: give the directory of a run (weft train --log.dir=DIR "
                             "makes one)",
                             dirs[i],
                             access(dirs[i], F_OK) == 0 ? "is a file" : "is not there");
    return WEFT_OK;
}

static enum weft_status write_page(const char *const *dirs, size_t n, const char *path,
                                   struct weft_error *err)
{
    struct wf_output sink;
    char *own = path == NULL ? wf_path_join(dirs[0], "report.html") : NULL;
    if (path == NULL && own == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path");
    const char *to = path == NULL ? own : path;
    enum weft_status st = wf_output_open(&sink, to, err);
    if (st == WEFT_OK)
        st = wf_output_close(&sink, wf_report_write(sink.out, dirs, n, err), err);
    free(own);
    return st;
}

/* The signals that end it are waited for, so that it ends in order. */
static enum weft_status serve(const char *const *dirs, size_t n, uint32_t port,
                              struct weft_error *err)
{
    struct wf_report_server *server = NULL;
    sigset_t ends;
    int which;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    WEFT_TRY(wf_report_server_start(dirs, n, (uint16_t)port, &server, err));
    printf("serving http://127.0.0.1:%u/ to this machine; Ctrl-C ends it\n",
           (unsigned)wf_report_server_port(server));
    fflush(stdout);
    sigwait(&ends, &which);
    wf_report_server_stop(server);
    return WEFT_OK;
}

static enum weft_status check(const struct report_settings *s, size_t n, struct weft_error *err)
{
    if (n == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "report needs a RUN: see weft report --help");
    if (n > MOST_RUNS)
        return WEFT_FAIL(err, WEFT_USAGE, "%zu runs on one page: give at most %d", n,
                         MOST_RUNS);
    if (s->serve && s->output != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "--serve writes no file: leave out --output");
    if (s->port != 0 && !s->serve)
        return WEFT_FAIL(err, WEFT_USAGE, "--port is for --serve");
    if (s->port > UINT16_MAX)
        return WEFT_FAIL(err, WEFT_USAGE, "--port %u: give 1 to 65535", s->port);
    return WEFT_OK;
}

static enum weft_status run_report(int argc, char **argv, struct weft_error *err)
{
    struct report_settings s = {0};
    const char **dirs = malloc(sizeof *dirs * ((size_t)argc + 1));
    size_t n = 0;
    if (dirs == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %d arguments", argc);
    enum weft_status st =
        wf_options_parse(wf_command_report.options, argc, argv, &s, dirs, &n, err);
    if (st == WEFT_OK)
        st = check(&s, n, err);
    if (st == WEFT_OK)
        st = check_runs(dirs, n, err);
    if (st == WEFT_OK)
        st = s.serve ? serve(dirs, n, s.port == 0 ? DEFAULT_PORT : s.port, err)
                     : write_page(dirs, n, s.output, err);
    free(dirs);
    return st;
}

const struct wf_command wf_command_report = {
    .name = "report",
    .summary = "one page about a run, or several: curves, timeline, bubble, memory, messages",
    .operands = "RUN...",
    .text =
        "Writes one page with all that is known of a run (the directory that weft train keeps):\n"
        "loss, learning rate and norm, throughput, where the time of a step went, the timeline\n"
        "as planned over the one measured, the bubble by cause, memory planned against taken,\n"
        "bytes between ranks and what the cache saved, checkpoints, samples, settings. The page\n"
        "needs nothing else: no network and no other file. Curves of several runs lie over each\n"
        "other. What a run does not have, its page lacks.\n"
        "\n"
        "With --serve the page is served to this machine alone (127.0.0.1 and ::1), follows a\n"
        "run that goes on, and changes nothing.\n",
    .examples = "  weft report runs/a\n"
                "  weft report runs/a runs/b -o both.html\n"
                "  weft report --serve runs/a\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_report,
};
