/* Parses which layers recompute their activations. */
#include "planning/spec/recompute.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* A text and the current position in it. */
struct recompute_cursor {
    const char *text, *at;
    const char *what; /* the first part of messages */
};

static size_t column(const struct recompute_cursor *c)
{
    return (size_t)(c->at - c->text) + 1;
}

static enum weft_status unexpected(const struct recompute_cursor *c, const char *allowed,
                                   struct weft_error *err)
{
    if (*c->at == '\0')
        return WEFT_FAIL(err, WEFT_USAGE, "%s: column %zu: the text ends; expected %s", c->what,
                         column(c), allowed);
    return WEFT_FAIL(err, WEFT_USAGE, "%s: column %zu: unexpected '%.20s'; expected %s",
                     c->what, column(c), c->at, allowed);
}

static void skip_blanks(struct recompute_cursor *c)
{
    while (*c->at == ' ')
        c->at++;
}

/* Reads "KIND:".  Leaves the cursor and *kind unchanged if the text does not begin with a
 * letter of a kind. */
static enum weft_status read_kind(struct recompute_cursor *c, enum weft_recompute *kind,
                                  struct weft_error *err)
{
    static const enum weft_recompute kinds[] = {WEFT_RECOMPUTE_ATTENTION, WEFT_RECOMPUTE_FULL};
    for (size_t i = 0; i < WEFT_LEN(kinds); i++) {
        const char *name = weft_recompute_name(kinds[i]);
        size_t n = strlen(name);
        if (strncmp(c->at, name, n) != 0)
            continue;
        c->at += n;
        if (*c->at != ':')
            return unexpected(c, "':' and layers, such as full:0-5", err);
        c->at++;
        *kind = kinds[i];
        return WEFT_OK;
    }
    return WEFT_OK;
}

static enum weft_status read_number(struct recompute_cursor *c, const char *what, uint32_t *out,
                                    struct weft_error *err)
{
    uint64_t n = 0;
    const struct recompute_cursor start = *c;
    if (*c->at < '0' || *c->at > '9')
        return unexpected(c, what, err);
    for (; *c->at >= '0' && *c->at <= '9'; c->at++) {
        n = 10 * n + (uint64_t)(*c->at - '0');
        if (n > WEFT_MAX_LAYERS)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "%s: column %zu: the number is too large (maximum %d)", c->what,
                             column(&start), WEFT_MAX_LAYERS);
    }
    *out = (uint32_t)n;
    return WEFT_OK;
}

static enum weft_status read_range(struct recompute_cursor *c, struct wf_recompute_range *r,
                                   struct weft_error *err)
{
    r->column = column(c);
    r->unit = *c->at == 's' ? WF_RECOMPUTE_STAGES : WF_RECOMPUTE_LAYERS;
    if (r->unit == WF_RECOMPUTE_STAGES)
        c->at++;
    const char *allowed = r->unit == WF_RECOMPUTE_STAGES
                              ? "the number of a stage"
                              : "a layer (3), layers (0-5) or stages (s0, s0-1)";

    WEFT_TRY(read_number(c, allowed, &r->first, err));
    r->last = r->first;
    if (*c->at == '-') {
        c->at++;
        WEFT_TRY(read_number(c, "the last number of the range", &r->last, err));
    }
    if (r->last < r->first)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s: column %zu: the range %u-%u is empty; expected the smaller "
                         "number first",
                         c->what, r->column, r->first, r->last);
    return WEFT_OK;
}

static enum weft_status add(struct wf_recompute_list *list, struct wf_recompute_range r,
                            struct weft_error *err)
{
    struct wf_recompute_range *at = realloc(list->at, (list->n + 1) * sizeof *at);
    if (at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of layers");
    list->at = at;
    list->at[list->n++] = r;
    return WEFT_OK;
}

static enum weft_status parse_list(const char *text, const char *what,
                                   struct wf_recompute_list *list, struct weft_error *err)
{
    struct recompute_cursor c = {text, text, what};
    struct wf_recompute_range r = {.kind = WEFT_RECOMPUTE_NONE};
    for (;;) {
        skip_blanks(&c);
        WEFT_TRY(read_kind(&c, &r.kind, err));
        if (r.kind == WEFT_RECOMPUTE_NONE)
            return unexpected(&c, "none, attention, full, auto, or a list such as full:0-5",
                              err);
        WEFT_TRY(read_range(&c, &r, err));
        WEFT_TRY(add(list, r, err));
        skip_blanks(&c);
        if (*c.at == '\0')
            return WEFT_OK;
        if (*c.at != ',')
            return unexpected(&c, "',' or the end", err);
        c.at++;
    }
}

enum weft_status wf_recompute_parse(const char *text, const char *what,
                                    struct wf_recompute_list *out, struct weft_error *err)
{
    struct wf_recompute_list list = {0};
    enum weft_status st = WEFT_OK;
    text = text == NULL ? "none" : text;
    list.automatic = strcmp(text, "auto") == 0;
    bool whole = list.automatic;
    for (int k = 0; k < WEFT_N_RECOMPUTE; k++)
        if (strcmp(text, weft_recompute_name((enum weft_recompute)k)) == 0) {
            whole = true;
            st = add(&list,
                     (struct wf_recompute_range){.kind = (enum weft_recompute)k, .column = 1},
                     err);
        }

    if (!whole)
        st = parse_list(text, what, &list, err);
    if (st != WEFT_OK) {
        wf_recompute_list_release(&list);
        return st;
    }
    *out = list;
    return WEFT_OK;
}

void wf_recompute_list_release(struct wf_recompute_list *list)
{
    free(list->at);
    *list = (struct wf_recompute_list){0};
}
