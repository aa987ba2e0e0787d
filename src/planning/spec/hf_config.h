/* Models in the form of Hugging Face's config.json.
 *
 * The supported values of model_type are "gpt2" and "llama" of transformers, versions 4 and 5,
 * and "weft_gpt2" and "weft_llama" for the same models with block attention residuals.
 * Missing keys have the defaults of transformers.  A value that requires a computation that
 * weft does not implement is an error.  Dropout is ignored, because weft does not implement
 * dropout.  "residual_block_layers" is a key of weft, which transformers ignores. */
#ifndef PLANNING_SPEC_HF_CONFIG_H
#define PLANNING_SPEC_HF_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "weft/spec.h"

/* Reads the text of a config.json.  Returns WEFT_CKPT if the text is not valid JSON or
 * describes a model that weft does not support.  `path` is the name of the file in messages.
 * The resulting model has passed weft_model_check(). */
enum weft_status wf_hf_config_parse(const char *text, size_t len, const char *path,
                                    struct weft_model *out, struct weft_error *err);

/* The contents of config.json that do not describe the model. */
struct wf_hf_metadata {
    const char *dtype; /* type of the weights: "float32", "bfloat16" */
    /* Tokens that begin and end a document and that pad a batch, as JSON: a number or a list of
     * numbers.  NULL: no such token. */
    const char *bos, *eos, *pad;
    /* Text of the config.json from which the model was read, or NULL.  Its keys that are not
     * written otherwise are kept. */
    const char *source;
};

/* The file with the program that computes models with block attention residuals in
 * transformers.  The key "auto_map" of their config.json refers to it. */
#define WF_HF_MODELING_FILE "modeling_weft.py"

/* Appends the text of a config.json for both versions of transformers.  wf_hf_config_parse()
 * reads the text back as the same model. */
enum weft_status wf_hf_config_write(const struct weft_model *model,
                                    const struct wf_hf_metadata *about, struct wf_text *out,
                                    struct weft_error *err);

#endif
