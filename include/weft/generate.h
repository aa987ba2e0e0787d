/* Generates text with a trained model.
 *
 *     struct weft_generate_options options = weft_generate_defaults();
 *     options.prompt = "Once upon a time";
 *     char *text = NULL;
 *     weft_generate("runs/a", &options, &text, NULL, &err);
 *     puts(text);
 *     free(text);
 *
 * The model is a Hugging Face directory, a run, a checkpoint or an llm.c file; see
 * weft/checkpoint.h.  The same options give the same text with any number of threads.
 *
 * Unstable: options may be added until version 1.0.
 */
#ifndef WEFT_GENERATE_H
#define WEFT_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weft_generate_options {
    /* Borrowed; NULL or "": the start of a document.  Names of special tokens are special. */
    const char *prompt;
    uint32_t max_tokens; /* maximum number of new tokens */
    double temperature;  /* divisor of the logits; 0: always chooses the most likely token */
    uint32_t top_k; /* samples from the top_k most likely tokens; 0: samples from all tokens */
    double top_p;   /* samples from the most likely tokens with this total probability */
    uint64_t seed;
    uint32_t threads; /* 0: one per core */
    bool bf16;        /* keeps the weights as bf16 in memory: faster, less precise */
    /* Called with the bytes of each new token; may be NULL.  If it returns false, generation
     * stops. */
    bool (*on_token)(const char *bytes, size_t len, void *user);
    void *user;
};

/* Returns the defaults: 100 tokens, temperature 0.8, top_k 50, top_p 1, seed 42. */
WEFT_API struct weft_generate_options weft_generate_defaults(void);

/* Generates the text that follows the prompt, until the model ends the document, max_tokens
 * tokens are generated, or the model's context is full.  *out is NUL-terminated; `len` may be
 * NULL.  The caller frees *out.  Returns WEFT_USAGE if the model has no tokenizer or the prompt
 * is too long.  Local. */
WEFT_API enum weft_status weft_generate(const char *model,
                                        const struct weft_generate_options *options, char **out,
                                        size_t *len, struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
