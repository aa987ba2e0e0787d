/* Prints the results of weft inspect (training/inspect/inspect.h). */
#ifndef CLI_INSPECT_H
#define CLI_INSPECT_H

#include <stdio.h>

#include "base/json.h"
#include "base/numbers.h"
#include "training/inspect/inspect.h"

struct wf_inspect {
    FILE *out; /* borrowed */
    bool json, hash;
};

/* Starts the JSON object of `path`; wf_inspect_end() ends the object. */
void wf_inspect_begin(struct wf_json *j, FILE *out, const char *path, const char *kind);
void wf_inspect_end(struct wf_json *j);

/* Each function of this type reads one kind of file or directory and prints it. */
typedef enum weft_status wf_inspect_fn(const char *path, const struct wf_inspect *how,
                                       struct weft_error *err);
wf_inspect_fn wf_inspect_model;
wf_inspect_fn wf_inspect_hash; /* prints the hash of a model; `path` as for wf_model_open() */
wf_inspect_fn wf_inspect_checkpoint;
wf_inspect_fn wf_inspect_safetensors;
wf_inspect_fn wf_inspect_shards;
wf_inspect_fn wf_inspect_schedule;
wf_inspect_fn wf_inspect_trace;
wf_inspect_fn wf_inspect_settings;
wf_inspect_fn wf_inspect_metrics;
wf_inspect_fn wf_inspect_flight;
wf_inspect_fn wf_inspect_run;

/* Functions *_line() print one line of text; functions *_json() print the members of a JSON
 * object. */
void wf_model_line(const struct weft_model *m, uint64_t n_params, size_t n_tensors, FILE *out);
void wf_model_json(const struct weft_model *m, uint64_t n_params, struct wf_json *j);
void wf_schedule_line(const struct weft_schedule *s, FILE *out);
void wf_schedule_json(const struct weft_schedule *s, struct wf_json *j);
void wf_settings_line(const struct wf_train_settings *s, FILE *out);
void wf_settings_json(const struct wf_train_settings *s, struct wf_json *j);
void wf_metrics_line(const struct wf_metrics_info *m, FILE *out);
void wf_metrics_json(const struct wf_metrics_info *m, struct wf_json *j);
void wf_flights_print(const struct wf_flights *f, bool finished, FILE *out);
void wf_flights_json(const struct wf_flights *f, bool finished, struct wf_json *j);

#endif
