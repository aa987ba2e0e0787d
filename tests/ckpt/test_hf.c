/* Tests reading and writing of Hugging Face directories: reference directories, old formats,
 * sharded and damaged directories, round trips. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <jansson.h>
#include <cmocka.h>

#include "base/error.h"
#include "folder.h"
#include "training/ckpt/hf.h"

/* -- the tensors of a model, as the format's description lists them ------------------------ */

struct tensors {
    struct wf_hf_tensor at[200];
    char names[200][80];
    size_t n;
};

static void add(struct tensors *all, const char *name, uint64_t rows, uint64_t cols)
{
    struct wf_hf_tensor *t = &all->at[all->n];
    snprintf(all->names[all->n], sizeof all->names[0], "%s", name);
    *t = (struct wf_hf_tensor){all->names[all->n], cols > 0 ? 2 : 1, {rows, cols}};
    all->n++;
}

/* "h.%u." before the name. */
static void add_in(struct tensors *all, const char *format, uint32_t layer, const char *name,
                   uint64_t rows, uint64_t cols)
{
    char prefix[40], whole[80];
    snprintf(prefix, sizeof prefix, "%s%u", format, layer);
    snprintf(whole, sizeof whole, "%s.%s", prefix, name);
    add(all, whole, rows, cols);
}

static void list_gpt2(const struct weft_model *m, struct tensors *all)
{
    uint64_t c = m->dim;
    const struct {
        const char *name;
        uint64_t rows, cols;
    } layer[] = {
        {"ln_1.weight", c, 0},
        {"ln_1.bias", c, 0},
        {"attn.c_attn.weight", c, 3 * c},
        {"attn.c_attn.bias", 3 * c, 0},
        {"attn.c_proj.weight", c, c},
        {"attn.c_proj.bias", c, 0},
        {"ln_2.weight", c, 0},
        {"ln_2.bias", c, 0},
        {"mlp.c_fc.weight", c, m->ffn},
        {"mlp.c_fc.bias", m->ffn, 0},
        {"mlp.c_proj.weight", m->ffn, c},
        {"mlp.c_proj.bias", c, 0},
    };
    add(all, "transformer.wte.weight", m->vocab, c);
    add(all, "transformer.wpe.weight", m->ctx, c);
    for (uint32_t l = 0; l < m->layers; l++)
        for (size_t i = 0; i < WEFT_LEN(layer); i++)
            add_in(all, "transformer.h.", l, layer[i].name, layer[i].rows, layer[i].cols);
    add(all, "transformer.ln_f.weight", c, 0);
    add(all, "transformer.ln_f.bias", c, 0);
}

static void list_llama(const struct weft_model *m, struct tensors *all)
{
    uint64_t d = m->dim, kv = (uint64_t)m->dim / m->heads * m->kv_heads, f = m->ffn;
    const struct {
        const char *name;
        uint64_t rows, cols;
    } layer[] = {
        {"input_layernorm.weight", d, 0},    {"self_attn.q_proj.weight", d, d},
        {"self_attn.k_proj.weight", kv, d},  {"self_attn.v_proj.weight", kv, d},
        {"self_attn.o_proj.weight", d, d},   {"post_attention_layernorm.weight", d, 0},
        {"mlp.gate_proj.weight", f, d},      {"mlp.up_proj.weight", f, d},
        {"mlp.down_proj.weight", d, f},      {"attn_residual.query", d, 0},
        {"attn_residual.norm.weight", d, 0}, {"mlp_residual.query", d, 0},
        {"mlp_residual.norm.weight", d, 0},
    };
    size_t n = m->residual_block_layers > 0 ? WEFT_LEN(layer) : 9;
    add(all, "model.embed_tokens.weight", m->vocab, d);
    for (uint32_t l = 0; l < m->layers; l++)
        for (size_t i = 0; i < n; i++)
            add_in(all, "model.layers.", l, layer[i].name, layer[i].rows, layer[i].cols);
    add(all, "model.norm.weight", d, 0);
    if (m->residual_block_layers > 0) {
        add(all, "model.output_residual.query", d, 0);
        add(all, "model.output_residual.norm.weight", d, 0);
    }
}

static void list_tensors(const struct weft_model *m, struct tensors *all)
{
    all->n = 0;
    if (m->arch == WEFT_ARCH_GPT2)
        list_gpt2(m, all);
    else
        list_llama(m, all);
    if (!m->tied)
        add(all, "lm_head.weight", m->vocab, m->dim);
}

static size_t elements(const struct wf_hf_tensor *t)
{
    return (size_t)(t->n_dims == 1 ? t->shape[0] : t->shape[0] * t->shape[1]);
}

static void names_of(const struct tensors *all, const char *names[200])
{
    for (size_t i = 0; i < all->n; i++)
        names[i] = all->at[i].name;
}

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

