/* Writes the page of a run to a file. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "training/report/report.h"

char *wf_report_path(const char *dir)
{
    return wf_path_join(dir, "report.html");
}

enum weft_status wf_report_write_file(const char *path, const char *const *dirs, size_t n,
                                      struct weft_error *err)
{
    char *page = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&page, &len);
    if (out == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a page");
    enum weft_status st = wf_report_write(out, dirs, n, err);
    bool failed = ferror(out) != 0;
    failed = fclose(out) != 0 || failed;
    if (st == WEFT_OK)
        st = failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a page")
                    : wf_file_write(path, page, len, err);
    free(page);
    return st;
}
