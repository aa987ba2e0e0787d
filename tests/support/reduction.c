/* Implements a random run of the gradient reducer. */
#include "reduction.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/random.h"
#include "exact_sum.h"

enum { MAX_GRADS = 3 };

static const size_t sizes[REDUCTION_PARAMS] = {1, 7, 0, 300, 2049, 40000, 2, 32768, 1, 100};

enum what { DRAW_LAST, DRAW_SKIP, DRAW_SET, DRAW_VALUE, DRAW_ORDER, DRAW_NAP, DRAW_AHEAD };

static uint64_t draw(uint64_t seed, enum what what, uint64_t a, uint64_t b, uint64_t c)
{
    return wf_random_u64(seed, what * 64 + a, b * 1000003 + c);
}

static bool has_step(const struct reduction *w, uint32_t rank, uint32_t step)
{
    uint32_t last = (uint32_t)(draw(w->seed, DRAW_LAST, rank, 0, 0) % 8); /* some leave early */
    return step <= last && draw(w->seed, DRAW_SKIP, rank, step, 0) % 8 != 0;
}

/* Returns the number of gradients of a parameter; 0: not registered. */
static uint32_t n_grads(const struct reduction *w, uint32_t rank, uint32_t step, uint32_t param)
{
    static const uint32_t often[] = {0, 1, 1, 1, 1, 2, 2, MAX_GRADS};
    bool none = draw(w->seed, DRAW_SET, rank, step, 999) % 8 == 0;
    if (!has_step(w, rank, step) || none)
        return 0;
    return often[draw(w->seed, DRAW_SET, rank, step, param) % 8];
}

static enum weft_sync_type type_of(const struct reduction *w, uint32_t param)
{
    return (enum weft_sync_type)((w->seed + param) % 3);
}

static size_t bytes_of(const struct reduction *w, uint32_t param)
{
    return sizes[param] * (size_t[]){4, 2, 8}[type_of(w, param)];
}

/* Returns an element of a gradient.  The exponents are those of all finite numbers, of the
 * smallest ones, or of ordinary gradients.  Every eighth element of a second gradient
 * cancels the first. */
static double value(const struct reduction *w, uint32_t rank, uint32_t step, uint32_t param,
                    uint32_t grad, size_t i)
{
    /* The largest exponent leaves room for the sum of all gradients. */
    static const int ranges[3][3][2] = {{{-149, 122}, {-149, -120}, {-40, 0}},
                                        {{-133, 122}, {-133, -120}, {-20, 0}},
                                        {{-1074, 1018}, {-1074, -1000}, {-60, 0}}};
    enum weft_sync_type type = type_of(w, param);
    const int *range = ranges[type][(param + step) % 3];
    if (grad == 1 && i % 8 == 5)
        return -value(w, rank, step, param, 0, i);
    uint64_t x = draw(w->seed, DRAW_VALUE, rank + 8 * grad, step * REDUCTION_PARAMS + param, i);
    if (x % 32 == 7)
        return x % 64 == 7 ? 0.0 : -0.0;
    return exact_sum_random(x, type, range[0], range[1]);
}

static void expect(struct reduction *w, uint32_t step, uint32_t param)
{
    for (size_t i = 0; i < sizes[param]; i++) {
        struct exact_sum sum = {0};
        uint32_t n = 0;
        for (uint32_t r = 0; r < w->n_ranks; r++)
            for (uint32_t g = 0; g < n_grads(w, r, step, param); g++, n++)
                exact_sum_add(&sum, value(w, r, step, param, g, i));
        if (n == 0)
            return;
        double result =
            exact_sum_round(&sum, w->op == WEFT_SYNC_MEAN ? n : 1, type_of(w, param));
        exact_sum_put(w->expected[step][param], type_of(w, param), i, result);
    }
}

bool reduction_init(struct reduction *w)
{
    for (uint32_t k = 0; k < REDUCTION_STEPS; k++)
        for (uint32_t p = 0; p < REDUCTION_PARAMS; p++) {
            w->expected[k][p] = calloc(1, bytes_of(w, p) + 1);
            if (w->expected[k][p] == NULL)
                return false;
            expect(w, k, p);
        }
    return true;
}

void reduction_release(struct reduction *w)
{
    for (uint32_t k = 0; k < REDUCTION_STEPS; k++)
        for (uint32_t p = 0; p < REDUCTION_PARAMS; p++)
            free(w->expected[k][p]);
}

/* -- one rank ------------------------------------------------------------------------------ */

struct own {
    const struct reduction *w;
    struct weft_sync *sync;
    uint32_t rank;
    void *grad[REDUCTION_STEPS][REDUCTION_PARAMS][MAX_GRADS];
    uint32_t n_left[REDUCTION_STEPS]; /* parameters without a callback */
    bool done[REDUCTION_STEPS];
};

static uint32_t id_of(uint32_t param)
{
    return param * 1000000007U; /* ids are arbitrary numbers */
}

static bool is_expected(const struct own *o, uint32_t step, uint32_t param)
{
    for (uint32_t g = 0; g < n_grads(o->w, o->rank, step, param); g++)
        if (memcmp(o->grad[step][param][g], o->w->expected[step][param],
                   bytes_of(o->w, param)) != 0)
            return false;
    return true;
}

