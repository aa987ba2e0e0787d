/* All of weft's public interface. */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include "weft/bound.h"
#include "weft/cache.h"
#include "weft/comm.h"
#include "weft/cost.h"
#include "weft/exec.h"
#include "weft/part.h"
#include "weft/reference.h"
#include "weft/schedule.h"
#include "weft/sim.h"
#include "weft/spec.h"
#include "weft/stage.h"
#include "weft/status.h"
#include "weft/sync.h"
#include "weft/timing.h"
#include "weft/trace.h"
#include "weft/traffic.h"
#include "weft/tune.h"
#include "weft/verify.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0" */
const char *weft_version(void);

/* What this library was built with: "gcc 12.2.0, Release". */
const char *weft_build_info(void);

#ifdef __cplusplus
}
#endif

#endif
