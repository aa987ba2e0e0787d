/* Parses any bytes as a config.json.  Checks that an accepted model is unchanged after
 * writing and reading. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "planning/spec/hf_config.h"
#include "require.h"

static int same_rope(const struct weft_rope *a, const struct weft_rope *b)
{
    return a->kind == b->kind && a->theta == b->theta && a->factor == b->factor &&
           a->low == b->low && a->high == b->high && a->ctx == b->ctx;
}

static int same(const struct weft_model *a, const struct weft_model *b)
{
    return a->arch == b->arch && a->layers == b->layers && a->dim == b->dim &&
           a->heads == b->heads && a->kv_heads == b->kv_heads && a->ffn == b->ffn &&
           a->vocab == b->vocab && a->ctx == b->ctx && a->tied == b->tied &&
           a->norm_eps == b->norm_eps && a->residual_block_layers == b->residual_block_layers &&
           same_rope(&a->rope, &b->rope);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_model m, again;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_hf_config_parse((const char *)data, size, "fuzz", &m, &err);
    if (st != WEFT_OK) {
        require(st == WEFT_CKPT && err.status == st && err.msg[0] != '\0');
        for (const char *c = err.msg; *c != '\0'; c++)
            require(*c >= ' ' && *c <= '~');
        return 0;
    }
    require(weft_model_check(&m, NULL) == WEFT_OK);
    struct wf_text text = {0};
    struct wf_hf_metadata about = {.dtype = "float32", .eos = "7"};
    require(wf_hf_config_write(&m, &about, &text, NULL) == WEFT_OK);
    require(wf_hf_config_parse(text.at, text.len, "again", &again, NULL) == WEFT_OK);
    require(same(&m, &again));
    wf_text_release(&text);

    /* Keys that are kept from the source do not change the model. */
    struct wf_text source = {0};
    wf_text_add(&source, (const char *)data, size);
    about.source = source.at;
    text = (struct wf_text){0};
    require(wf_hf_config_write(&m, &about, &text, NULL) == WEFT_OK);
    require(wf_hf_config_parse(text.at, text.len, "kept", &again, NULL) == WEFT_OK);
    require(same(&m, &again));
    wf_text_release(&text);
    wf_text_release(&source);
    return 0;
}