static void assert_model(const struct weft_model *m, const struct weft_model *want)
{
    assert_int_equal(m->arch, want->arch);
    assert_int_equal(m->layers, want->layers);
    assert_int_equal(m->dim, want->dim);
    assert_int_equal(m->heads, want->heads);
    assert_int_equal(m->kv_heads, want->kv_heads);
    assert_int_equal(m->ffn, want->ffn);
    assert_int_equal(m->vocab, want->vocab);
    assert_int_equal(m->ctx, want->ctx);
    assert_int_equal(m->tied, want->tied);
    assert_true(m->norm_eps == want->norm_eps);
    assert_int_equal(m->residual_block_layers, want->residual_block_layers);
    assert_true(m->arch == WEFT_ARCH_GPT2 || m->rope.theta == want->rope.theta);
}

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
    static struct tensors all;
    const char *names[200];
    snprintf(dir, sizeof dir, "%s/train/%s", WEFT_TEST_DATA, g->name);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    enum weft_status st = wf_hf_open(dir, &hf, &err);
    assert_string_equal(err.msg, "");
    assert_int_equal(st, WEFT_OK);
    assert_model(wf_hf_model(hf), &g->want);
    list_tensors(wf_hf_model(hf), &all);
    names_of(&all, names);
    assert_int_equal(wf_hf_count(hf), all.n);
    assert_int_equal(wf_hf_check_names(hf, names, all.n, &err), WEFT_OK);
    size_t len, total = 0, n_params, n_bytes;
    char *file = folder_get(path, &len);
    for (size_t i = 0; i < all.n; i++) {
        const struct wf_hf_tensor *t = &all.at[i];
        float *values = malloc(elements(t) * sizeof *values);
        assert_non_null(values);
        assert_int_equal(wf_hf_read(hf, t->name, t->n_dims, t->shape, values, &err), WEFT_OK);
        const char *in_file =
            strncmp(t->name, "transformer.", 12) == 0 ? t->name + 12 : t->name;
        const char *bytes = raw(file, in_file, &n_bytes);
        assert_int_equal(n_bytes, 4 * elements(t));
        assert_memory_equal(values, bytes, n_bytes);
        total += elements(t);
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
     {"transformer.wte.weight", "transformer.h.0.attn.bias", "lm_head.weight",
      "transformer.h.0.attn.masked_bias", "transformer.h.0.attn.c_proj.bias"},
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
    for (; c->want[n] != NULL; n++)
        assert_string_equal(wf_hf_name(hf, n), c->want[n]);
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

/* -- writing ------------------------------------------------------------------------------- */

static struct write_case {
    const char *name;
    uint64_t shard_bytes;
    enum wf_dtype type;
    size_t n_files; /* in all, config.json and index included */
} write_cases[] = {
    {"one file", 0, WF_DTYPE_F32, 2},
    {"one file is enough", WF_HF_SHARD_BYTES, WF_DTYPE_F32, 2},
    {"bf16", 0, WF_DTYPE_BF16, 2},
    /* 411192 - 8 - 3952 bytes of data in llama-tiny, no tensor larger than 24576: filled by at
     * least 100000 - 24576, so at least 5 and at most 6 files. */
    {"shards", 100000, WF_DTYPE_F32, 0},
    {"one file per tensor", 1, WF_DTYPE_BF16, 39 + 2},
};

static const char *golden_dir(const char *name, char out[400])
{
    snprintf(out, 400, "%s/train/%s", WEFT_TEST_DATA, name);
    return out;
}

/* Reads a whole directory in the order of `all`.  The caller frees the result. */
static float *read_all(const char *dir, struct tensors *all, struct weft_model *model)
{
    struct wf_hf *hf = NULL;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_hf_open(dir, &hf, &err);
    assert_string_equal(err.msg, "");
    assert_int_equal(st, WEFT_OK);
    *model = *wf_hf_model(hf);
    list_tensors(model, all);
    size_t n = 0;
    assert_int_equal(weft_model_count_params(model, &n, &err), WEFT_OK);
    float *values = malloc(n * sizeof *values), *at = values;
    assert_non_null(values);
    for (size_t i = 0; i < all->n; at += elements(&all->at[i]), i++)
        assert_int_equal(
            wf_hf_read(hf, all->at[i].name, all->at[i].n_dims, all->at[i].shape, at, &err),
            WEFT_OK);
    wf_hf_free(hf);
    return values;
}

static enum weft_status write_all(const char *dir, const struct weft_model *model,
                                  const struct tensors *all, const float *values,
                                  const struct wf_hf_write_options *options,
                                  struct weft_error *err)
{
    struct wf_hf_writer *w = NULL;
    enum weft_status st = wf_hf_writer_new(dir, model, all->at, all->n, options, &w, err);
    for (size_t i = 0; i < all->n && st == WEFT_OK; i++) {
        size_t n = elements(&all->at[i]), half = n / 2;
        st = wf_hf_writer_append(w, values, half, err);
        if (st == WEFT_OK)
            st = wf_hf_writer_append(w, values + half, n - half, err);
        values += n;
    }
    if (st == WEFT_OK)
        st = wf_hf_writer_finish(w, err);
    wf_hf_writer_free(w);
    return st;
}

/* Rounds to nearest even with integer arithmetic. */
static float as_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t low = bits & 0xffff;
    bits -= low;
    if (low > 0x8000 || (low == 0x8000 && (bits & 0x10000) != 0))
        bits += 0x10000;
    memcpy(&value, &bits, 4);
    return value;
}

