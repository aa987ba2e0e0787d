/* What the parts of weft inspect share.  Each kind of thing is first read whole, then printed: what
 * is broken leaves an error and no half of an answer. */
#ifndef CLI_INSPECT_H
#define CLI_INSPECT_H

#include <stdio.h>

#include "base/json.h"
#include "cli/numbers.h"
#include "compute/model/params.h"
#include "training/ckpt/hf.h"
#include "training/settings/settings.h"
#include "weft/comm.h"
#include "weft/schedule.h"
#include "weft/trace.h"

struct weft_inspect {
    FILE *out; /* borrowed */
    bool json, hash;
};

/* A text file of a size that a text has; the caller frees *text. */
enum weft_status weft_inspect_text(const char *path, char **text, size_t *len,
                                   struct weft_error *err);

/* What is wrong with a file is WEFT_DATA here, whatever it is to those who meant to use it. */
enum weft_status weft_as_data(enum weft_status st, struct weft_error *err);

/* The start of an object for `path`, which ends with weft_inspect_end(). */
void weft_inspect_begin(struct weft_json *j, FILE *out, const char *path, const char *kind);
void weft_inspect_end(struct weft_json *j);

/* -- models --------------------------------------------------------------------------------- */

/* A Hugging Face directory that has just the tensors of its model. */
struct weft_model_view {
    struct weft_hf *hf;             /* owned */
    struct weft_hf_tensor *tensors; /* owned: (n), in model order; names are the list's */
    struct weft_param_list params;
    uint64_t n_params;
};

enum weft_status weft_model_view_init(struct weft_model_view *v, const char *dir,
                                      struct weft_error *err);
void weft_model_view_release(struct weft_model_view *v); /* a zeroed one is allowed */
/* The line that says what it is, without its tensors. */
void weft_model_view_print(const struct weft_model_view *v, FILE *out);
void weft_model_view_json(const struct weft_model_view *v, struct weft_json *j);
void weft_model_line(const struct weft_model *m, uint64_t n_params, size_t n_tensors,
                     FILE *out);
void weft_model_json(const struct weft_model *m, uint64_t n_params, struct weft_json *j);

enum weft_status weft_inspect_model(const char *path, const struct weft_inspect *how,
                                    struct weft_error *err);
/* Only the hash of a model, by any path of cli/model.h. */
enum weft_status weft_inspect_hash(const char *path, const struct weft_inspect *how,
                                   struct weft_error *err);
/* A checkpoint; all its numbers are read, and compared with their hashes. */
enum weft_status weft_inspect_checkpoint(const char *path, const struct weft_inspect *how,
                                         struct weft_error *err);
enum weft_status weft_inspect_safetensors(const char *path, const struct weft_inspect *how,
                                          struct weft_error *err);

/* -- other files ---------------------------------------------------------------------------- */

enum weft_status weft_inspect_shards(const char *path, const struct weft_inspect *how,
                                     struct weft_error *err);
enum weft_status weft_inspect_schedule(const char *path, const struct weft_inspect *how,
                                       struct weft_error *err);
enum weft_status weft_inspect_trace(const char *path, const struct weft_inspect *how,
                                    struct weft_error *err);
enum weft_status weft_inspect_settings(const char *path, const struct weft_inspect *how,
                                       struct weft_error *err);
enum weft_status weft_inspect_metrics(const char *path, const struct weft_inspect *how,
                                      struct weft_error *err);
enum weft_status weft_inspect_flight(const char *path, const struct weft_inspect *how,
                                     struct weft_error *err);

enum weft_status weft_read_schedule(const char *path, struct weft_schedule **out,
                                    struct weft_error *err);
void weft_schedule_line(const struct weft_schedule *s, FILE *out);
void weft_schedule_json(const struct weft_schedule *s, struct weft_json *j);

/* weft_settings_release() after success. */
enum weft_status weft_read_settings(const char *path, struct weft_train_settings *out,
                                    struct weft_error *err);
void weft_settings_line(const struct weft_train_settings *s, FILE *out);
void weft_settings_json(const struct weft_train_settings *s, struct weft_json *j);

/* -- runs ----------------------------------------------------------------------------------- */

/* metrics.jsonl, summed up. */
struct weft_metrics_view {
    uint64_t lines, last_step;
    uint64_t restarts; /* times that the steps went back */
    double first_loss, last_loss;
    bool cut; /* the last line has no end: the run was ended while it wrote */
};

enum weft_status weft_read_metrics(const char *path, struct weft_metrics_view *out,
                                   struct weft_error *err);
void weft_metrics_line(const struct weft_metrics_view *m, FILE *out);
void weft_metrics_json(const struct weft_metrics_view *m, struct weft_json *j);

/* What has become of a rank. */
enum weft_fate {
    WEFT_FATE_DONE,
    WEFT_FATE_FAILED,  /* and said why */
    WEFT_FATE_RUNNING, /* its process is there */
    WEFT_FATE_GONE,    /* its process is not, and said nothing */
    WEFT_FATE_AWAY,    /* on another host: who knows */
};

/* The records of the ranks of a run. */
struct weft_flights {
    struct weft_flight *at; /* owned: by rank */
    enum weft_fate *fates;  /* owned */
    size_t n;
    uint32_t n_ranks;
    size_t n_old; /* records of an earlier run of other size, left out */
    size_t lost;  /* of `at`: the rank that all others waited for; SIZE_MAX: none */
};

/* `timeout`: seconds without a sign after which a rank that cannot be looked for is lost. */
enum weft_status weft_flights_init(struct weft_flights *f, const char *dir, double timeout,
                                   struct weft_error *err);
void weft_flights_release(struct weft_flights *f);
void weft_flights_print(const struct weft_flights *f, bool finished, FILE *out);
void weft_flights_json(const struct weft_flights *f, bool finished, struct weft_json *j);

enum weft_status weft_inspect_run(const char *path, const struct weft_inspect *how,
                                  struct weft_error *err);

#endif
