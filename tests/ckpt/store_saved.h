/* Checkpoints for tests.  Every value is a function of its step and position, so that tests can
 * compare values bit by bit without the store. */
#ifndef TESTS_CKPT_STORE_SAVED_H
#define TESTS_CKPT_STORE_SAVED_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "training/ckpt/store.h"

/* Sanitizers make processes and files many times slower: then only every
 * SAVED_STRIDE-th case runs. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { SAVED_STRIDE = 17 };
#else
enum { SAVED_STRIDE = 1 };
#endif

enum { SAVED_PARAMS = 5, SAVED_MAX_RANKS = 8 };

static const struct saved_param {
    const char *name;
    uint32_t n_dims;
    uint64_t shape[3];
    uint64_t n;
} saved_params[SAVED_PARAMS] = {
    {"wte.weight", 2, {50, 8}, 400},        {"h.0.ln.weight", 1, {8}, 8},
    {"h.0.attn.w", 3, {3, 7, 5}, 105},      {"scale", 0, {0}, 1},
    {"h.1.mlp.\"w\"\\", 2, {31, 33}, 1023},
};

static const char saved_config[] = "train:\n  steps: 7 # \"quoted\", \xc3\xa4\n";
static const char saved_model[] = "{\"model_type\": \"gpt2\"}\n";

static inline uint64_t saved_mix(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* Returns arbitrary bits, including those of NaNs. */
static inline uint32_t saved_bits(uint64_t step, size_t param, int field, uint64_t i)
{
    return (uint32_t)saved_mix(step << 40 ^ (uint64_t)param << 32 ^ (uint64_t)field << 30 ^ i);
}

struct saved_options {
    const char *root, *run;
    uint64_t step;
    size_t n_ranks;
    uint64_t seed; /* determines how the values are divided */
    size_t keep;
    bool coarse; /* pieces are whole tensors */
};

static inline uint64_t saved_draw(uint64_t *state, uint64_t below)
{
    *state = saved_mix(*state);
    return *state % below;
}

/* Divides all parameters into pieces and adds each piece to a random rank. */
static inline enum weft_status saved_add(const struct saved_options *o,
                                         struct wf_store_writer **writers, uint32_t *pool,
                                         struct weft_error *err)
{
    uint64_t state = o->seed;
    for (size_t p = 0; p < SAVED_PARAMS; p++)
        for (int field = 0; field < WF_STORE_N_FIELDS; field++)
            for (uint64_t begin = 0, n; begin < saved_params[p].n; begin += n) {
                n = o->coarse ? saved_params[p].n
                              : 1 + saved_draw(&state, saved_params[p].n - begin);
                for (uint64_t i = 0; i < n; i++)
                    pool[i] = saved_bits(o->step, p, field, begin + i);
                enum weft_status st = wf_store_writer_add(
                    writers[saved_draw(&state, o->n_ranks)], saved_params[p].name,
                    saved_params[p].n_dims, saved_params[p].shape, (enum wf_store_field)field,
                    begin, (const float *)(const void *)pool, n, err);
                pool += n;
                if (st != WEFT_OK)
                    return st;
            }
    return WEFT_OK;
}

/* Allocates the values of all fields of all parameters. */
static inline uint32_t *saved_pool(void)
{
    uint64_t n = 0;
    for (size_t p = 0; p < SAVED_PARAMS; p++)
        n += saved_params[p].n;
    return malloc(WF_STORE_N_FIELDS * n * sizeof(uint32_t));
}

/* Saves like a trainer: writers on all ranks, then a commit.  Removes everything on failure. */
static inline enum weft_status saved_write(const struct saved_options *o,
                                           struct weft_error *err)
{
    struct wf_store_writer *writers[SAVED_MAX_RANKS] = {NULL};
    char *blobs[SAVED_MAX_RANKS] = {NULL};
    size_t bytes[SAVED_MAX_RANKS] = {0};
    uint32_t *pool = saved_pool();
    enum weft_status st = WEFT_OK;

    for (size_t r = 0; r < o->n_ranks && st == WEFT_OK; r++)
        st = wf_store_writer_new(o->root, o->step, o->run, (uint32_t)r, &writers[r], err);
    if (st == WEFT_OK)
        st = saved_add(o, writers, pool, err);
    for (size_t r = 0; r < o->n_ranks && st == WEFT_OK; r++)
        st = wf_store_writer_finish(writers[r], &blobs[r], &bytes[r], err);

    struct wf_store_commit_info parts = {
        o->root, o->step,    o->run, saved_config, saved_model, (const char *const *)blobs,
        bytes,   o->n_ranks, NULL,   NULL};
    if (st == WEFT_OK)
        st = wf_store_commit(&parts, o->keep, err);
    else
        wf_store_abort(o->root, o->step, o->run, NULL);

    for (size_t r = 0; r < o->n_ranks; r++) {
        wf_store_writer_free(writers[r]);
        free(blobs[r]);
    }
    free(pool);
    return st;
}

/* Compares all values, read in random ranges. */
static inline enum weft_status saved_compare(struct wf_ckpt *s, uint64_t seed, bool *same,
                                             struct weft_error *err)
{
    uint64_t state = seed;
    static _Thread_local uint32_t got[2048];
    *same = wf_ckpt_count(s) == SAVED_PARAMS;
    for (size_t p = 0; p < SAVED_PARAMS; p++)
        for (int field = 0; field < WF_STORE_N_FIELDS; field++)
            for (uint64_t begin = 0, n; begin < saved_params[p].n; begin += n) {
                n = 1 + saved_draw(&state, saved_params[p].n - begin);
                enum weft_status st =
                    wf_ckpt_read(s, saved_params[p].name, (enum wf_store_field)field, begin, n,
                                 (float *)(void *)got, err);
                if (st != WEFT_OK)
                    return st;
                for (uint64_t i = 0; i < n; i++)
                    *same = *same && got[i] == saved_bits(wf_ckpt_step(s), p, field, begin + i);
            }
    return WEFT_OK;
}

#endif
