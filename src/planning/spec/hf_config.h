/* Models as Hugging Face's config.json describes them.
 *
 * Read are model_type "gpt2" and "llama", by the rules of transformers, versions 4 and 5: keys that
 * are absent have the values they have there, and whatever would make that library compute
 * something else than weft does is refused, never ignored.  Dropout is not looked at: weft has
 * none.  "residual_block_layers" is weft's own key; transformers does not know block residuals and
 * would leave them out. */
#ifndef PLANNING_SPEC_HF_CONFIG_H
#define PLANNING_SPEC_HF_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "weft/spec.h"

/* `path` is for messages only.  WEFT_CKPT when the text is no JSON, or says something that weft
 * cannot do; the message names the path, the key and what to do.  The model has passed
 * weft_model_check(). */
enum weft_status wf_hf_config_parse(const char *text, size_t len, const char *path,
                                    struct weft_model *out, struct weft_error *err);

/* What config.json says beside the model. */
struct wf_hf_metadata {
    const char *dtype; /* of the weights: "float32", "bfloat16" */
    int64_t bos, eos;  /* tokens that begin and end a document; negative: none */
};

/* Appends the text of a config.json that both versions of transformers read, and that
 * wf_hf_config_parse() reads back as the same model. */
enum weft_status wf_hf_config_write(const struct weft_model *model,
                                    const struct wf_hf_metadata *about, struct wf_text *out,
                                    struct weft_error *err);

#endif
