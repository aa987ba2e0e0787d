/* Parses any bytes as a command line: words that are separated by NUL, of which the first is the
 * command.  Checks that options are unchanged after printing and parsing, and that the costs,
 * models and machines of planning commands are read or refused. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/plan.h"
#include "require.h"
#include "training/settings/settings.h"

enum { MAX_WORDS = 64, SETTINGS_BYTES = 4096 };

struct words {
    char *at[MAX_WORDS]; /* borrowed: from `text` */
    int n;
    char *text; /* owned */
};

static void words_init(struct words *w, const uint8_t *data, size_t size)
{
    *w = (struct words){.text = malloc(size + 1)};
    require(w->text != NULL);
    if (size > 0)
        memcpy(w->text, data, size);
    w->text[size] = '\0';
    for (size_t at = 0; at < size && w->n < MAX_WORDS; at += strlen(w->text + at) + 1)
        w->at[w->n++] = w->text + at;
}

static void check_error(enum weft_status st, const struct weft_error *err)
{
    require(st == WEFT_USAGE && err->status == st && err->msg[0] != '\0');
}

/* Splits printed options into words, as a shell does. */
static void words_split(struct words *w, const struct wf_text *printed)
{
    *w = (struct words){.text = malloc(printed->len + 1)};
    require(w->text != NULL);
    char *to = w->text;
    bool quoted = false, in_word = false;
    for (size_t i = 0; i < printed->len; i++) {
        char c = printed->at[i];
        if (c == ' ' && !quoted) {
            *to++ = '\0';
            in_word = false;
            continue;
        }
        if (!in_word) {
            require(w->n < MAX_WORDS);
            w->at[w->n++] = to;
        }
        in_word = true;
        if (c == '\'')
            quoted = !quoted;
        else
            *to++ = c == '\\' && !quoted ? printed->at[++i] : c;
    }
    *to = '\0';
    require(!quoted);
}

/* Options that were accepted are accepted again as they are printed. */
static void check_again(struct wf_option_list options, const void *settings)
{
    char again[SETTINGS_BYTES] = {0};
    const char *operands[MAX_WORDS];
    size_t n = 0;
    struct wf_text first = {0}, second = {0};
    struct words w;
    wf_options_print(options, settings, &first);
    words_split(&w, &first);
    require(wf_options_parse(options, w.n, w.at, again, operands, &n, NULL) == WEFT_OK);
    require(n == 0);
    wf_options_print(options, again, &second);
    require(first.len == second.len);
    require(first.len == 0 || memcmp(first.at, second.at, first.len) == 0);
    wf_text_release(&first);
    wf_text_release(&second);
    free(w.text);
}

/* Reads the numbers and names in the options of a planning command, except files. */
static void check_plan(struct wf_plan_settings s)
{
    struct wf_plan_request request;
    struct wf_form form;
    struct weft_error err = {.msg = ""};
    s.cost_from = s.cost_file = NULL;
    enum weft_status st = wf_plan_request_init(&request, &s, &err);
    if (st != WEFT_OK)
        check_error(st, &err);
    wf_plan_request_release(&request);
    st = wf_form_choose(&s, ".csv .json .txt .svg", &form, &err);
    if (st != WEFT_OK)
        check_error(st, &err);
}

static void check_settings(int n, char **words)
{
    struct wf_train_settings s;
    struct weft_error err = {.msg = ""};
    const struct wf_setting_list list = wf_train_setting_list();
    require(wf_settings_init(list, &s, NULL) == WEFT_OK);
    enum weft_status st = wf_settings_parse_flags(list, n, words, &s, &err);
    if (st != WEFT_OK)
        check_error(st, &err);
    wf_settings_release(list, &s);
}

static void check_command(const struct wf_command *command, int n, char **words)
{
    _Alignas(struct wf_plan_settings) char settings[SETTINGS_BYTES] = {0};
    char *rest[MAX_WORDS];
    const char *operand = NULL;
    struct weft_error err = {.msg = ""};
    int n_rest = n;
    for (size_t i = 0; i < command->options.n; i++)
        require(command->options.at[i].offset < SETTINGS_BYTES - sizeof(void *));

    if (command->settings != NULL) {
        check_settings(n, words);
        n_rest = wf_settings_other_args(n, words, rest);
        words = rest;
    }
    enum weft_status st = wf_command_parse(command, n_rest, words, settings, &operand, &err);
    if (st != WEFT_OK) {
        check_error(st, &err);
        return;
    }
    check_again(command->options, settings);
    if (command == &wf_command_plan || command == &wf_command_simulate ||
        command == &wf_command_compare || command == &wf_command_tune)
        check_plan(*(const struct wf_plan_settings *)settings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct words w;
    words_init(&w, data, size);
    const struct wf_command *command = w.n == 0 ? NULL : wf_command_find(w.at[0]);
    if (command != NULL)
        check_command(command, w.n - 1, w.at + 1);
    free(w.text);
    return 0;
}
