/* Writes the report of a run that has ended. */
#include <stdlib.h>

#include "base/error.h"
#include "training/session/session_priv.h"

void wf_session_write_report(const struct wf_session_rank *r)
{
    const char *dir = r->settings->log.dir;
    char *path = wf_report_path(dir);
    struct weft_error err = {0};
    enum weft_status st = path == NULL ? WEFT_FAIL(&err, WEFT_NOMEM, "no memory for a path")
                                       : wf_report_write_file(path, &dir, 1, &err);
    if (st == WEFT_OK)
        wf_session_emit(
            r, (struct wf_session_event){.kind = WF_SESSION_EVENT_REPORT, .text = path});
    else
        wf_session_warn(r, "the report is not written: %s", err.msg);
    free(path);
}
