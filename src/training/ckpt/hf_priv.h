/* The Python program that Hugging Face directories of models with block attention residuals
 * contain: the bytes of modeling_weft.py. */
#ifndef TRAINING_CKPT_HF_PRIV_H
#define TRAINING_CKPT_HF_PRIV_H

#include <stddef.h>

extern const unsigned char wf_hf_modeling[];
extern const size_t wf_hf_modeling_len;

#endif
