/* Reads what a tokenizer.json does with a text before and after byte-pair merges.  A feature
 * that weft does not support is refused by its name. */
#include <string.h>

#include "base/error.h"
#include "base/printable.h"
#include "training/data/tokenizer_load.h"

static const char bar[] = "\xE2\x96\x81"; /* U+2581, which stands for a blank */

static bool is_type(const json_t *object, const char *type)
{
    return strcmp(wf_loader_type(object), type) == 0;
}

static bool is_text(const json_t *object, const char *key, const char *text)
{
    const char *have = json_string_value(json_object_get(object, key));
    return have != NULL && strcmp(have, text) == 0;
}

static enum weft_status unsupported(struct wf_loader *l, const char *what, const json_t *object,
                                    const char *supported)
{
    return WF_LOAD_FAIL(l, "%s '%s' is not supported (supported: %s)", what,
                        wf_printable(wf_loader_type(object)).at, supported);
}

/* Calls `read` with an object, or with each element of a Sequence. */
static enum weft_status read_each(struct wf_loader *l, const json_t *object, const char *list,
                                  int depth,
                                  enum weft_status (*read)(struct wf_loader *, const json_t *))
{
    enum { MAX_DEPTH = 4 };
    const json_t *step;
    size_t i;
    if (!is_type(object, "Sequence"))
        return read(l, object);
    if (depth > MAX_DEPTH)
        return WF_LOAD_FAIL(l, "%s are nested deeper than %d levels", list, MAX_DEPTH);
    json_array_foreach(json_object_get(object, list), i, step)
    {
        WEFT_TRY(read_each(l, step, list, depth + 1, read));
    }
    return WEFT_OK;
}

/* -- the normalizer ------------------------------------------------------------------------ */

static enum weft_status read_normalizer(struct wf_loader *l, const json_t *step)
{
    static const char *const forms[] = {[WF_UNICODE_NFC] = "NFC",
                                        [WF_UNICODE_NFD] = "NFD",
                                        [WF_UNICODE_NFKC] = "NFKC",
                                        [WF_UNICODE_NFKD] = "NFKD"};
    struct wf_pipeline *p = &l->pipe;
    for (size_t i = WF_UNICODE_NFC; i < WEFT_LEN(forms); i++) {
        if (!is_type(step, forms[i]))
            continue;
        if (p->form != WF_UNICODE_AS_IS || p->prepends || p->replaces)
            return WF_LOAD_FAIL(l, "normalizer: '%s' after another step is not supported",
                                forms[i]);
        p->form = (enum wf_unicode_form)i;
        return WEFT_OK;
    }

    if (is_type(step, "Prepend")) {
        if (!is_text(step, "prepend", bar))
            return WF_LOAD_FAIL(l, "normalizer: Prepend is supported for U+2581 only");
        p->prepends = true;
        return WEFT_OK;
    }
    if (is_type(step, "Replace")) {
        if (!is_text(json_object_get(step, "pattern"), "String", " ") ||
            !is_text(step, "content", bar))
            return WF_LOAD_FAIL(l, "normalizer: Replace is supported for a blank by U+2581 "
                                   "only");
        p->replaces = true;
        return WEFT_OK;
    }
    return unsupported(l, "normalizer", step, "NFC, NFD, NFKC, NFKD, Prepend, Replace");
}

/* -- the pre-tokenizer --------------------------------------------------------------------- */

static enum weft_status add_step(struct wf_loader *l, struct wf_step step)
{
    struct wf_steps *s = &l->pipe.steps;
    if (s->n == WF_STEPS_MAX) {
        wf_regex_free(step.regex);
        return WF_LOAD_FAIL(l, "pre_tokenizer: has more than %d steps", WF_STEPS_MAX);
    }
    /* The model works on bytes once a ByteLevel was seen. */
    step.byte_chars = !l->pipe.by_chars;
    s->at[s->n++] = step;
    return WEFT_OK;
}