static void check_write(void **state)
{
    const struct write_case *c = *state;
    static struct tensors all, again;
    char from[400];
    struct folder f;
    struct weft_error err = {.msg = ""};
    struct weft_model model, model_again;
    struct wf_safetensors_pair pair = {"step", "8"};
    struct wf_hf_write_options options = {c->type, c->shard_bytes, -1, -1, &pair, 1};
    float *values = read_all(golden_dir("llama-tiny", from), &all, &model);
    folder_make(&f);
    const char *dir = folder_path(&f, "out//");
    enum weft_status st = write_all(dir, &model, &all, values, &options, &err);
    assert_string_equal(err.msg, "");
    assert_int_equal(st, WEFT_OK);
    assert_int_equal(folder_count(f.at), 1);
    if (c->n_files > 0)
        assert_int_equal(folder_count(dir), c->n_files);
    else
        assert_in_range(folder_count(dir), 5 + 2, 6 + 2);
    float *got = read_all(dir, &again, &model_again);
    assert_model(&model_again, &model);
    size_t n;
    assert_int_equal(weft_model_count_params(&model, &n, &err), WEFT_OK);
    for (size_t i = 0; i < n; i++)
        assert_true(got[i] == (c->type == WF_DTYPE_F32 ? values[i] : as_bf16(values[i])));
    free(got);
    free(values);
    folder_remove(f.at);
}

/* The index has the total size and the file names of transformers. */
static void check_index(void **state)
{
    (void)state;
    static struct tensors all;
    char from[400], path[300];
    struct folder f;
    struct weft_error err;
    struct weft_model model;
    struct wf_hf_write_options options = {WF_DTYPE_F32, 200000, -1, -1, NULL, 0};
    float *values = read_all(golden_dir("llama-tiny", from), &all, &model);
    folder_make(&f);
    assert_int_equal(write_all(folder_path(&f, "out"), &model, &all, values, &options, &err),
                     WEFT_OK);
    snprintf(path, sizeof path, "%.250s/%s", f.path, INDEX);
    json_t *root = json_load_file(path, 0, NULL);
    const char *first, *last;
    json_int_t total;
    assert_int_equal(json_unpack(root, "{s:{s:I}, s:{s:s, s:s}}", "metadata", "total_size",
                                 &total, "weight_map", "model.embed_tokens.weight", &first,
                                 "lm_head.weight", &last),
                     0);
    assert_int_equal(total, 411192 - 8 - 3952);
    assert_string_equal(first, "model-00001-of-00003.safetensors");
    assert_string_equal(last, "model-00003-of-00003.safetensors");
    json_decref(root);
    free(values);
    folder_remove(f.at);
}

/* GPT-2 and block residuals are written, too. */
static void check_write_others(void **state)
{
    (void)state;
    static struct tensors all, again;
    for (size_t i = 0; i < WEFT_LEN(goldens); i++) {
        char from[400];
        struct folder f;
        struct weft_error err;
        struct weft_model model, model_again;
        struct wf_hf_write_options options = {WF_DTYPE_F32, 0, 1, 2, NULL, 0};
        float *values = read_all(golden_dir(goldens[i].name, from), &all, &model);
        folder_make(&f);
        const char *dir = folder_path(&f, "out");
        assert_int_equal(mkdir(dir, 0777), 0); /* an empty directory is allowed */
        assert_int_equal(write_all(dir, &model, &all, values, &options, &err), WEFT_OK);
        float *got = read_all(dir, &again, &model_again);
        size_t n;
        assert_int_equal(weft_model_count_params(&model, &n, &err), WEFT_OK);
        assert_memory_equal(got, values, n * sizeof *got);
        free(got);
        free(values);
        folder_remove(f.at);
    }
}

