/* Reads and writes plan.json: the layout of a run, and the memory and traffic of its ranks.
 *
 *     {"format":"weft plan","version":1,
 *      "model":{"arch":"gpt2","layers":4,"dim":256,...,"params":3000000},
 *      "pp":2,"dp":1,"chunks":1,"schedule":"zb-h1","bubble_plan":0.11,
 *      "stages":[{"first_layer":0,"layers":2,"embedding":true,"head":false,"ranks":[0]},...],
 *      "ranks":[{"rank":0,"stages":[0],"planned_bytes":1,"bytes":{"weights":1,...,"total":8}},...],
 *      "links":[{"from":0,"to":1,"forward_bytes":1,"backward_bytes":1,
 *                "forward_bytes_without_cache":1,"backward_bytes_without_cache":1},...]}
 *
 * Links are those of one replica in one step.  The last two fields are the bytes without a cache of
 * residual blocks. */
#ifndef TRAINING_RUN_PLANFILE_H
#define TRAINING_RUN_PLANFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/spec.h"
#include "weft/status.h"

struct wf_planfile_stage {
    uint32_t first_layer, n_layers;
    bool embedding, head;
    uint32_t *ranks; /* owned by the plan if it was read: the ranks that run the stage */
    size_t n_ranks;
};

/* Bytes that a rank has allocated. */
struct wf_planfile_bytes {
    uint64_t weights, gradients, packed, activations, messages, scratch, moments, total;
};

struct wf_planfile_rank {
    uint32_t rank;
    uint32_t *stages; /* owned by the plan if it was read */
    size_t n_stages;
    uint64_t planned_bytes;
    struct wf_planfile_bytes bytes;
};

struct wf_planfile_link {
    uint32_t from, to;
    uint64_t forward_bytes, backward_bytes;
    uint64_t forward_bytes_without_cache, backward_bytes_without_cache;
};

enum { WF_PLANFILE_NAME = 96 };

struct wf_planfile {
    struct weft_model model; /* if read: without norm_eps and rope */
    uint64_t n_params;
    uint32_t pp, dp, chunks;
    char schedule[WF_PLANFILE_NAME];
    double bubble_plan;
    struct wf_planfile_stage *stages; /* owned if the plan was read, as are the other lists */
    size_t n_stages;
    struct wf_planfile_rank *ranks;
    size_t n_ranks;
    struct wf_planfile_link *links;
    size_t n_links;
};

/* Writes the file atomically.  Local. */
enum weft_status wf_planfile_write(const char *path, const struct wf_planfile *plan,
                                   struct weft_error *err);

/* Read a plan from a file and from a text.  Return WEFT_DATA and name the key if one is missing,
 * unknown, of a wrong type or out of range.  wf_planfile_release() frees.  Local. */
enum weft_status wf_planfile_read(const char *path, struct wf_planfile *out,
                                  struct weft_error *err);
enum weft_status wf_planfile_parse(const char *text, size_t len, const char *source,
                                   struct wf_planfile *out, struct weft_error *err);

/* Frees a plan that was read; a zeroed struct is allowed. */
void wf_planfile_release(struct wf_planfile *plan);

#endif
