/* Implements weft/settings.h: lets other programs set the settings of a run. */
#include "weft/settings.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/input.h"
#include "training/embed/embed.h"
#include "training/session/session.h"

enum weft_status weft_settings_new(struct weft_settings **out, struct weft_error *err)
{
    struct weft_settings *s = calloc(1, sizeof *s);
    if (s == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for settings");
    enum weft_status st = wf_settings_init(wf_train_setting_list(), &s->train, err);
    if (st != WEFT_OK) {
        weft_settings_free(s);
        return st;
    }
    *out = s;
    return WEFT_OK;
}

void weft_settings_free(struct weft_settings *s)
{
    if (s == NULL)
        return;
    wf_settings_release(wf_train_setting_list(), &s->train);
    free(s);
}

enum weft_status weft_settings_read(struct weft_settings *s, const char *path,
                                    struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    WEFT_TRY(wf_input_read(path, &text, &len, err));
    enum weft_status st =
        wf_settings_parse(wf_train_setting_list(), text, len, path, &s->train, err);
    if (st == WEFT_OK)
        st = wf_train_settings_set_run(&s->train, path, err);
    free(text);
    return st;
}

enum weft_status weft_settings_set(struct weft_settings *s, const char *name, const char *value,
                                   struct weft_error *err)
{
    return wf_settings_set(wf_train_setting_list(), name, value, &s->train, err);
}

enum weft_status weft_settings_print(const struct weft_settings *s, char **out,
                                     struct weft_error *err)
{
    struct wf_text text = {0};
    wf_settings_print(wf_train_setting_list(), &s->train, &text);
    if (text.failed) {
        wf_text_release(&text);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the settings");
    }
    *out = text.at; /* NUL-terminated; the caller frees it */
    return WEFT_OK;
}

enum weft_status weft_settings_check(struct weft_settings *s, struct weft_error *err)
{
    return wf_session_prepare(&s->train, err);
}