static void check_write_errors(void **state)
{
    (void)state;
    static struct tensors all;
    char from[400];
    struct folder f;
    struct weft_error err = {.msg = ""};
    struct weft_model model;
    struct wf_hf_write_options options = {WF_DTYPE_F32, 100000, -1, -1, NULL, 0};
    struct wf_hf_writer *w = NULL;
    float *values = read_all(golden_dir("llama-tiny", from), &all, &model);
    folder_make(&f);
    /* The directory exists already. */
    put_text(&f, "file", "");
    assert_int_equal(write_all(f.path, &model, &all, values, &options, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "/file is a file; use a new directory"));
    assert_int_equal(write_all(f.at, &model, &all, values, &options, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, " exists and is not empty; use another name, or move it"));
    assert_int_equal(write_all(folder_path(&f, "no/out"), &model, &all, values, &options, &err),
                     WEFT_IO);
    assert_non_null(strstr(err.msg, "no/out cannot be created: No such file or directory"));
    /* Duplicate names. */
    struct wf_hf_tensor twice[2] = {{"a", 1, {1}}, {"a", 1, {1}}};
    options.shard_bytes = 1;
    assert_int_equal(
        wf_hf_writer_new(folder_path(&f, "out"), &model, twice, 2, &options, &w, &err),
        WEFT_CKPT);
    assert_non_null(strstr(err.msg, "tensor 'a' is listed twice"));
    assert_int_equal(
        wf_hf_writer_new(f.path, &(struct weft_model){0}, twice, 1, &options, &w, &err),
        WEFT_USAGE);
    /* Too few and too many elements. */
    options.shard_bytes = 100000;
    assert_int_equal(wf_hf_writer_new(f.path, &model, all.at, all.n, &options, &w, &err),
                     WEFT_OK);
    assert_int_equal(wf_hf_writer_append(w, values, elements(&all.at[0]), &err), WEFT_OK);
    assert_int_equal(wf_hf_writer_finish(w, &err), WEFT_INTERNAL);
    assert_non_null(strstr(err.msg, "tensor 'model.layers.0.input_layernorm.weight' lacks"));
    assert_int_equal(wf_hf_writer_append(w, values, 100000, &err), WEFT_INTERNAL);
    assert_int_equal(folder_count(f.at), 2);
    wf_hf_writer_free(w);
    wf_hf_writer_free(NULL);
    assert_int_equal(folder_count(f.at), 1);
    assert_int_equal(wf_hf_writer_new(f.path, &model, twice, 1, &options, &w, &err), WEFT_OK);
    assert_int_equal(wf_hf_writer_append(w, values, 1, &err), WEFT_OK);
    assert_int_equal(wf_hf_writer_append(w, values, 1, &err), WEFT_INTERNAL);
    assert_non_null(strstr(err.msg, "1 elements were appended after the last tensor"));
    wf_hf_writer_free(w);
    assert_int_equal(folder_count(f.at), 1);
    free(values);
    folder_remove(f.at);
}

/* A write error at any point leaves no files. */
static void check_full(void **state)
{
    (void)state;
    static struct tensors all;
    char from[400];
    struct folder f;
    struct rlimit before;
    struct weft_model model;
    struct wf_hf_write_options options = {WF_DTYPE_F32, 100000, -1, -1, NULL, 0};
    float *values = read_all(golden_dir("llama-tiny", from), &all, &model);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    folder_make(&f);
    static const rlim_t limits[] = {0, 100, 1000, 3000, 10000, 90000};
    for (size_t i = 0; i < WEFT_LEN(limits); i++) {
        struct weft_error err = {.msg = ""};
        struct rlimit limit = {limits[i], before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        enum weft_status st =
            write_all(folder_path(&f, "out"), &model, &all, values, &options, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(st, WEFT_IO);
        assert_non_null(strstr(err.msg, strerror(EFBIG)));
        assert_int_equal(folder_count(f.at), 0);
    }
    signal(SIGXFSZ, SIG_DFL);
    free(values);
    folder_remove(f.at);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(check_pickle),
        cmocka_unit_test(check_read_errors),
        cmocka_unit_test(check_unexpected_names),
        cmocka_unit_test(check_index),
        cmocka_unit_test(check_write_others),
        cmocka_unit_test(check_write_errors),
        cmocka_unit_test(check_full),
    };
    struct CMUnitTest tests[WEFT_LEN(goldens) + WEFT_LEN(old_cases) + WEFT_LEN(bad_cases) +
                            WEFT_LEN(write_cases) + WEFT_LEN(others)];
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
    for (size_t i = 0; i < WEFT_LEN(write_cases); i++)
        tests[n++] =
            (struct CMUnitTest){write_cases[i].name, check_write, NULL, NULL, &write_cases[i]};
    for (size_t i = 0; i < WEFT_LEN(others); i++)
        tests[n++] = others[i];
    return cmocka_run_group_tests_name("hf", tests, NULL, NULL) != 0;
}
