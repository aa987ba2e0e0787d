/* Tests reading of Hugging Face directories: reference directories, old formats, sharded and
 * damaged directories. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <cmocka.h>

#include "base/error.h"
#include "ckpt/hf_tensors.h"
#include "folder.h"
#include "planning/spec/hf_config.h"
#include "training/ckpt/hf.h"

/* -- reference directories ----------------------------------------------------------------- */

static struct golden {
    const char *name;
    struct weft_model want;
} goldens[] = {
    {"gpt2-tiny", {WEFT_ARCH_GPT2, 4, 48, 4, 4, 192, 128, 64, true, 1e-5F, 0, {0}}},
    {"llama-tiny",
     {WEFT_ARCH_LLAMA, 4, 48, 6, 2, 112, 128, 64, false, 1e-5F, 0, {.theta = 10000}}},
    {"llama-tiny-tied-residual",
     {WEFT_ARCH_LLAMA, 6, 32, 4, 4, 80, 96, 64, true, 1e-5F, 2, {.theta = 10000}}},
};

/* Returns the bytes of a tensor, located without the code under test. */
static const char *raw(const char *file, const char *name, size_t *n)
{
    uint64_t n_header;
    memcpy(&n_header, file, 8);
    json_t *root = json_loadb(file + 8, (size_t)n_header, 0, NULL);
    json_t *offsets = json_object_get(json_object_get(root, name), "data_offsets");
    assert_int_equal(json_array_size(offsets), 2);
    size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0));
    *n = (size_t)json_integer_value(json_array_get(offsets, 1)) - begin;
    json_decref(root);
    return file + 8 + n_header + begin;
}

/* Checks that a directory has exactly the expected tensors with the bytes of the file. */
static void check_golden(void **state)
{
    const struct golden *g = *state;
    char dir[400], path[500];
    struct wf_hf *hf = NULL;
    struct weft_error err = {.msg = ""};
    static struct hf_tensors all;
    const char *names[200];

    snprintf(dir, sizeof dir, "%s/train/%s", WEFT_TEST_DATA, g->name);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    enum weft_status st = wf_hf_open(dir, &hf, &err);
    assert_string_equal(err.msg, "");
    assert_int_equal(st, WEFT_OK);

    hf_assert_model(wf_hf_model(hf), &g->want);
    hf_list_tensors(wf_hf_model(hf), &all);
    hf_names_of(&all, names);
    assert_int_equal(wf_hf_count(hf), all.n);
    assert_int_equal(wf_hf_check_names(hf, names, all.n, &err), WEFT_OK);

    size_t len, total = 0, n_params, n_bytes;
    char *file = folder_get(path, &len);
    for (size_t i = 0; i < all.n; i++) {
        const struct wf_hf_tensor *t = &all.at[i];
        float *values = malloc(hf_elements(t) * sizeof *values);
        assert_non_null(values);
        assert_int_equal(wf_hf_read(hf, t->name, t->n_dims, t->shape, values, &err), WEFT_OK);

        const char *in_file =
            strncmp(t->name, "transformer.", 12) == 0 ? t->name + 12 : t->name;
        const char *bytes = raw(file, in_file, &n_bytes);
        assert_int_equal(n_bytes, 4 * hf_elements(t));
        assert_memory_equal(values, bytes, n_bytes);
        total += hf_elements(t);
        free(values);
    }

    assert_int_equal(weft_model_count_params(wf_hf_model(hf), &n_params, &err), WEFT_OK);
    assert_int_equal(total, n_params);
    free(file);
    wf_hf_free(hf);
    wf_hf_free(NULL);

    /* The weights after training have the same format. */
    struct wf_safetensors *final = NULL;
    snprintf(path, sizeof path, "%s/final.safetensors", dir);
    assert_int_equal(wf_safetensors_open(path, &final, &err), WEFT_OK);
    assert_int_equal(wf_safetensors_count(final), all.n);
    wf_safetensors_free(final);
}

/* -- small directories by hand ------------------------------------------------------------- */

