/* Defines the settings of a training run, and checks that they fit together.
 *
 * The table of keys is in settings.c; the functions of config/settings.h read and print it:
 *
 *     struct wf_train_settings s;
 *     wf_settings_init(wf_train_setting_list(), &s, &err);
 *     wf_settings_parse(wf_train_setting_list(), text, len, path, &s, &err);
 *     wf_settings_parse_flags(wf_train_setting_list(), argc, argv, &s, &err);
 *     wf_train_settings_check(&s, &err);
 *     wf_settings_release(wf_train_setting_list(), &s);
 *
 * A number that is 0 here is "auto" or "off" in the file.  A text that is not given is NULL.
 */
#ifndef TRAINING_SETTINGS_SETTINGS_H
#define TRAINING_SETTINGS_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/optim/lr_curve.h"
#include "config/settings.h"
#include "weft/spec.h"

/* Values of settings that are a choice, in the order of the choices in the table. */
enum wf_train_arch { WF_TRAIN_ARCH_AUTO, WF_TRAIN_ARCH_GPT2, WF_TRAIN_ARCH_LLAMA };
enum wf_train_tied { WF_TRAIN_TIED_AUTO, WF_TRAIN_TIED_TRUE, WF_TRAIN_TIED_FALSE };
enum wf_train_transport {
    WF_TRAIN_TRANSPORT_AUTO,
    WF_TRAIN_TRANSPORT_INPROC,
    WF_TRAIN_TRANSPORT_MPI
};
enum wf_train_cache { WF_TRAIN_CACHE_OFF, WF_TRAIN_CACHE_RECEIVED, WF_TRAIN_CACHE_FULL };
enum wf_precision { WF_PRECISION_FP32, WF_PRECISION_BF16 };
enum wf_reduction { WF_REDUCTION_EXACT, WF_REDUCTION_FAST };

/* Whether and from where a run continues, as checkpoint.resume specifies. */
enum wf_resume_mode {
    WF_RESUME_NO,
    WF_RESUME_NEWEST, /* "auto": from the newest checkpoint in log.dir, if there is one */
    WF_RESUME_PATH
};

struct wf_train_settings {
    struct {
        char *dir, *spec;
        uint32_t arch; /* enum wf_train_arch */
        uint32_t layers, dim, heads, kv_heads, ffn, vocab, ctx;
        uint32_t tied; /* enum wf_train_tied */
        uint32_t residual_block_layers;
        uint64_t seed;
    } model;
    struct {
        char *train, *val, *tokenizer;
        uint32_t seq, batch;
        bool shuffle, verify;
    } data;
    struct {
        uint32_t pp, dp, chunks, micros;
        char *schedule, *partition;
        uint32_t placement;
        uint32_t transport; /* enum wf_train_transport */
        uint32_t threads;
        uint32_t cache; /* enum wf_train_cache */
        bool automatic; /* the key in the file is parallel.auto */
        struct {        /* keys set by a file or a flag, which parallel.auto does not change */
            bool pp, dp, chunks, micros, schedule, threads;
        } given;
    } parallel;
    struct {
        uint64_t steps;
        uint32_t precision;    /* enum wf_precision */
        uint32_t reduction;    /* enum wf_reduction */
        char *recompute;       /* see recompute.h */
        uint64_t memory_limit; /* 0: the memory of the machine */
        double timeout, slow, max_time;
    } train;
    struct {
        double lr, min_lr;
        uint64_t warmup, decay_steps;
        uint32_t curve; /* enum wf_lr_curve_kind */
        double beta1, beta2, eps, weight_decay, clip;
    } optim;
    struct {
        uint32_t every, batches;
    } eval;
    struct {
        uint32_t every, keep;
        char *resume; /* the path if resume_mode is WF_RESUME_PATH */
        /* Parsed from `resume` when it is set. */
        enum wf_resume_mode resume_mode;
        bool in_background; /* the key in the file is checkpoint.async */
    } checkpoint;
    struct {
        char *dir;
        uint32_t every, trace_steps;
        bool tensorboard;
        uint32_t serve, sample, sample_tokens;
        char *sample_prompt;
    } log;
};

/* Returns the table of all settings. */
struct wf_setting_list wf_train_setting_list(void);

/* Returns WEFT_USAGE if a micro-batch would contain no sequence. */
enum weft_status wf_train_check_micros(uint32_t micros, uint32_t batch, struct weft_error *err);

/* Returns WEFT_USAGE if keys contradict each other: the model must be specified once,
 * training data must be given, micro-batches must not outnumber sequences, learning rates
 * must not rise. */
enum weft_status wf_train_settings_check(const struct wf_train_settings *s,
                                         struct weft_error *err);

/* Stores the model shape that model.spec, or model.arch, and the sizes describe; sizes override
 * a spec.  Do not call it with model.dir, where the files of the model describe the shape. */
enum weft_status wf_train_settings_model(const struct wf_train_settings *s,
                                         struct weft_model *out, struct weft_error *err);

/* If model.vocab is auto and model.dir is not given, sets model.vocab to the vocabulary size of
 * data.tokenizer or, without it, of the tokenizer that made data.train.  Leaves model.vocab
 * unchanged if neither size is known.  Local. */
enum weft_status wf_train_settings_infer_vocab(struct wf_train_settings *s,
                                               struct weft_error *err);

/* Returns the curve of the learning rate.  If decay_steps is auto, the curve uses
 * train.steps. */
struct wf_lr_curve wf_train_settings_curve(const struct wf_train_settings *s);

/* Returns a path, or a comma-separated list of paths and patterns, with the current directory
 * before every relative path.  The caller frees it; NULL: no memory.  Local. */
char *wf_train_settings_absolute(const char *list);

/* Appends the settings as a file that can be used from any directory: all paths are absolute.
 * Local. */
enum weft_status wf_train_settings_print(const struct wf_train_settings *s, struct wf_text *out,
                                         struct weft_error *err);

/* Sets log.dir to the directory of `config`, the path of the file that was read, if that file is
 * a run's own config.yaml.  A run that was moved therefore stays in its directory.  Local. */
enum weft_status wf_train_settings_set_run(struct wf_train_settings *s, const char *config,
                                           struct weft_error *err);

#endif
