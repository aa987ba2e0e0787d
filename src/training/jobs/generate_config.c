/* Reads config.json and generation_config.json. */
#include "training/jobs/generate_config.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"
#include "training/trainer/load.h"

enum { MAX_BYTES = 4 << 20, MAX_STOPS = 64 };

static const char generation_name[] = "generation_config.json";

struct reader {
    const char *dir;    /* borrowed: the directory of the files; NULL: there are none */
    json_t *config;     /* owned: config.json */
    json_t *generation; /* owned: generation_config.json; NULL: there is none */
    uint32_t vocab;
    struct weft_error *err;
};

#define FAIL_KEY(r, key, format, ...)                                                          \
    WEFT_FAIL((r)->err, WEFT_CKPT, "%.160s/%s: %s " format, (r)->dir, generation_name, key,    \
              __VA_ARGS__)

static enum weft_status read_json(const struct reader *r, const char *name, json_t **out)
{
    char *path = wf_path_join(r->dir, name), *text = NULL;
    size_t len = 0;
    json_error_t why;
    if (path == NULL)
        return WEFT_FAIL(r->err, WEFT_NOMEM, "no memory for the path of %s", name);
    enum weft_status st = wf_file_read(path, MAX_BYTES, &text, &len, r->err);
    json_t *json = st == WEFT_OK ? json_loadb(text, len, 0, &why) : NULL;
    if (st == WEFT_OK && !json_is_object(json))
        st = WEFT_FAIL(r->err, WEFT_CKPT, "%.160s: %s", path,
                       json != NULL ? "the file is not an object" : wf_printable(why.text).at);
    if (st == WEFT_OK)
        *out = json;
    else
        json_decref(json);
    free(text);
    free(path);
    return st;
}

/* -- tokens -------------------------------------------------------------------------------- */

/* Returns a key's value, or NULL if it is missing or null. */
static const json_t *get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

/* Returns the value of a key in generation_config.json or else in config.json. */
static const json_t *get_either(const struct reader *r, const char *key)
{
    const json_t *value = get(r->generation, key);
    return value != NULL ? value : get(r->config, key);
}

static bool is_token(const struct reader *r, const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           json_integer_value(value) < (json_int_t)r->vocab;
}

/* Stores the tokens of a number or a list of numbers.  Leaves out numbers that are not in the
 * vocabulary, because the model cannot generate them. */
static enum weft_status read_ends(const struct reader *r, const json_t *value,
                                  struct wf_generate_config *out)
{
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    out->ends = calloc(n + 1, sizeof *out->ends);
    if (out->ends == NULL)
        return WEFT_FAIL(r->err, WEFT_NOMEM, "no memory for %zu tokens", n);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(one))
            return WEFT_FAIL(r->err, WEFT_CKPT,
                             "%.200s: eos_token_id is neither a number nor a list of numbers",
                             r->dir);
        if (is_token(r, one))
            out->ends[out->n_ends++] = (int32_t)json_integer_value(one);
    }
    return WEFT_OK;
}

static enum weft_status read_tokens(const struct reader *r, const struct wf_weights_info *info,
                                    const struct wf_codec *codec,
                                    struct wf_generate_config *out)
{
    const json_t *eos = get_either(r, "eos_token_id"), *bos = get_either(r, "bos_token_id");
    int64_t end = info->eos >= 0 ? info->eos : codec->end;
    if (eos != NULL) {
        WEFT_TRY(read_ends(r, eos, out));
    } else if (end >= 0) {
        out->ends = malloc(sizeof *out->ends);
        if (out->ends == NULL)
            return WEFT_FAIL(r->err, WEFT_NOMEM, "no memory for a token");
        out->ends[out->n_ends++] = (int32_t)end;
    }

    out->start = out->n_ends > 0 ? out->ends[0] : end;
    if (is_token(r, bos))
        out->start = json_integer_value(bos);
    return WEFT_OK;
}

/* -- sampling ------------------------------------------------------------------------------ */

static enum weft_status get_number(const struct reader *r, const char *key, double *out)
{
    const json_t *value = get(r->generation, key);
    if (value == NULL)
        return WEFT_OK;
    if (!json_is_number(value))
        return FAIL_KEY(r, key, "is %s", "not a number");
    *out = json_number_value(value);
    return WEFT_OK;
}

static enum weft_status get_count(const struct reader *r, const char *key, uint32_t *out)
{
    const json_t *value = get(r->generation, key);
    if (value == NULL)
        return WEFT_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > INT32_MAX)
        return FAIL_KEY(r, key, "is not a number from 0 to %d", INT32_MAX);
    *out = (uint32_t)json_integer_value(value);
    return WEFT_OK;
}

static enum weft_status read_sampling(const struct reader *r, struct wf_sampling *out)
{
    const json_t *sample = get(r->generation, "do_sample");
    struct weft_error why = {0};
    *out = wf_sampling_defaults();
    if (json_is_true(sample)) {
        out->temperature = 1;
        WEFT_TRY(get_number(r, "temperature", &out->temperature));
        WEFT_TRY(get_count(r, "top_k", &out->top_k));
        WEFT_TRY(get_number(r, "top_p", &out->top_p));
        WEFT_TRY(get_number(r, "min_p", &out->min_p));
    } else if (json_is_false(sample)) {
        out->temperature = 0;
    }
    WEFT_TRY(get_number(r, "repetition_penalty", &out->repetition_penalty));
    if (wf_sampling_check(out, &why) != WEFT_OK)
        return WEFT_FAIL(r->err, WEFT_CKPT, "%.160s/%s: %s", r->dir, generation_name, why.msg);
    return WEFT_OK;
}