/* Writes a safetensors file of F32 tensors of two elements each.  The names end with NULL. */
static void put_weights(struct folder *f, const char *file, const char *const *names)
{
    char header[4000], bytes[5000];
    size_t n = 0, len = 1;
    header[0] = '{';
    for (; names[n] != NULL; n++)
        len += (size_t)snprintf(header + len, sizeof header - len,
                                "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":"
                                "[%zu,%zu]}",
                                n > 0 ? "," : "", names[n], 8 * n, 8 * n + 8);
    header[len++] = '}';
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(len >> 8 * i);
    memcpy(bytes + 8, header, len);
    for (size_t i = 0; i < 2 * n; i++)
        memcpy(bytes + 8 + len + 4 * i, &(float){(float)i}, 4);
    folder_put(f, file, bytes, 8 + len + 8 * n);
}

static void put_text(struct folder *f, const char *file, const char *text)
{
    folder_put(f, file, text, strlen(text));
}

#define GPT2 "{\"model_type\":\"gpt2\"}"
#define LLAMA "{\"model_type\":\"llama\"}"
#define TIED "{\"model_type\":\"llama\",\"tie_word_embeddings\":true}"
enum { MAX_NAMES = 8 };

/* Old formats and the names that remain. */
static struct old_case {
    const char *name, *config;
    const char *in_file[MAX_NAMES], *want[MAX_NAMES];
} old_cases[] = {
    {"gpt2 without prefix",
     GPT2,
     {"wte.weight", "h.0.attn.bias", "h.0.attn.c_attn.bias", "h.11.attn.masked_bias"},
     {"transformer.h.0.attn.c_attn.bias", "transformer.wte.weight"}},
    {"gpt2 with prefix",
     GPT2,
     {"transformer.wte.weight", "transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias",
      "transformer.h.0.attn.c_proj.bias"},
     {"transformer.h.0.attn.c_proj.bias", "transformer.wte.weight"}},
    {"gpt2 with an untied head",
     "{\"model_type\":\"gpt2\",\"tie_word_embeddings\":false}",
     {"wte.weight", "lm_head.weight"},
     {"lm_head.weight", "transformer.wte.weight"}},
    {"old llama",
     LLAMA,
     {"model.layers.0.self_attn.rotary_emb.inv_freq", "lm_head.weight", "model.norm.weight",
      "model.rotary_emb.inv_freq"},
     {"lm_head.weight", "model.norm.weight"}},
    {"tied llama", TIED, {"lm_head.weight", "model.norm.weight"}, {"model.norm.weight"}},
    {"tied llama without head", TIED, {"model.norm.weight"}, {"model.norm.weight"}},
};

static void check_old(void **state)
{
    const struct old_case *c = *state;
    struct folder f;
    struct wf_hf *hf = NULL;
    struct weft_error err = {.msg = ""};
    size_t n = 0;
    folder_make(&f);
    put_text(&f, "config.json", c->config);
    put_weights(&f, "model.safetensors", c->in_file);
    assert_int_equal(wf_hf_open(f.at, &hf, &err), WEFT_OK);
    while (c->want[n] != NULL)
        n++;
    assert_int_equal(wf_hf_count(hf), n);
    assert_int_equal(wf_hf_check_names(hf, c->want, n, &err), WEFT_OK);
    wf_hf_free(hf);
    folder_remove(f.at);
}

/* clang-format off */
#define INDEX "model.safetensors.index.json"
#define MAP(pairs) "{\"metadata\":{\"total_size\":8},\"weight_map\":{" pairs "}}"

