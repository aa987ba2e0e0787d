/* Opens the model that a command reads.  The user gives the model as one path. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "training/embed/embed.h"

/* Help text of commands that read a model. */
#define WF_MODEL_HELP "a Hugging Face directory, run, checkpoint or file of llm.c"
#define WF_MODEL_TEXT                                                                          \
    "  a Hugging Face directory    GPT-2 or Llama, in f32, bf16 or f16, in any number\n"       \
    "                              of files\n"                                                 \
    "  a checkpoint                RUN/checkpoints/step-00000100\n"                            \
    "  the directory of a run      its model/, or its newest complete checkpoint (named on\n"  \
    "                              standard error) before the run is finished\n"               \
    "  a model file of llm.c       GPT-2, version 3 (fp32) or 5 (bf16); the padding\n"         \
    "                              of its vocabulary is removed\n"

/* Opens a model with weft_checkpoint_open(), and prints weft_checkpoint_note() to standard
 * error. */
enum weft_status wf_model_open(const char *path, struct weft_checkpoint **out,
                               struct weft_error *err);

#endif