static enum weft_status read_behavior(struct wf_loader *l, const json_t *step,
                                      enum wf_step_behavior *out)
{
    static const char *const names[] = {[WF_STEP_ISOLATED] = "Isolated",
                                        [WF_STEP_CONTIGUOUS] = "Contiguous",
                                        [WF_STEP_WITH_PREVIOUS] = "MergedWithPrevious",
                                        [WF_STEP_WITH_NEXT] = "MergedWithNext"};
    const char *name = json_string_value(json_object_get(step, "behavior"));
    for (size_t i = 0; i < WEFT_LEN(names) && name != NULL; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (enum wf_step_behavior)i;
            return WEFT_OK;
        }
    return WF_LOAD_FAIL(l, "pre_tokenizer: behavior '%s' of a %s is not supported",
                        name == NULL ? "" : wf_printable(name).at,
                        wf_printable(wf_loader_type(step)).at);
}

/* Appends a text as a regular expression that matches it. */
static void put_literal(struct wf_text *out, const char *text)
{
    for (; *text != '\0'; text++) {
        bool special = (*text >= '!' && *text <= '/') || (*text >= ':' && *text <= '@') ||
                       (*text >= '[' && *text <= '`') || (*text >= '{' && *text <= '~');
        if (special)
            wf_text_addc(out, '\\');
        wf_text_addc(out, *text);
    }
}

static enum weft_status add_regex(struct wf_loader *l, const char *pattern,
                                  enum wf_step_behavior behavior)
{
    struct wf_step step = {.kind = WF_STEP_REGEX, .behavior = behavior};
    struct weft_error why = {.msg = ""};
    enum weft_status st = wf_regex_new(pattern, &step.regex, &why);
    if (st == WEFT_NOMEM)
        return WEFT_FAIL(l->err, WEFT_NOMEM, "no memory for a regular expression");
    if (st != WEFT_OK)
        return WF_LOAD_FAIL(l, "pre_tokenizer: the pattern '%.60s': %.80s",
                            wf_printable(pattern).at, why.msg);
    return add_step(l, step);
}

static enum weft_status read_split(struct wf_loader *l, const json_t *step)
{
    bool invert;
    const json_t *pattern = json_object_get(step, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *text = json_string_value(json_object_get(pattern, "String"));
    enum wf_step_behavior behavior = WF_STEP_ISOLATED;
    enum wf_split known;
    WEFT_TRY(wf_loader_bool(l, step, "invert", false, &invert));
    if (invert)
        return WF_LOAD_FAIL(l, "pre_tokenizer: invert of a Split is not supported");
    WEFT_TRY(read_behavior(l, step, &behavior));
    if (regex == NULL && text == NULL)
        return WF_LOAD_FAIL(l, "pre_tokenizer: a Split has neither a Regex nor a String");

    /* The normalizer leaves no blanks. */
    if (l->pipe.replaces && text != NULL && strcmp(text, " ") == 0)
        return WEFT_OK;
    if (l->pipe.replaces)
        return WF_LOAD_FAIL(l, "pre_tokenizer: Split after Replace is not supported");
    if (regex != NULL && behavior == WF_STEP_ISOLATED && l->pipe.by_chars &&
        wf_split_find(regex, &known))
        return add_step(l, (struct wf_step){.kind = WF_STEP_PATTERN, .pattern = known});
    if (regex != NULL)
        return add_regex(l, regex, behavior);

    struct wf_text literal = {0};
    put_literal(&literal, text);
    enum weft_status st =
        literal.failed || literal.at == NULL
            ? WF_LOAD_FAIL(l, "pre_tokenizer: a Split by an empty String is not supported")
            : add_regex(l, literal.at, behavior);
    wf_text_release(&literal);
    return st;
}

static enum weft_status read_byte_level(struct wf_loader *l, const json_t *step)
{
    bool prefix, regex;
    WEFT_TRY(wf_loader_bool(l, step, "add_prefix_space", true, &prefix));
    WEFT_TRY(wf_loader_bool(l, step, "use_regex", true, &regex));
    if (!l->pipe.by_chars)
        return WF_LOAD_FAIL(l, "pre_tokenizer: ByteLevel twice is not supported");
    if (prefix && l->pipe.steps.n > 0)
        return WF_LOAD_FAIL(l, "pre_tokenizer: add_prefix_space after another step is not "
                               "supported");
    if (regex)
        WEFT_TRY(
            add_step(l, (struct wf_step){.kind = WF_STEP_PATTERN, .pattern = WF_SPLIT_GPT2}));
    l->pipe.by_chars = false;
    l->pipe.prefix = prefix ? WF_PREFIX_ALWAYS : WF_PREFIX_NEVER;
    return WEFT_OK;
}

static enum weft_status read_digits(struct wf_loader *l, const json_t *step)
{
    bool each;
    WEFT_TRY(wf_loader_bool(l, step, "individual_digits", false, &each));
    return add_step(l,
                    (struct wf_step){.kind = each ? WF_STEP_EACH_DIGIT : WF_STEP_DIGITS,
                                     .behavior = each ? WF_STEP_ISOLATED : WF_STEP_CONTIGUOUS});
}

static enum weft_status read_metaspace(struct wf_loader *l, const json_t *step)
{
    static const char *const schemes[] = {[WF_PREFIX_NEVER] = "never",
                                          [WF_PREFIX_FIRST] = "first",
                                          [WF_PREFIX_ALWAYS] = "always"};
    const json_t *scheme = json_object_get(step, "prepend_scheme");
    bool split, prefix;
    WEFT_TRY(wf_loader_bool(l, step, "split", true, &split));
    WEFT_TRY(wf_loader_bool(l, step, "add_prefix_space", true, &prefix));
    if (l->pipe.metaspace || l->pipe.replaces || l->pipe.steps.n > 0)
        return WF_LOAD_FAIL(l, "pre_tokenizer: Metaspace after another step is not supported");
    if (!is_text(step, "replacement", bar))
        return WF_LOAD_FAIL(l, "pre_tokenizer: Metaspace is supported for U+2581 only");