static struct bad_case {
    const char *name, *config;
    const char *one[MAX_NAMES]; /* of model.safetensors, if any */
    const char *index, *a[MAX_NAMES], *b[MAX_NAMES]; /* of a.safetensors and b.safetensors */
    const char *want;
} bad_cases[] = {
    {"no config", NULL, {"lm_head.weight"}, NULL, {0}, {0}, "/config.json cannot be opened: No such file"},
    {"bad config", "{}", {"lm_head.weight"}, NULL, {0}, {0}, "/config.json: model_type is missing"},
    {"no weights", LLAMA, {0}, NULL, {0}, {0}, "has neither model.safetensors nor " INDEX},
    {"untied without head", LLAMA, {"model.norm.weight"}, NULL, {0}, {0},
     "has no lm_head.weight, and tie_word_embeddings in config.json is not true"},
    {"with and without prefix", GPT2, {"wte.weight", "transformer.wte.weight"}, NULL, {0}, {0},
     "duplicates '"},
    {"index is not JSON", LLAMA, {0}, "{", {0}, {0}, INDEX ":1:1: not valid JSON"},
    {"a name twice", LLAMA, {0}, MAP("\"a\":\"a.safetensors\",\"\\u0061\":\"b.safetensors\""), {0}, {0},
     "duplicate object key"},
    {"no map", LLAMA, {0}, "{}", {0}, {0}, INDEX ": weight_map is empty or not an object"},
    {"no object", LLAMA, {0}, "[]", {0}, {0}, "weight_map is empty or not an object"},
    {"empty map", LLAMA, {0}, MAP(""), {0}, {0}, "weight_map is empty"},
    {"no string", LLAMA, {0}, MAP("\"a\":3"), {0}, {0}, "weight_map 'a' is 'not a string'; expected the plain name"},
    {"a path", LLAMA, {0}, MAP("\"a\":\"../a.safetensors\""), {"a"}, {0}, "weight_map 'a' is '../a.safetensors'"},
    {"a path inside", LLAMA, {0}, MAP("\"a\":\"x/a.safetensors\""), {"a"}, {0}, "is 'x/a.safetensors'; expected"},
    {"a whole path", LLAMA, {0}, MAP("\"a\":\"/a.safetensors\""), {"a"}, {0}, "is '/a.safetensors'; expected"},
    {"a hidden file", LLAMA, {0}, MAP("\"a\":\".safetensors\""), {"a"}, {0}, "is '.safetensors'; expected"},
    {"another kind", LLAMA, {0}, MAP("\"a\":\"config.json\""), {"a"}, {0}, "is 'config.json'; expected"},
    {"a name with an escape", LLAMA, {0}, MAP("\"a\":\"\\u001ba.safetensors\""), {"a"}, {0}, "is '?a.safetensors'"},
    {"no file", LLAMA, {0}, MAP("\"a\":\"c.safetensors\""), {"a"}, {0}, "/c.safetensors cannot be opened"},
    {"not in the file", LLAMA, {0}, MAP("\"a\":\"a.safetensors\",\"b\":\"a.safetensors\""), {"a"}, {0},
     "weight_map has tensor 'b' in a.safetensors, but the file does not have it"},
    {"in another file", LLAMA, {0}, MAP("\"a\":\"a.safetensors\",\"b\":\"a.safetensors\",\"c\":\"b.safetensors\""),
     {"a"}, {"b", "c"}, "weight_map has tensor 'b' in a.safetensors, but it is in b.safetensors"},
    {"not in the map", LLAMA, {0}, MAP("\"a\":\"a.safetensors\""), {"a", "b"}, {0},
     "weight_map has tensor 'b' in no file, but it is in a.safetensors"},
    {"in two files", LLAMA, {0}, MAP("\"a\":\"a.safetensors\",\"b\":\"b.safetensors\""), {"a"}, {"a", "b"},
     "weight_map has tensor 'a' in a.safetensors, but it is in b.safetensors"},
};
/* clang-format on */

