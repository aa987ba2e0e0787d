/* Writes the page of a run to a file. */
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "training/report/report.h"

char *wf_report_path(const char *dir)
{
    return wf_path_join(dir, "report.html");
}

enum weft_status wf_report_write_file(const char *path, const char *const *dirs, size_t n,
                                      struct weft_error *err)
{
    struct wf_text page = {0};
    FILE *out = wf_text_open(&page);
    if (out == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a page");
    enum weft_status st = wf_report_write(out, dirs, n, err);
    fclose(out);
    if (st == WEFT_OK)
        st = page.failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a page")
                         : wf_file_write(path, page.at, page.len, err);
    wf_text_release(&page);
    return st;
}