static enum weft_status param_done(void *arg, uint64_t step, uint32_t id,
                                   struct weft_error *err)
{
    struct own *o = arg;
    uint32_t k = (uint32_t)(step / 10);
    for (uint32_t p = 0; p < REDUCTION_PARAMS; p++)
        if (id_of(p) == id && !is_expected(o, k, p))
            return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u, step %u, parameter %u: wrong bits",
                             o->rank, k, p);
    o->n_left[k]--;
    return WEFT_OK;
}

static enum weft_status step_done(void *arg, uint64_t step, struct weft_error *err)
{
    struct own *o = arg;
    uint32_t k = (uint32_t)(step / 10);
    if (o->n_left[k] != 0 || o->done[k])
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u, step %u: reported %s", o->rank, k,
                         o->done[k] ? "twice" : "before its parameters");
    o->done[k] = true;
    return WEFT_OK;
}

static enum weft_status register_step(struct own *o, uint32_t step, struct weft_error *err)
{
    struct weft_sync_param params[REDUCTION_PARAMS];
    uint32_t n = 0;
    for (uint32_t p = 0; p < REDUCTION_PARAMS; p++) {
        uint32_t grads = n_grads(o->w, o->rank, step, p);
        if (grads != 0)
            params[n++] = (struct weft_sync_param){
                .id = id_of(p), .n_grads = grads, .size = sizes[p], .type = type_of(o->w, p)};
    }
    o->n_left[step] = n;
    return weft_sync_register_params(o->sync, 10 * step + 3, params, n, err);
}

static enum weft_status push_grad(struct own *o, uint32_t step, uint32_t p, uint32_t g,
                                  struct weft_error *err)
{
    void *grad = malloc(bytes_of(o->w, p) + 1);
    if (grad == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory");
    o->grad[step][p][g] = grad;
    for (size_t i = 0; i < sizes[p]; i++)
        exact_sum_put(grad, type_of(o->w, p), i, value(o->w, o->rank, step, p, g, i));
    if (draw(o->w->timing, DRAW_NAP, o->rank, step, p) % 8 == 0)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return weft_sync_push(o->sync, 10 * step + 3, id_of(p), grad, err);
}

static enum weft_status push_step(struct own *o, uint32_t step, struct weft_error *err)
{
    enum { ALL = REDUCTION_PARAMS * MAX_GRADS };
    uint32_t order[ALL] = {0};
    for (uint32_t i = 0; i < ALL; i++) {
        uint32_t k = (uint32_t)(draw(o->w->timing, DRAW_ORDER, o->rank, step, i) % (i + 1));
        order[i] = order[k];
        order[k] = i;
    }
    for (uint32_t i = 0; i < ALL; i++) {
        uint32_t p = order[i] % REDUCTION_PARAMS, g = order[i] / REDUCTION_PARAMS;
        if (g < n_grads(o->w, o->rank, step, p))
            WEFT_TRY(push_grad(o, step, p, g, err));
    }
    return WEFT_OK;
}

static enum weft_status finish_step(struct own *o, uint32_t step, struct weft_error *err)
{
    bool done = false;
    if (draw(o->w->timing, DRAW_NAP, o->rank, step, 99) % 2 == 0)
        for (int i = 0; i < 100 && !done; i++)
            WEFT_TRY(weft_sync_test(o->sync, 10 * step + 3, &done, err));
    WEFT_TRY(weft_sync_wait(o->sync, 10 * step + 3, err));
    for (uint32_t p = 0; p < REDUCTION_PARAMS; p++)
        if (!is_expected(o, step, p) || !o->done[step])
            return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u, step %u, parameter %u: %s", o->rank,
                             step, p, o->done[step] ? "wrong bits" : "no callback");
    return WEFT_OK;
}

/* Runs all steps of a rank.  A rank that is ahead registers and pushes the next step before it
 * waits for the current one. */
static enum weft_status run_steps(struct own *o, struct weft_error *err)
{
    const uint32_t none = REDUCTION_STEPS;
    uint32_t waiting = none; /* a pushed step that is not yet waited for */
    for (uint32_t k = 0; k < REDUCTION_STEPS; k++) {
        if (!has_step(o->w, o->rank, k))
            continue;
        WEFT_TRY(register_step(o, k, err));
        WEFT_TRY(push_step(o, k, err));
        if (waiting != none)
            WEFT_TRY(finish_step(o, waiting, err));
        waiting = k;
        if (draw(o->w->timing, DRAW_AHEAD, o->rank, k, 0) % 2 == 0) {
            WEFT_TRY(finish_step(o, k, err));
            waiting = none;
        }
    }
    WEFT_TRY(weft_sync_leave(o->sync, err));
    return waiting != none ? finish_step(o, waiting, err) : WEFT_OK;
}

enum weft_status reduction_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct own o = {.w = arg, .rank = weft_comm_rank(comm)};
    weft_comm_set_timeout(comm, 60);
    WEFT_TRY(weft_sync_new(comm, o.w->op, &o.sync, err));
    weft_sync_on_complete(o.sync, param_done, step_done, &o);
    enum weft_status st = run_steps(&o, err);
    if (st != WEFT_OK)
        weft_comm_abort(comm, err);
    weft_sync_free(o.sync);
    for (uint32_t k = 0; k < REDUCTION_STEPS; k++)
        for (uint32_t p = 0; p < REDUCTION_PARAMS; p++)
            for (uint32_t g = 0; g < MAX_GRADS; g++)
                free(o.grad[k][p][g]);
    return st;
}