    l->pipe.metaspace = true;
    l->pipe.prefix = prefix ? WF_PREFIX_ALWAYS : WF_PREFIX_NEVER;
    for (size_t i = 0; i < WEFT_LEN(schemes) && scheme != NULL; i++)
        if (is_text(step, "prepend_scheme", schemes[i]))
            l->pipe.prefix = (enum wf_prefix)i;
    return split ? add_regex(l, " ", WF_STEP_WITH_NEXT) : WEFT_OK;
}

static enum weft_status read_pre_tokenizer(struct wf_loader *l, const json_t *step)
{
    if (l->pipe.metaspace)
        return WF_LOAD_FAIL(l, "pre_tokenizer: '%s' after Metaspace is not supported",
                            wf_printable(wf_loader_type(step)).at);
    if (is_type(step, "ByteLevel"))
        return read_byte_level(l, step);
    if (is_type(step, "Split"))
        return read_split(l, step);
    if (is_type(step, "Metaspace"))
        return read_metaspace(l, step);
    if (is_type(step, "Digits"))
        return read_digits(l, step);
    if (is_type(step, "Punctuation")) {
        struct wf_step punctuation = {.kind = WF_STEP_PUNCTUATION};
        WEFT_TRY(read_behavior(l, step, &punctuation.behavior));
        return add_step(l, punctuation);
    }
    return unsupported(l, "pre_tokenizer", step,
                       "ByteLevel, Split, Digits, Punctuation, Metaspace");
}

static enum weft_status check_steps(struct wf_loader *l)
{
    const struct wf_pipeline *p = &l->pipe;
    if (p->by_chars && p->steps.n > 0 && !p->metaspace)
        return WF_LOAD_FAIL(l, "pre_tokenizer: has neither ByteLevel nor Metaspace, which is "
                               "not supported with other steps");
    if (!p->by_chars && (p->prepends || p->replaces))
        return WF_LOAD_FAIL(l, "normalizer: %s is not supported with ByteLevel",
                            p->prepends ? "Prepend" : "Replace");
    if (p->prepends && !p->replaces)
        return WF_LOAD_FAIL(l, "normalizer: Prepend without Replace is not supported");
    return WEFT_OK;
}

/* -- the decoder --------------------------------------------------------------------------- */

static enum weft_status read_decoder(struct wf_loader *l, const json_t *step)
{
    struct wf_pipeline *p = &l->pipe;
    if (is_type(step, "ByteLevel"))
        return p->by_chars ? WF_LOAD_FAIL(l, "decoder: is ByteLevel, but pre_tokenizer has no "
                                             "ByteLevel")
                           : WEFT_OK;
    if (is_type(step, "ByteFallback") || is_type(step, "Fuse"))
        return WEFT_OK;
    if (is_type(step, "Replace") && p->by_chars &&
        is_text(json_object_get(step, "pattern"), "String", bar) &&
        is_text(step, "content", " "))
        return WEFT_OK;

