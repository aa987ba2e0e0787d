/* The public interface of libweft: planning (weft/plan.h), execution and training. */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include "weft/activations.h"
#include "weft/checkpoint.h"
#include "weft/comm.h"
#include "weft/exec.h"
#include "weft/generate.h"
#include "weft/plan.h"
#include "weft/render.h"
#include "weft/settings.h"
#include "weft/stage.h"
#include "weft/sync.h"
#include "weft/tensor.h"
#include "weft/tokenizer.h"
#include "weft/train.h"
#include "weft/transport.h"

#endif
