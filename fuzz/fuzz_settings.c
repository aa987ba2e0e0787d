/* Parses any bytes as a settings file.  Checks that an error names a position, and that
 * accepted settings are unchanged after printing and parsing.  Bytes after a NUL are parsed
 * as one flag. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "require.h"
#include "training/settings/settings.h"

static void check_print(const struct wf_train_settings *s)
{
    struct wf_setting_list list = wf_train_setting_list();
    struct wf_train_settings back;
    struct wf_text first = {0}, second = {0};
    wf_settings_print(list, s, &first);
    require(wf_settings_init(list, &back, NULL) == WEFT_OK);
    require(wf_settings_parse(list, first.at, first.len, "f", &back, NULL) == WEFT_OK);
    wf_settings_print(list, &back, &second);
    require(first.len == second.len && memcmp(first.at, second.at, first.len) == 0);
    wf_text_release(&first);
    wf_text_release(&second);
    wf_settings_release(list, &back);
}

static enum weft_status read_all(const uint8_t *data, size_t size, struct wf_train_settings *s,
                                 struct weft_error *err)
{
    struct wf_setting_list list = wf_train_setting_list();
    const uint8_t *nul = size == 0 ? NULL : memchr(data, '\0', size);
    size_t n = nul == NULL ? size : (size_t)(nul - data);
    enum weft_status st = wf_settings_parse(list, (const char *)data, n, "f", s, err);
    if (st != WEFT_OK || nul == NULL)
        return st;
    char *flag = calloc(size - n, 1); /* the bytes after the NUL, and a terminating NUL */
    require(flag != NULL);
    memcpy(flag, nul + 1, size - n - 1);
    st = wf_settings_parse_flags(list, 1, &flag, s, err);
    free(flag);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wf_train_settings s;
    struct weft_error err = {.msg = ""};
    require(wf_settings_init(wf_train_setting_list(), &s, NULL) == WEFT_OK);
    enum weft_status st = read_all(data, size, &s, &err);
    if (st == WEFT_OK) {
        check_print(&s);
        wf_train_settings_check(&s, NULL);
    } else {
        require(st == WEFT_USAGE && err.status == st && err.msg[0] != '\0');
    }
    wf_settings_release(wf_train_setting_list(), &s);
    return 0;
}
