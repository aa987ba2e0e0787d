/* Writes the report of a run that has ended. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "training/session/session_priv.h"

static enum weft_status write_page(const char *dir, const char *path, struct weft_error *err)
{
    char *page = NULL;
    size_t len = 0;
    FILE *out = path == NULL ? NULL : open_memstream(&page, &len);
    if (out == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a page");
    enum weft_status st = wf_report_write(out, &dir, 1, err);
    bool failed = ferror(out) != 0;
    failed = fclose(out) != 0 || failed;
    if (st == WEFT_OK)
        st = failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a page")
                    : wf_file_write(path, page, len, err);
    free(page);
    return st;
}

void wf_session_write_report(const struct wf_session_rank *r)
{
    const char *dir = r->settings->log.dir;
    char *path = wf_path_join(dir, "report.html");
    struct weft_error err = {0};
    if (write_page(dir, path, &err) == WEFT_OK)
        wf_session_emit(r, (struct wf_session_event){.kind = WF_SESSION_REPORT, .text = path});
    else
        wf_session_warn(r, "the report is not written: %s", err.msg);
    free(path);
}