    if (is_type(step, "Strip") && is_text(step, "content", " ") &&
        json_integer_value(json_object_get(step, "start")) <= 1 &&
        json_integer_value(json_object_get(step, "stop")) == 0) {
        p->strips_space = json_integer_value(json_object_get(step, "start")) == 1;
        return WEFT_OK;
    }
    if (is_type(step, "Metaspace") && p->by_chars) {
        p->strips_space = !is_text(step, "prepend_scheme", "never");
        return WEFT_OK;
    }
    return unsupported(l, "decoder", step,
                       p->by_chars ? "Replace, ByteFallback, Fuse, Strip, Metaspace"
                                   : "ByteLevel");
}

/* -- the model ----------------------------------------------------------------------------- */

static enum weft_status read_model(struct wf_loader *l, const json_t *model)
{
    static const char *const texts[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *dropout = json_object_get(model, "dropout");
    if (!json_is_object(model))
        return WF_LOAD_FAIL(l, "has no model; expected a tokenizer.json");
    if (!wf_is_absent(json_object_get(model, "type")) && !is_type(model, "BPE"))
        return unsupported(l, "model", model, "BPE");
    WEFT_TRY(wf_loader_bool(l, model, "byte_fallback", false, &l->pipe.byte_fallback));
    WEFT_TRY(wf_loader_bool(l, model, "fuse_unk", false, &l->pipe.fuse_unknown));
    WEFT_TRY(wf_loader_bool(l, model, "ignore_merges", false, &l->pipe.ignore_merges));
    for (size_t i = 0; i < WEFT_LEN(texts); i++) {
        const json_t *value = json_object_get(model, texts[i]);
        if (!wf_is_absent(value) && json_string_length(value) > 0)
            return WF_LOAD_FAIL(l, "model.%s is not supported", texts[i]);
    }
    if (!wf_is_absent(dropout) && json_number_value(dropout) != 0)
        return WF_LOAD_FAIL(l, "model.dropout is not supported");
    return WEFT_OK;
}

enum weft_status wf_loader_read_pipeline(struct wf_loader *l, const json_t *root)
{
    const json_t *normalizer = json_object_get(root, "normalizer");
    const json_t *pre = json_object_get(root, "pre_tokenizer");
    const json_t *decoder = json_object_get(root, "decoder");
    l->pipe.by_chars = true; /* until a ByteLevel is found */
    WEFT_TRY(read_model(l, json_object_get(root, "model")));
    if (!wf_is_absent(normalizer))
        WEFT_TRY(read_each(l, normalizer, "normalizers", 0, read_normalizer));
    if (!wf_is_absent(pre))
        WEFT_TRY(read_each(l, pre, "pretokenizers", 0, read_pre_tokenizer));
    WEFT_TRY(check_steps(l));
    return wf_is_absent(decoder) ? WEFT_OK : read_each(l, decoder, "decoders", 0, read_decoder);
}

/* -- the post-processor -------------------------------------------------------------------- */

static enum weft_status read_template(struct wf_loader *l, const json_t *post)
{
    struct weft_tokenizer *t = l->t;
    const json_t *part, *tokens = json_object_get(post, "special_tokens");
    size_t i, k;
    if (!is_type(post, "TemplateProcessing"))
        return WEFT_OK;

    json_array_foreach(json_object_get(post, "single"), i, part)
    {
        const char *name =
            json_string_value(json_object_get(json_object_get(part, "SpecialToken"), "id"));
        if (name == NULL)
            return WEFT_OK;
        const json_t *id, *ids = json_object_get(json_object_get(tokens, name), "ids");
        json_array_foreach(ids, k, id)
        {
            json_int_t n = json_integer_value(id);
            if (!json_is_integer(id) || n < 0 || n >= t->n_vocab)
                return WF_LOAD_FAIL(l,
                                    "post_processor: '%s' has an id that is not in the "
                                    "vocabulary",
                                    wf_printable(name).at);
            if (t->n_prompt_prefix < WF_MAX_PREFIX_TOKENS)
                t->prompt_prefix[t->n_prompt_prefix++] = (int32_t)n;
        }
    }
    return WEFT_OK;
}

enum weft_status wf_loader_read_prefix(struct wf_loader *l, const json_t *post)
{
    return wf_is_absent(post) ? WEFT_OK : read_each(l, post, "processors", 0, read_template);
}