static void check_bad(void **state)
{
    const struct bad_case *c = *state;
    struct folder f;
    struct wf_hf *hf = NULL;
    struct weft_error err = {.msg = ""};

    folder_make(&f);
    if (c->config != NULL)
        put_text(&f, "config.json", c->config);
    if (c->one[0] != NULL)
        put_weights(&f, "model.safetensors", c->one);
    if (c->index != NULL)
        put_text(&f, INDEX, c->index);
    if (c->a[0] != NULL)
        put_weights(&f, "a.safetensors", c->a);
    if (c->b[0] != NULL)
        put_weights(&f, "b.safetensors", c->b);

    assert_int_equal(wf_hf_open(f.at, &hf, &err), WEFT_CKPT);
    if (strstr(err.msg, c->want) == NULL)
        fail_msg("'%s' is not in '%s'", c->want, err.msg);
    assert_int_equal(strncmp(err.msg, f.at, strlen(f.at)), 0);
    assert_null(hf);
    folder_remove(f.at);
}

/* The error names a pickle file of PyTorch, which weft does not read. */
static void check_pickle(void **state)
{
    (void)state;
    struct folder f;
    struct wf_hf *hf = NULL;
    struct weft_error err;
    folder_make(&f);
    put_text(&f, "config.json", LLAMA);
    put_text(&f, "pytorch_model.bin", "");
    assert_int_equal(wf_hf_open(f.at, &hf, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "; convert pytorch_model.bin to safetensors"));
    folder_remove(f.at);
}

static void check_read_errors(void **state)
{
    (void)state;
    struct folder f;
    struct wf_hf *hf = NULL;
    struct weft_error err;
    float values[2];
    static const char *const in_file[] = {"lm_head.weight", "model.norm.weight", NULL};

    folder_make(&f);
    put_text(&f, "config.json", LLAMA);
    put_weights(&f, "model.safetensors", in_file);

    assert_int_equal(wf_hf_open(f.at, &hf, &err), WEFT_OK);
    assert_int_equal(wf_hf_read(hf, "model.norm.weight", 1, (uint64_t[]){2}, values, &err),
                     WEFT_OK);
    assert_true(values[0] == 2 && values[1] == 3);

    assert_int_equal(wf_hf_read(hf, "model.norm.weight", 1, (uint64_t[]){3}, values, &err),
                     WEFT_CKPT);
    assert_non_null(strstr(err.msg, "/model.safetensors: tensor 'model.norm.weight' has shape "
                                    "(2), but the model of config.json needs (3)"));
    assert_int_equal(wf_hf_read(hf, "model.norm.weight", 2, (uint64_t[]){2, 1}, values, &err),
                     WEFT_CKPT);
    assert_non_null(
        strstr(err.msg, "has shape (2), but the model of config.json needs (2, 1)"));
    assert_int_equal(wf_hf_read(hf, "model.norm.weigth", 1, (uint64_t[]){2}, values, &err),
                     WEFT_CKPT);
    assert_non_null(
        strstr(err.msg, "has no tensor 'model.norm.weigth'; the nearest is model.norm.weight"));

    assert_int_equal(wf_hf_read(hf, "x", 1, (uint64_t[]){2}, values, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "has no tensor 'x'"));

    wf_hf_free(hf);
    folder_remove(f.at);
}

/* A tied model may have a copy of its embedding as lm_head.weight, but no other values. */
static void check_tied_head(void **state)
{
    (void)state;
    static const struct wf_hf_tensor tensors[] = {{"lm_head.weight", 1, {4}},
                                                  {"model.embed_tokens.weight", 1, {4}}};
    static const char *const names[] = {"model.embed_tokens.weight"};
    static const float embedding[] = {1, 2, 3, 4}, other[] = {1, 2, 3, 5};
    const struct wf_hf_write_options options = {.type = WF_DTYPE_F32};
    struct weft_model model;
    assert_int_equal(wf_hf_config_parse(TIED, strlen(TIED), "x", &model, NULL), WEFT_OK);

    for (int same = 0; same < 2; same++) {
        struct folder f;
        struct wf_hf_writer *w = NULL;
        struct wf_hf *hf = NULL;
        struct weft_error err = {.msg = ""};
        folder_make(&f);
        const char *dir = folder_path(&f, "out");
        assert_int_equal(wf_hf_writer_new(dir, &model, tensors, 2, &options, &w, &err),
                         WEFT_OK);
        assert_int_equal(wf_hf_writer_append(w, same ? embedding : other, 4, &err), WEFT_OK);
        assert_int_equal(wf_hf_writer_append(w, embedding, 4, &err), WEFT_OK);
        assert_int_equal(wf_hf_writer_finish(w, &err), WEFT_OK);
        wf_hf_writer_free(w);

        assert_int_equal(wf_hf_open(dir, &hf, &err), WEFT_OK);
        assert_int_equal(wf_hf_check_names(hf, names, 1, &err), same ? WEFT_OK : WEFT_CKPT);
        if (!same)
            assert_non_null(strstr(err.msg, "but lm_head.weight differs from "
                                            "model.embed_tokens.weight; set "
                                            "tie_word_embeddings to false"));
        wf_hf_free(hf);
        folder_remove(f.at);
    }
}

