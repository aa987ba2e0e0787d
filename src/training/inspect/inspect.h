/* Describes the files and directories that weft reads and writes: their kind and their
 * contents. A function reads a file completely before it succeeds, so that a malformed file
 * causes an error and no partial result. */
#ifndef TRAINING_INSPECT_INSPECT_H
#define TRAINING_INSPECT_INSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/input.h"
#include "base/json.h"
#include "compute/model/params.h"
#include "training/ckpt/hf.h"
#include "training/inspect/flights.h"
#include "training/settings/settings.h"
#include "weft/schedule.h"
#include "weft/sim.h"
#include "weft/trace.h"

/* -- kinds --------------------------------------------------------------------------------- */

enum wf_artifact {
    WF_ARTIFACT_MODEL, /* a Hugging Face directory */
    WF_ARTIFACT_CHECKPOINT,
    WF_ARTIFACT_RUN,
    WF_ARTIFACT_SHARDS, /* a file or a directory of token shards */
    WF_ARTIFACT_SAFETENSORS,
    WF_ARTIFACT_LLMC, /* a model file of llm.c */
    WF_ARTIFACT_FLIGHT,
    WF_ARTIFACT_TRACE,
    WF_ARTIFACT_METRICS,
    WF_ARTIFACT_SETTINGS,
    WF_ARTIFACT_SCHEDULE,
    WF_ARTIFACT_UNKNOWN,
};

/* Determines the kind of `path` from its first bytes or its files, and otherwise from its name.
 * Returns WEFT_DATA if the path cannot be read or is empty.  Local. */
enum weft_status wf_artifact_detect(const char *path, enum wf_artifact *out,
                                    struct weft_error *err);

/* Returns WEFT_USAGE if `path` is a file whose weights have no hash: any file but a model file of
 * llm.c.  Returns WEFT_OK for directories and for missing paths, about which
 * weft_checkpoint_open() reports.  Local. */
enum weft_status wf_artifact_check_hash(const char *path, struct weft_error *err);

/* Turns an error about the use of a file (WEFT_USAGE, WEFT_SCHEDULE, WEFT_CKPT) into
 * WEFT_DATA. */
enum weft_status wf_as_data(enum weft_status st, struct weft_error *err);

/* -- single files -------------------------------------------------------------------------- */

struct wf_shards_info {
    uint64_t n_tokens;
    size_t n_files, width; /* width: bytes per token; 0 if there are several files */
    /* the largest token; -1: unknown, because there are too many tokens to read */
    int32_t largest;
};

enum weft_status wf_shards_inspect(const char *path, struct wf_shards_info *out,
                                   struct weft_error *err);

/* Parses a schedule without verifying it.  The caller frees *out. */
enum weft_status wf_schedule_inspect(const char *path, struct weft_schedule **out,
                                     struct weft_error *err);
/* Parses settings.  On success the caller releases *out with wf_settings_release(). */
enum weft_status wf_settings_inspect(const char *path, struct wf_train_settings *out,
                                     struct weft_error *err);

/* A summary of metrics.jsonl. */
struct wf_metrics_info {
    uint64_t lines, last_step;
    uint64_t restarts;            /* number of times that the step number decreased */
    double first_loss, last_loss; /* NAN if the loss was not finite */
    bool truncated; /* the last line is incomplete: the run ended while it wrote the line */
};

enum weft_status wf_metrics_inspect(const char *path, struct wf_metrics_info *out,
                                    struct weft_error *err);

/* -- models and checkpoints ---------------------------------------------------------------- */

/* A Hugging Face directory that contains exactly the tensors of its model. */
struct wf_model_info {
    struct wf_hf *hf; /* owned */
    /* owned: (params.n), in model order; the names are borrowed from params */
    struct wf_hf_tensor *tensors;
    struct wf_param_list params;
    uint64_t n_params;
};

enum weft_status wf_model_inspect(struct wf_model_info *out, const char *dir,
                                  struct weft_error *err);
void wf_model_info_release(struct wf_model_info *m); /* a zeroed struct is allowed */
/* Returns the location of tensor i in the files. */
struct wf_hf_location wf_model_info_locate(const struct wf_model_info *m, size_t i);

struct wf_checkpoint_info {
    struct wf_ckpt *store; /* owned */
    struct weft_model model;
    uint64_t n_params;
    bool has_moments;
};

/* Opens a checkpoint and verifies the hashes of all its data. */
enum weft_status wf_checkpoint_inspect(struct wf_checkpoint_info *out, const char *path,
                                       struct weft_error *err);
void wf_checkpoint_info_release(struct wf_checkpoint_info *c);

/* -- runs ---------------------------------------------------------------------------------- */

struct wf_run_info {
    bool has_settings, has_metrics, has_model;
    bool finished; /* all steps are done and the weights are saved */
    struct wf_train_settings settings;
    struct wf_metrics_info metrics;
    struct weft_schedule *schedule; /* owned; NULL: the run has no schedule */
    struct wf_model_info model;     /* valid only if has_model is true */
    struct wf_flights flights;
    size_t n_traces;
};

enum weft_status wf_run_inspect(struct wf_run_info *out, const char *dir,
                                struct weft_error *err);
void wf_run_info_release(struct wf_run_info *r);

/* -- any path ------------------------------------------------------------------------------ */

struct wf_trace_info {
    struct weft_trace trace;
    struct weft_cost_spread costs;
};

/* The contents of a file or directory; `kind` selects the member. */
struct wf_inspection {
    enum wf_artifact kind; /* never WF_ARTIFACT_LLMC or WF_ARTIFACT_UNKNOWN */
    union {
        struct wf_model_info model;
        struct wf_checkpoint_info checkpoint;
        struct wf_run_info run;
        struct wf_shards_info shards;
        struct wf_safetensors *safetensors; /* owned */
        struct weft_flight flight;
        struct wf_trace_info trace;
        struct wf_metrics_info metrics;
        struct wf_train_settings settings;
        struct weft_schedule *schedule; /* owned */
    };
};

/* Detects the kind of `path` and reads it; `read` reads a trace.  Returns WEFT_DATA for an
 * unknown kind.  The caller releases *out.  Local. */
enum weft_status wf_inspect(struct wf_inspection *out, const char *path, wf_input_fn read,
                            struct weft_error *err);
void wf_inspection_release(struct wf_inspection *v);

/* Returns the number of elements of all tensors of a safetensors file. */
uint64_t wf_safetensors_n_elements(const struct wf_safetensors *s);

/* Writes the contents of `path` as a JSON object. */
void wf_inspection_write_json(struct wf_json *j, const struct wf_inspection *v,
                              const char *path);

/* Writes the hash of the weights at `path` as a JSON object. */
void wf_inspect_write_hash_json(struct wf_json *j, const char *path, const char *hash);

#endif
