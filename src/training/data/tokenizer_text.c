/* Prepares texts: normalization, the search for added tokens, and where a text can be cut. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "training/data/tokenizer_priv.h"

/* -- normalization ------------------------------------------------------------------------- */

static const char bar[] = "\xE2\x96\x81"; /* U+2581, which stands for a blank */

enum { BAR = sizeof bar - 1 };

void wf_tokenizer_add_blanks(struct wf_text *out, const char *text, size_t len)
{
    size_t done = 0;
    for (size_t at = 0; at + BAR <= len; at++)
        if (text[at] == bar[0] && memcmp(text + at, bar, BAR) == 0) {
            wf_text_add(out, text + done, at - done);
            wf_text_addc(out, ' ');
            at += BAR - 1;
            done = at + 1;
        }
    wf_text_add(out, text + done, len - done);
}

void wf_tokenizer_normalize(const struct weft_tokenizer *t, struct wf_text *out,
                            const char *text, size_t len, bool prepends)
{
    const struct wf_pipeline *p = &t->pipe;
    struct wf_text form = {0};
    if (p->form != WF_UNICODE_AS_IS) {
        struct wf_text *to = p->replaces ? &form : out;
        if (p->prepends && prepends && len > 0 && !p->replaces)
            wf_text_addc(out, ' ');
        wf_unicode_normalize(to, text, len, p->form);
        if (!p->replaces)
            return;
        text = form.at != NULL ? form.at : "";
        len = form.len;
    }

    if (p->prepends && prepends && len > 0)
        wf_text_addc(out, ' ');
    if (p->replaces)
        wf_tokenizer_add_blanks(out, text, len);
    else
        wf_text_add(out, text, len);
    out->failed = out->failed || form.failed;
    wf_text_release(&form);
}

/* -- added tokens -------------------------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_letter(char c)
{
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

/* Returns true if a cut before white space that follows a letter may change this token. */
static bool is_cut(const struct wf_added *token)
{
    const char *c = token->name;
    for (; *c != '\0'; c++)
        if (is_letter(*c) && (is_space(c[1]) || (c[1] == '\0' && token->rstrip)))
            return true;
    return false;
}

static enum weft_status add_name(struct weft_tokenizer *t, size_t index, struct weft_error *err)
{
    const struct wf_added *token = &t->added[index];
    struct wf_text name = {0};
    if (!token->normalized)
        return wf_added_set_add(&t->original, token->name, strlen(token->name), index,
                                token->special, err);

    wf_tokenizer_normalize(t, &name, token->name, strlen(token->name), true);
    enum weft_status st =
        name.failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the names of added tokens")
        : name.len == 0
            ? WEFT_OK
            : wf_added_set_add(&t->normalized, name.at, name.len, index, token->special, err);
    wf_text_release(&name);
    return st;
}

/* -- cutting ------------------------------------------------------------------------------- */

static void add_join(struct weft_tokenizer *t, struct wf_token_pair pair)
{
    struct wf_token_span left = t->tokens[pair.left], right = t->tokens[pair.right];
    unsigned before = (unsigned char)t->pool.at[left.begin + left.len - 1];
    unsigned after = (unsigned char)t->pool.at[right.begin];
    unsigned bit = 256 * before + after;
    t->joins[bit / 64] |= (uint64_t)1 << bit % 64;
}

enum weft_status wf_tokenizer_finish(struct weft_tokenizer *t, struct weft_error *err)
{
    enum { PAIRS = 256 * 256 };
    for (size_t i = 0; i < t->n_added; i++) {
        WEFT_TRY(add_name(t, i, err));
        const struct wf_added *a = &t->added[i];
        t->cuts_after_letters |= a->lstrip || a->rstrip || a->single_word;
        t->never_cuts |= is_cut(a);
    }
    wf_added_set_sort(&t->original);
    wf_added_set_sort(&t->normalized);

    /* Unknown characters may be joined with any others. */
    if (!t->pipe.by_chars || !t->pipe.byte_fallback || t->pipe.ignore_merges)
        return WEFT_OK;
    t->joins = calloc(PAIRS / 64, sizeof *t->joins);
    if (t->joins == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the pairs of bytes");
    for (uint32_t i = 0; i < t->n_pairs; i++)
        add_join(t, t->pairs[i]);
    return WEFT_OK;
}

/* Returns true if U+2581 is or may be a part of these bytes. */
static bool touches_bar(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] == bar[0] || text[i] == bar[1] || text[i] == bar[2])
            return true;
    return false;
}

/* Returns true if the name of an added token may lie on both sides of a position, or before
 * it. */
static bool is_in_name(const struct weft_tokenizer *t, const char *text, size_t cut)
{
    return wf_added_set_crosses(&t->original, text, cut) ||
           wf_added_set_crosses(&t->normalized, text, cut);
}

/* Returns the last position at which no merge joins the bytes on both sides, or 0. */
static size_t cut_between_tokens(const struct weft_tokenizer *t, const char *text, size_t len)
{
    enum { AROUND = 3 };
    bool ascii = t->pipe.form != WF_UNICODE_AS_IS;
    for (size_t i = len > AROUND ? len - AROUND : 0; i > AROUND; i--) {
        unsigned char before = (unsigned char)text[i - 1], after = (unsigned char)text[i];
        bool between = (after & 0xC0) != 0x80 && (!ascii || (before < 0x80 && after < 0x80));
        if (between && wf_tokenizer_separates(t, before, after) &&
            !touches_bar(text + i - AROUND, 2 * AROUND) && !is_in_name(t, text, i))
            return i;
    }
    return 0;
}

static size_t cut_bytes(const struct weft_tokenizer *t, const char *text, size_t len)
{
    while (len > 0 && is_in_name(t, text, len))
        len--;
    return len;
}

size_t wf_tokenizer_boundary(const struct weft_tokenizer *t, const char *text, size_t len)
{
    enum { WINDOW = 1 << 16 };
    if (t->never_cuts)
        return 0;
    if (t->is_bytes)
        return cut_bytes(t, text, len);

    size_t cut;
    if (!t->pipe.by_chars) {
        cut = wf_steps_boundary(&t->pipe.steps, t->cuts_after_letters,
                                t->pipe.form != WF_UNICODE_AS_IS, text, len);
        return cut > 0 && is_in_name(t, text, cut) ? 0 : cut;
    }
    if (t->joins == NULL)
        return 0;
    cut = wf_split_cut_by_letter(text, len, WINDOW);
    if (cut > 0 && !is_in_name(t, text, cut) &&
        wf_tokenizer_separates(t, (unsigned char)text[cut - 1], (unsigned char)text[cut]))
        return cut;
    return t->cuts_after_letters ? 0 : cut_between_tokens(t, text, len);
}
