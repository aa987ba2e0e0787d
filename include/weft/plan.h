/* The public interface of libweft-plan: schedules, partitions, proofs, timing, simulation,
 * search.
 *
 * This library needs no tensors, threads, MPI or graphics.  libweft contains it. */
#ifndef WEFT_PLAN_H
#define WEFT_PLAN_H

#include "weft/bound.h"
#include "weft/cache.h"
#include "weft/cost.h"
#include "weft/draw.h"
#include "weft/part.h"
#include "weft/reference.h"
#include "weft/schedule.h"
#include "weft/sim.h"
#include "weft/spec.h"
#include "weft/status.h"
#include "weft/timing.h"
#include "weft/trace.h"
#include "weft/traffic.h"
#include "weft/tune.h"
#include "weft/verify.h"
#include "weft/version.h"

#endif