static enum weft_status add_stop(const struct reader *r, const json_t *value,
                                 struct wf_generate_config *out)
{
    const char *text = json_string_value(value);
    if (text == NULL || text[0] == '\0' || out->n_stops == MAX_STOPS)
        return FAIL_KEY(r, "stop_strings", "is not a list of up to %d strings", MAX_STOPS);
    char **larger = realloc(out->stops, (out->n_stops + 1) * sizeof *larger);
    if (larger != NULL)
        out->stops = larger;
    char *copy = strdup(text);
    if (larger == NULL || copy == NULL) {
        free(copy);
        return WEFT_FAIL(r->err, WEFT_NOMEM, "no memory for a stop string");
    }
    out->stops[out->n_stops++] = copy;
    return WEFT_OK;
}

static enum weft_status read_stops(const struct reader *r, struct wf_generate_config *out)
{
    const json_t *value = get(r->generation, "stop_strings"), *one;
    size_t i;
    if (value != NULL && !json_is_array(value))
        return add_stop(r, value, out);
    json_array_foreach(value, i, one)
    {
        WEFT_TRY(add_stop(r, one, out));
    }
    return WEFT_OK;
}

/* -- keys that are ignored ----------------------------------------------------------------- */

/* Keys that change the text in transformers but not in weft, with the value that has no
 * effect. */
static const struct {
    const char *key;
    double neutral;
} ignored[] = {
    {"num_beams", 1},
    {"num_beam_groups", 1},
    {"penalty_alpha", 0},
    {"typical_p", 1},
    {"epsilon_cutoff", 0},
    {"eta_cutoff", 0},
    {"encoder_repetition_penalty", 1},
    {"no_repeat_ngram_size", 0},
    {"encoder_no_repeat_ngram_size", 0},
    {"min_length", 0},
    {"min_new_tokens", 0},
    {"guidance_scale", 1},
};

static const char *const ignored_objects[] = {
    "bad_words_ids",       "force_words_ids",
    "forced_bos_token_id", "forced_eos_token_id",
    "suppress_tokens",     "begin_suppress_tokens",
    "sequence_bias",       "max_time",
    "watermarking_config", "exponential_decay_length_penalty"};

static void note_key(struct wf_text *note, const char *key)
{
    wf_text_addf(note, "%s%s", note->len == 0 ? "generation_config.json: ignored: " : ", ",
                 key);
}

static void list_ignored(const json_t *generation, struct wf_text *note)
{
    for (size_t i = 0; i < WEFT_LEN(ignored); i++) {
        const json_t *value = get(generation, ignored[i].key);
        if (value != NULL && json_number_value(value) != ignored[i].neutral)
            note_key(note, ignored[i].key);
    }
    for (size_t i = 0; i < WEFT_LEN(ignored_objects); i++) {
        const json_t *value = get(generation, ignored_objects[i]);
        if (value != NULL && !(json_is_array(value) && json_array_size(value) == 0))
            note_key(note, ignored_objects[i]);
    }
}

/* -- interface ----------------------------------------------------------------------------- */

static enum weft_status read_all(struct reader *r, const struct wf_weights_info *info,
                                 const struct wf_codec *codec, struct wf_generate_config *out)
{
    if (r->dir != NULL)
        WEFT_TRY(read_json(r, "config.json", &r->config));
    if (r->dir != NULL && wf_dir_contains(r->dir, generation_name))
        WEFT_TRY(read_json(r, generation_name, &r->generation));
    WEFT_TRY(read_tokens(r, info, codec, out));
    WEFT_TRY(read_sampling(r, &out->sampling));
    WEFT_TRY(read_stops(r, out));
    WEFT_TRY(get_count(r, "max_new_tokens", &out->max_tokens));
    WEFT_TRY(get_count(r, "max_length", &out->max_length));
    list_ignored(r->generation, &out->note);
    return out->note.failed ? WEFT_FAIL(r->err, WEFT_NOMEM, "no memory for a note") : WEFT_OK;
}

enum weft_status wf_generate_config_init(struct wf_generate_config *out,
                                         const struct wf_weights *w,
                                         const struct wf_codec *codec, struct weft_error *err)
{
    const struct wf_weights_info *info = wf_weights_info(w);
    char *source = NULL;
    *out = (struct wf_generate_config){.start = -1};
    WEFT_TRY(wf_load_find_source(w, &source, err));
    struct reader r = {.dir = source, .vocab = info->model.vocab, .err = err};
    enum weft_status st = read_all(&r, info, codec, out);
    json_decref(r.config);
    json_decref(r.generation);
    free(source);
    if (st != WEFT_OK)
        wf_generate_config_release(out);
    return st;
}

void wf_generate_config_release(struct wf_generate_config *c)
{
    for (size_t i = 0; i < c->n_stops; i++)
        free(c->stops[i]);
    free(c->stops);
    free(c->ends);
    wf_text_release(&c->note);
    *c = (struct wf_generate_config){0};
}
