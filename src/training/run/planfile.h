/* Reads and writes plan.json: the layout of a run, and the memory and traffic of its ranks.
 *
 *     {"format":"weft plan","version":1,
 *      "model":{"arch":"gpt2","layers":4,"dim":256,...,"params":3000000},
 *      "pp":2,"dp":1,"chunks":1,"schedule":"zb-h1","bubble_plan":0.11,
 *      "stages":[{"first_layer":0,"layers":2,"embedding":true,"head":false,"ranks":[0]},...],
 *      "ranks":[{"rank":0,"stages":[0],"planned_bytes":1,
 *                "bytes":{"weights":1,...,"total":8}},...],
 *      "links":[{"from":0,"to":1,"forward_bytes":1,"backward_bytes":1,
 *                "forward_bytes_without_cache":1,"backward_bytes_without_cache":1},...]}
 *
 * The links are those of one replica, with the bytes of one step.  The last two fields of a
 * link count the bytes without a cache of residual blocks. */
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
    /* the ranks that run the stage; owned by the plan if it was read from a file */
    uint32_t *ranks;
    size_t n_ranks;
};

/* Bytes that a rank has allocated. */
struct wf_planfile_bytes {
    uint64_t weights, gradients, packed, activations, messages, scratch, moments, total;
};

struct wf_planfile_rank {
    uint32_t rank;
    uint32_t *stages; /* owned by the plan if it was read from a file */
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
    struct weft_model model; /* if the plan was read: without norm_eps and rope */
    uint64_t n_params;
    uint32_t pp, dp, chunks;
    char schedule[WF_PLANFILE_NAME];
    double bubble_plan;
    /* this list and the lists below are owned if the plan was read */
    struct wf_planfile_stage *stages;
    size_t n_stages;
    struct wf_planfile_rank *ranks;
    size_t n_ranks;
    struct wf_planfile_link *links;
    size_t n_links;
};

/* Writes the file atomically.  Local. */
enum weft_status wf_planfile_write(const char *path, const struct wf_planfile *plan,
                                   struct weft_error *err);

/* Read a plan from a file and from a text.  Return WEFT_DATA with the name of the key if a key
 * is missing, unknown, of a wrong type or out of range.  The caller releases *out with
 * wf_planfile_release().  Local. */
enum weft_status wf_planfile_read(const char *path, struct wf_planfile *out,
                                  struct weft_error *err);
enum weft_status wf_planfile_parse(const char *text, size_t len, const char *source,
                                   struct wf_planfile *out, struct weft_error *err);

/* Frees the lists of a plan that was read.  A zeroed plan is allowed. */
void wf_planfile_release(struct wf_planfile *plan);

#endif
