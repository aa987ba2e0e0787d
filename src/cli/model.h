/* Models as commands are given them: by one path, whatever it leads to. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "training/trainer/load.h"

/* For the help of commands that take one. */
#define WF_MODEL_HELP "a Hugging Face directory, run, checkpoint or file of llm.c"
#define WF_MODEL_TEXT                                                                          \
    "  a Hugging Face directory    GPT-2 or Llama, in f32, bf16 or f16, in any number\n"       \
    "                              of files\n"                                                 \
    "  a checkpoint                RUN/checkpoints/step-00000100\n"                            \
    "  the directory of a run      its model/; before it is finished its newest whole\n"       \
    "                              checkpoint, and a line on standard error says which\n"      \
    "  a model file of llm.c       GPT-2, version 3 (fp32) or 5 (bf16); the padding\n"         \
    "                              of its vocabulary is left out\n"

/* wf_load_open(), and says on standard error which checkpoint of a run it took.  WEFT_CKPT for a
 * path that is no model. */
enum weft_status wf_model_open(const char *path, struct wf_weights **out,
                               struct weft_error *err);

#endif
