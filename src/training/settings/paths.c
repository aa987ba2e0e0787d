/* Makes the paths of a run's settings independent of the current directory, so that the run's
 * config.yaml can be used from any directory. */
#define _GNU_SOURCE /* get_current_dir_name */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/input.h"
#include "base/text.h"
#include "training/settings/settings.h"

/* Adds a path, with the current directory before it if it is relative. */
static void add_absolute(struct wf_text *out, const char *cwd, const char *path, size_t n)
{
    if (n > 0 && path[0] != '/') {
        wf_text_addf(out, "%s%s", cwd, strcmp(cwd, "/") == 0 ? "" : "/");
        while (n > 2 && path[0] == '.' && path[1] == '/') {
            path += 2;
            n -= 2;
        }
    }
    wf_text_add(out, path, n);
}

/* Adds a list of paths and patterns.  In a list, the current directory must not contain
 * characters with a meaning; the list then stays as it is. */
static void add_list(struct wf_text *out, const char *cwd, const char *list)
{
    if (access(list, F_OK) == 0 || strpbrk(list, ",*?[") == NULL) {
        add_absolute(out, cwd, list, strlen(list));
        return;
    }
    if (strpbrk(cwd, ",*?[\\") != NULL) {
        wf_text_adds(out, list);
        return;
    }
    for (const char *at = list; *at != '\0';) {
        size_t n = strcspn(at, ",");
        add_absolute(out, cwd, at, n);
        at += n;
        if (*at == ',')
            wf_text_addc(out, *at++);
    }
}

char *wf_train_settings_absolute(const char *list)
{
    struct wf_text text = {0};
    char *cwd = get_current_dir_name();
    if (cwd != NULL)
        add_list(&text, cwd, list);
    free(cwd);
    if (cwd == NULL || text.failed) {
        wf_text_release(&text);
        return NULL;
    }
    return text.at == NULL ? strdup("") : text.at;
}

static enum weft_status make_absolute(struct wf_train_settings *s, const char *name,
                                      const char *value, struct weft_error *err)
{
    if (value == NULL)
        return WEFT_OK;
    char *absolute = wf_train_settings_absolute(value);
    if (absolute == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of %s", name);
    enum weft_status st = strlen(absolute) < WF_SETTING_TEXT
                              ? wf_settings_set(wf_train_setting_list(), name, absolute, s, err)
                              : WEFT_OK; /* too long for a settings file: the path stays */
    free(absolute);
    return st;
}

static enum weft_status make_all_absolute(struct wf_train_settings *s, struct weft_error *err)
{
    WEFT_TRY(make_absolute(s, "model.dir", s->model.dir, err));
    WEFT_TRY(make_absolute(s, "data.train", s->data.train, err));
    WEFT_TRY(make_absolute(s, "data.val", s->data.val, err));
    WEFT_TRY(make_absolute(s, "data.tokenizer", s->data.tokenizer, err));
    WEFT_TRY(make_absolute(s, "log.dir", s->log.dir, err));
    if (s->checkpoint.resume_mode == WF_RESUME_PATH)
        WEFT_TRY(make_absolute(s, "checkpoint.resume", s->checkpoint.resume, err));
    const char *schedule = s->parallel.schedule; /* a name, or a file */
    if (schedule != NULL && strpbrk(schedule, "./") != NULL && wf_is_file(schedule))
        WEFT_TRY(make_absolute(s, "parallel.schedule", schedule, err));
    return WEFT_OK;
}

enum weft_status wf_train_settings_print(const struct wf_train_settings *s, struct wf_text *out,
                                         struct weft_error *err)
{
    const struct wf_setting_list list = wf_train_setting_list();
    struct wf_train_settings copy;
    struct wf_text text = {0};
    WEFT_TRY(wf_settings_init(list, &copy, err));
    wf_settings_print(list, s, &text);
    enum weft_status st = text.failed
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the settings")
                              : wf_settings_parse(list, text.at, text.len, "", &copy, err);
    if (st == WEFT_OK)
        st = make_all_absolute(&copy, err);
    if (st == WEFT_OK)
        wf_settings_print(list, &copy, out);
    if (st == WEFT_OK && out->failed)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the settings");
    wf_text_release(&text);
    wf_settings_release(list, &copy);
    return st;
}

enum weft_status wf_train_settings_set_run(struct wf_train_settings *s, const char *config,
                                           struct weft_error *err)
{
    const char *name = wf_path_name(config);
    size_t n = (size_t)(name - config);
    if (strcmp(name, "config.yaml") != 0)
        return WEFT_OK;
    char *dir = n == 0 ? strdup(".") : strndup(config, n == 1 ? 1 : n - 1);
    if (dir == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of a run");
    enum weft_status st = wf_dir_contains(dir, "lock")
                              ? wf_settings_set(wf_train_setting_list(), "log.dir", dir, s, err)
                              : WEFT_OK;
    free(dir);
    return st;
}
