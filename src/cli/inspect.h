/* What the parts of weft inspect share.  Each kind of thing is first read whole, then printed: what
 * is broken leaves an error and no half of an answer. */
#ifndef CLI_INSPECT_H
#define CLI_INSPECT_H

#include <stdio.h>

#include "base/json.h"
#include "base/numbers.h"
#include "compute/model/params.h"
#include "training/ckpt/hf.h"
#include "training/settings/settings.h"
#include "weft/comm.h"
#include "weft/schedule.h"
#include "weft/trace.h"

struct wf_inspect {
    FILE *out; /* borrowed */
    bool json, hash;
};

/* A text file of a size that a text has; the caller frees *text. */
enum weft_status wf_inspect_text(const char *path, char **text, size_t *len,
                                 struct weft_error *err);

/* What is wrong with a file is WEFT_DATA here, whatever it is to those who meant to use it. */
enum weft_status wf_as_data(enum weft_status st, struct weft_error *err);

/* The start of an object for `path`, which ends with wf_inspect_end(). */
void wf_inspect_begin(struct wf_json *j, FILE *out, const char *path, const char *kind);
void wf_inspect_end(struct wf_json *j);

/* -- models --------------------------------------------------------------------------------- */

/* A Hugging Face directory that has just the tensors of its model. */
struct wf_model_view {
    struct wf_hf *hf;             /* owned */
    struct wf_hf_tensor *tensors; /* owned: (n), in model order; names are the list's */
    struct wf_param_list params;
    uint64_t n_params;
};

enum weft_status wf_model_view_init(struct wf_model_view *v, const char *dir,
                                    struct weft_error *err);
void wf_model_view_release(struct wf_model_view *v); /* a zeroed one is allowed */
/* The line that says what it is, without its tensors. */
void wf_model_view_print(const struct wf_model_view *v, FILE *out);
void wf_model_view_json(const struct wf_model_view *v, struct wf_json *j);
void wf_model_line(const struct weft_model *m, uint64_t n_params, size_t n_tensors, FILE *out);
void wf_model_json(const struct weft_model *m, uint64_t n_params, struct wf_json *j);

enum weft_status wf_inspect_model(const char *path, const struct wf_inspect *how,
                                  struct weft_error *err);
/* Only the hash of a model, by any path of cli/model.h. */
enum weft_status wf_inspect_hash(const char *path, const struct wf_inspect *how,
                                 struct weft_error *err);
/* A checkpoint; all its numbers are read, and compared with their hashes. */
enum weft_status wf_inspect_checkpoint(const char *path, const struct wf_inspect *how,
                                       struct weft_error *err);
enum weft_status wf_inspect_safetensors(const char *path, const struct wf_inspect *how,
                                        struct weft_error *err);

/* -- other files ---------------------------------------------------------------------------- */

enum weft_status wf_inspect_shards(const char *path, const struct wf_inspect *how,
                                   struct weft_error *err);
enum weft_status wf_inspect_schedule(const char *path, const struct wf_inspect *how,
                                     struct weft_error *err);
enum weft_status wf_inspect_trace(const char *path, const struct wf_inspect *how,
                                  struct weft_error *err);
enum weft_status wf_inspect_settings(const char *path, const struct wf_inspect *how,
                                     struct weft_error *err);
enum weft_status wf_inspect_metrics(const char *path, const struct wf_inspect *how,
                                    struct weft_error *err);
enum weft_status wf_inspect_flight(const char *path, const struct wf_inspect *how,
                                   struct weft_error *err);

enum weft_status wf_read_schedule(const char *path, struct weft_schedule **out,
                                  struct weft_error *err);
void wf_schedule_line(const struct weft_schedule *s, FILE *out);
void wf_schedule_json(const struct weft_schedule *s, struct wf_json *j);

/* wf_settings_release() after success. */
enum weft_status wf_read_settings(const char *path, struct wf_train_settings *out,
                                  struct weft_error *err);
void wf_settings_line(const struct wf_train_settings *s, FILE *out);
void wf_settings_json(const struct wf_train_settings *s, struct wf_json *j);

/* -- runs ----------------------------------------------------------------------------------- */

/* metrics.jsonl, summed up. */
struct wf_metrics_view {
    uint64_t lines, last_step;
    uint64_t restarts; /* times that the steps went back */
    double first_loss, last_loss;
    bool cut; /* the last line has no end: the run was ended while it wrote */
};

enum weft_status wf_read_metrics(const char *path, struct wf_metrics_view *out,
                                 struct weft_error *err);
void wf_metrics_line(const struct wf_metrics_view *m, FILE *out);
void wf_metrics_json(const struct wf_metrics_view *m, struct wf_json *j);

/* What has become of a rank. */
enum wf_fate {
    WF_FATE_DONE,
    WF_FATE_FAILED,  /* and said why */
    WF_FATE_RUNNING, /* its process is there */
    WF_FATE_GONE,    /* its process is not, and said nothing */
    WF_FATE_AWAY,    /* on another host: who knows */
};

/* The records of the ranks of a run. */
struct wf_flights {
    struct weft_flight *at; /* owned: by rank */
    enum wf_fate *fates;    /* owned */
    size_t n;
    uint32_t n_ranks;
    size_t n_old; /* records of an earlier run of other size, left out */
    size_t lost;  /* of `at`: the rank that all others waited for; SIZE_MAX: none */
};

/* `timeout`: seconds without a sign after which a rank that cannot be looked for is lost. */
enum weft_status wf_flights_init(struct wf_flights *f, const char *dir, double timeout,
                                 struct weft_error *err);
void wf_flights_release(struct wf_flights *f);
void wf_flights_print(const struct wf_flights *f, bool finished, FILE *out);
void wf_flights_json(const struct wf_flights *f, bool finished, struct wf_json *j);

enum weft_status wf_inspect_run(const char *path, const struct wf_inspect *how,
                                struct weft_error *err);

#endif
