/* Appends metrics to metrics.jsonl. */
#include "training/run/metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

struct wf_metrics_log {
    FILE *out;  /* owned */
    char *path; /* owned: for messages */
};

void wf_metrics_rates(struct wf_metrics_record *r, double token_flops, double peak_flops)
{
    double seconds = r->ms * 1e-3;
    r->tok_s = seconds > 0 ? (double)r->tokens / seconds : 0;
    r->mfu = peak_flops > 0 ? r->tok_s * token_flops / peak_flops : 0;
}

enum weft_status wf_metrics_log_new(const char *path, struct wf_metrics_log **out,
                                    struct weft_error *err)
{
    struct wf_metrics_log *log = calloc(1, sizeof *log);
    if (log == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the metrics");
    log->path = strdup(path);
    log->out = fopen(path, "ab");
    if (log->path == NULL || log->out == NULL) {
        enum weft_status st =
            log->path == NULL
                ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the metrics")
                : WEFT_FAIL(err, WEFT_IO, "cannot open %s: %s", path, strerror(errno));
        wf_metrics_log_free(log);
        return st;
    }
    *out = log;
    return WEFT_OK;
}

enum weft_status wf_metrics_log_add(struct wf_metrics_log *log,
                                    const struct wf_metrics_record *r, struct weft_error *err)
{
    struct wf_json j = {.out = log->out};
    wf_json_begin(&j, NULL, '{');
    wf_json_uint(&j, "step", r->step);
    wf_json_number(&j, "loss", r->loss);
    wf_json_number(&j, "grad_norm", r->grad_norm);
    wf_json_number(&j, "lr", r->lr);
    wf_json_uint(&j, "tokens", r->tokens);
    wf_json_number(&j, "ms", r->ms);
    wf_json_number(&j, "tok_s", r->tok_s);
    wf_json_number(&j, "mfu", r->mfu);
    wf_json_number(&j, "bubble", r->bubble);
    wf_json_number(&j, "bubble_plan", r->bubble_plan);
    if (r->val_loss != 0)
        wf_json_number(&j, "val_loss", r->val_loss);

    wf_json_end(&j, '}');
    fputc('\n', log->out);
    if (fflush(log->out) != 0 || ferror(log->out))
        return WEFT_FAIL(err, WEFT_IO, "cannot write %s: %s", log->path, strerror(errno));
    return WEFT_OK;
}

void wf_metrics_log_free(struct wf_metrics_log *log)
{
    if (log == NULL)
        return;
    if (log->out != NULL)
        fclose(log->out);
    free(log->path);
    free(log);
}