static void check_unexpected_names(void **state)
{
    (void)state;
    static const char *const in_file[] = {"a.one", "lm_head.weight",
                                          "model.layers.0.mlp.weight", NULL};
    static const struct {
        const char *names[4];
        const char *want;
    } cases[] = {
        {{"a.one", "lm_head.weight", "model.layers.0.mlp.weight", "lm_head.weight"}, NULL},
        {{"a.one", "lm_head.weight", "model.layers.0.mpl.weight", "z"},
         "/model.safetensors: unexpected tensor 'model.layers.0.mlp.weight'; the "
         "nearest is model.layers.0.mpl.weight; config.json may belong to another model"},
        {{"b.one", "lm_head.weight", "model.layers.0.mlp.weight", "z"},
         "unexpected tensor 'a.one'; the nearest is b.one"},
        {{"a.one", "lm_head.weight", "model.layers.0.mlp.weight", "z"}, "has no tensor 'z'"},
        {{"a.one", "lm_head.weight", "lm_heap.weight", "model.layers.0.mlp.weight"},
         "has no tensor 'lm_heap.weight'; the nearest is lm_head.weight"},
    };
    struct folder f;
    struct wf_hf *hf = NULL;
    struct weft_error err;

    folder_make(&f);
    put_text(&f, "config.json", LLAMA);
    put_weights(&f, "model.safetensors", in_file);
    assert_int_equal(wf_hf_open(f.at, &hf, &err), WEFT_OK);

    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        err.msg[0] = '\0';
        enum weft_status st = wf_hf_check_names(hf, cases[i].names, 4, &err);
        assert_int_equal(st, cases[i].want == NULL ? WEFT_OK : WEFT_CKPT);
        if (cases[i].want != NULL && strstr(err.msg, cases[i].want) == NULL)
            fail_msg("'%s' is not in '%s'", cases[i].want, err.msg);
    }

    assert_int_equal(wf_hf_check_names(hf, NULL, 0, &err), WEFT_CKPT);
    wf_hf_free(hf);
    folder_remove(f.at);
}
int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(check_pickle),
        cmocka_unit_test(check_read_errors),
        cmocka_unit_test(check_unexpected_names),
        cmocka_unit_test(check_tied_head),
    };

    struct CMUnitTest
        tests[WEFT_LEN(goldens) + WEFT_LEN(old_cases) + WEFT_LEN(bad_cases) + WEFT_LEN(others)];
    size_t n = 0;

    for (size_t i = 0; i < WEFT_LEN(goldens); i++)
        tests[n++] =
            (struct CMUnitTest){goldens[i].name, check_golden, NULL, NULL, &goldens[i]};
    for (size_t i = 0; i < WEFT_LEN(old_cases); i++)
        tests[n++] =
            (struct CMUnitTest){old_cases[i].name, check_old, NULL, NULL, &old_cases[i]};
    for (size_t i = 0; i < WEFT_LEN(bad_cases); i++)
        tests[n++] =
            (struct CMUnitTest){bad_cases[i].name, check_bad, NULL, NULL, &bad_cases[i]};
    for (size_t i = 0; i < WEFT_LEN(others); i++)
        tests[n++] = others[i];

    return cmocka_run_group_tests_name("hf", tests, NULL, NULL) != 0;
}
