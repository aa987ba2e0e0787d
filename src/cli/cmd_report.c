/* weft report: writes or serves the report of one or several runs. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "cli/cli.h"
#include "training/report/report.h"

enum { MAX_RUNS = 100 };

struct report_settings {
    const char *output;
    bool serve;
    uint32_t port;
};

#define AT(field) offsetof(struct report_settings, field)

static const struct wf_option options[] = {
    {"output", 'o', WF_OPTION_TEXT, "FILE",
     "output file (default: report.html in the first RUN)", NULL, AT(output)},
    {"serve", 0, WF_OPTION_SWITCH, NULL,
     "serve the page to this machine until Ctrl-C, and update it during the run", NULL,
     AT(serve)},
    {"port", 0, WF_OPTION_COUNT, "N", "port to serve at: http://127.0.0.1:N/ (default: 8384)",
     NULL, AT(port)},
};

static enum weft_status check_runs(const char *const *dirs, size_t n, struct weft_error *err)
{
    struct stat info;
    for (size_t i = 0; i < n; i++) {
        bool found = stat(dirs[i], &info) == 0;
        enum weft_status st = found ? WEFT_OK : wf_errno_status(errno, WEFT_DATA);
        if (st != WEFT_OK && st != WEFT_DATA)
            return WEFT_FAIL(err, st, "%.200s: %s", dirs[i], strerror(errno));
        if (!found || !S_ISDIR(info.st_mode))
            return WEFT_FAIL(err, WEFT_DATA,
                             "%.200s %s; expected the directory of a run (weft train "
                             "--log.dir=DIR makes one)",
                             dirs[i], found ? "is a file" : "does not exist");
    }
    return WEFT_OK;
}

static enum weft_status write_page(const char *const *dirs, size_t n, const char *path,
                                   struct weft_error *err)
{
    struct wf_output sink;
    char *own = path == NULL ? wf_report_path(dirs[0]) : NULL;
    if (path == NULL && own == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path");
    const char *to = path == NULL ? own : path;
    enum weft_status st = wf_output_open(&sink, to, err);
    if (st == WEFT_OK)
        st = wf_output_close(&sink, wf_report_write(sink.out, dirs, n, err), err);
    free(own);
    return st;
}

/* Waits for SIGINT or SIGTERM, then stops the server. */
static enum weft_status serve(const char *const *dirs, size_t n, uint32_t port,
                              struct weft_error *err)
{
    struct wf_report_server *server = NULL;
    sigset_t signals;
    int which;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    WEFT_TRY(wf_report_server_start(dirs, n, (uint16_t)port, &server, err));
    printf("serving http://127.0.0.1:%u/ to this machine; press Ctrl-C to stop\n",
           (unsigned)wf_report_server_port(server));
    fflush(stdout);
    sigwait(&signals, &which);
    wf_report_server_stop(server);
    return WEFT_OK;
}

static enum weft_status check(const struct report_settings *s, size_t n, struct weft_error *err)
{
    if (n == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "report needs a RUN; see weft report --help");
    if (n > MAX_RUNS)
        return WEFT_FAIL(err, WEFT_USAGE, "too many runs (%zu; maximum %d)", n, MAX_RUNS);
    if (s->serve && s->output != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "--serve writes no file; remove --output");
    if (s->port != 0 && !s->serve)
        return WEFT_FAIL(err, WEFT_USAGE, "--port needs --serve");
    if (s->port > UINT16_MAX)
        return WEFT_FAIL(err, WEFT_USAGE, "--port %u is out of range; use 1 to 65535", s->port);
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
        st = s.serve ? serve(dirs, n, s.port == 0 ? WF_REPORT_PORT : s.port, err)
                     : write_page(dirs, n, s.output, err);
    free(dirs);
    return st;
}

const struct wf_command wf_command_report = {
    .name = "report",
    .summary =
        "write a page about one or several runs: curves, timeline, bubble, memory, messages",
    .operands = "RUN...",
    .text =
        "Writes one HTML page about a run, from the directory that weft train writes: loss,\n"
        "learning rate and gradient norm, throughput, the time of a step by cause, the planned\n"
        "and the measured timeline, the bubble by cause, planned and allocated memory, bytes\n"
        "between ranks and bytes that the cache saved, checkpoints, samples, settings. The page\n"
        "is self-contained: it needs no network and no other file. Curves of several runs share\n"
        "their axes. Parts for which a run has no data are omitted.\n"
        "\n"
        "With --serve the page is served to this machine only (127.0.0.1 and ::1). It is\n"
        "updated while the run trains and does not change the run.\n",
    .examples = "  weft report runs/a\n"
                "  weft report runs/a runs/b -o both.html\n"
                "  weft report --serve runs/a\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_report,
};
