#include "tracer.h"

#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "copying.h"
#include "weft/verify.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

enum slot_state { SLOT_FREE, SLOT_FORWARD, SLOT_SPLIT };

struct slot {
    enum slot_state state;
    uint32_t micro;
    uint64_t *words; /* borrowed */
};

struct own_stage {
    struct tracer *t;
    uint32_t stage;
    struct slot slots[TRACER_MICROS * 2];
    uint64_t weight; /* its gradient */
    uint32_t n_weights, n_reduced;
};

/* One rank's part, or the whole when there are no ranks. */
struct tracer {
    const struct tracer_model *model;
    uint64_t step;
    uint32_t micro0;
    bool in_place; /* the gradient of the input is asked for where the input lies */
    struct own_stage own[TRACER_STAGES];
    struct weft_stage stages[TRACER_STAGES];
    uint64_t *memory; /* owned: all slots */
    size_t in_use, peak;
};

/* -- the arithmetic ------------------------------------------------------------------------- */

static uint64_t fold(uint64_t h, const void *at, size_t bytes)
{
    const unsigned char *from = at;
    for (size_t i = 0; i < bytes; i += sizeof h) {
        uint64_t word = 0;
        memcpy(&word, from + i, bytes - i < sizeof word ? bytes - i : sizeof word);
        h = weft_random_mix(h * 3 + word + GOLDEN);
    }
    return h;
}

static void spread(uint64_t h, uint64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = weft_random_mix(h + i * GOLDEN);
}

static bool is_spread(uint64_t h, const uint64_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at[i] != weft_random_mix(h + i * GOLDEN))
            return false;
    return true;
}

static size_t in_words(const struct tracer_model *m, uint32_t stage, uint32_t micro)
{
    return m->words[stage] * m->rows[micro];
}

static bool is_last(const struct tracer_model *m, uint32_t stage)
{
    return stage + 1 == m->n_stages;
}

static bool has_blocks(const struct tracer_model *m)
{
    return m->n_blocks > 0 && m->n_stages > 1;
}

/* -- blocks --------------------------------------------------------------------------------- */

static enum weft_status check_blocks(const struct own_stage *s,
                                     const struct weft_stage_call *call, bool backward,
                                     struct weft_error *err)
{
    const struct tracer_model *m = s->t->model;
    if ((call->blocks != NULL) != has_blocks(m))
        return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u: blocks are %s", s->stage,
                         call->blocks == NULL ? "missing" : "there");
    for (uint32_t b = 0; has_blocks(m) && b < m->n_blocks; b++) {
        bool wanted = m->finished_by[b] <= s->stage;
        if ((call->blocks->value[b] != NULL) != wanted ||
            (backward && (call->blocks->grad[b] != NULL) != wanted))
            return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u, micro %u: block %u is%s there",
                             s->stage, call->micro, b, wanted ? " not" : "");
    }
    return WEFT_OK;
}

static uint64_t fold_values(const struct own_stage *s, const struct weft_stage_call *call,
                            uint64_t h)
{
    const struct tracer_model *m = s->t->model;
    for (uint32_t b = 0; has_blocks(m) && b < m->n_blocks && m->finished_by[b] < s->stage; b++)
        h = fold(h, call->blocks->value[b], m->row_elements * call->rows * sizeof(float));
    return h;
}

static void make_blocks(const struct own_stage *s, const struct weft_stage_call *call,
                        uint64_t h)
{
    const struct tracer_model *m = s->t->model;
    for (uint32_t b = 0; has_blocks(m) && b < m->n_blocks; b++)
        for (size_t i = 0; m->finished_by[b] == s->stage && i < m->row_elements * call->rows;
             i++)
            call->blocks->value[b][i] =
                (float)(weft_random_mix(h + b * GOLDEN + i) & 0xffffff); /* exact */
}

/* The gradients of what the stage made: all later stages' shares are in them. */
static uint64_t fold_sums(const struct own_stage *s, const struct weft_stage_call *call,
                          uint64_t h)
{
    const struct tracer_model *m = s->t->model;
    for (uint32_t b = 0; has_blocks(m) && b < m->n_blocks; b++) {
        const int64_t none = 0;
        for (size_t i = 0; m->finished_by[b] == s->stage && i < m->row_elements * call->rows;
             i++)
            h = fold(h, call->blocks->fresh[b] ? &none : &call->blocks->grad[b][i],
                     sizeof none);
    }
    return h;
}

static void add_sums(const struct own_stage *s, const struct weft_stage_call *call, uint64_t k)
{
    const struct tracer_model *m = s->t->model;
    for (uint32_t b = 0; has_blocks(m) && b < m->n_blocks && m->finished_by[b] < s->stage;
         b++) {
        int64_t *sum = call->blocks->grad[b];
        for (size_t i = 0; i < m->row_elements * call->rows; i++) {
            int64_t share =
                (int64_t)(weft_random_mix(k + b * GOLDEN + i) >> 20) - (INT64_C(1) << 43);
            sum[i] = call->blocks->fresh[b] ? share : sum[i] + share;
        }
        call->blocks->fresh[b] = false;
    }
}

static bool merge(int64_t *a, const int64_t *b, size_t n)
{
    bool bad = false;
    for (size_t i = 0; i < n; i++)
        bad = __builtin_add_overflow(a[i], b[i], &a[i]) || bad;
    return bad;
}

/* -- what happens on the way ---------------------------------------------------------------- */

static void sleep_for(int64_t ns)
{
    nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
}

static void dawdle(struct own_stage *s, const struct weft_stage_call *call, unsigned kind)
{
    uint64_t seed = s->t->model->seed + s->t->step;
    uint32_t how = weft_random_below(seed, kind, s->stage * 1000 + call->micro, 16);
    volatile uint32_t spin = how * 300;
    if (how >= 14)
        sleep_for(20000);
    else if (how >= 8)
        sched_yield();
    else
        while (spin > 0)
            spin--;
}

static enum weft_status happen(struct own_stage *s, const struct weft_stage_call *call,
                               unsigned kind, struct weft_error *err)
{
    const struct tracer_event *event = &s->t->model->event;
    if (s->t->model->delays)
        dawdle(s, call, kind);
    if (!event->on || event->kind != kind || event->stage != s->stage ||
        event->micro != call->micro || event->step != s->t->step)
        return WEFT_OK;
    if (event->sleep_ns > 0)
        sleep_for(event->sleep_ns);
    if (event->status == WEFT_OK || event->silent)
        return event->status;
    return WEFT_FAIL(err, event->status, "stage %u, micro %u, step %" PRIu64 " fails", s->stage,
                     call->micro, s->t->step);
}

/* -- slots ---------------------------------------------------------------------------------- */

static enum weft_status enter(struct own_stage *s, const struct weft_stage_call *call,
                              enum slot_state expected, struct slot **out,
                              struct weft_error *err)
{
    static const char *const names[] = {"free", "between forward and backward",
                                        "between input and weight gradient"};
    const struct tracer_model *m = s->t->model;
    if (call->slot >= WEFT_LEN(s->slots) || s->slots[call->slot].words == NULL)
        return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u has no slot %u", s->stage, call->slot);
    struct slot *slot = *out = &s->slots[call->slot];
    if (slot->state != expected || (expected != SLOT_FREE && slot->micro != call->micro))
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "stage %u, micro %u: slot %u is %s of micro %u where it should be %s",
                         s->stage, call->micro, call->slot, names[slot->state], slot->micro,
                         names[expected]);
    if (call->micro >= m->n_micros || call->rows != m->rows[call->micro])
        return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u, micro %u: %u rows", s->stage,
                         call->micro, call->rows);
    return WEFT_OK;
}

/* The first words are numbers to keep, the others say whether anyone wrote over them. */
static void keep(struct own_stage *s, struct slot *slot, uint64_t h, uint64_t k)
{
    slot->words[0] = h;
    slot->words[1] = k;
    spread(h + k + s->stage, slot->words + 2, s->t->model->slot_words[s->stage] - 2);
}

static enum weft_status kept(const struct own_stage *s, const struct slot *slot,
                             struct weft_error *err)
{
    if (is_spread(slot->words[0] + slot->words[1] + s->stage, slot->words + 2,
                  s->t->model->slot_words[s->stage] - 2))
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u, micro %u: somebody wrote into the slot",
                     s->stage, slot->micro);
}

static void leave(struct own_stage *s, struct slot *slot)
{
    memset(slot->words, 0xa5, s->t->model->slot_words[s->stage] * sizeof *slot->words);
    slot->state = SLOT_FREE;
    s->t->in_use--;
}

/* -- the stage ------------------------------------------------------------------------------ */

static enum weft_status check_ends(const struct own_stage *s,
                                   const struct weft_stage_call *call, struct weft_error *err)
{
    const struct tracer_model *m = s->t->model;
    if (call->scale != 0.25F || !call->train || (call->out == NULL) != is_last(m, s->stage) ||
        (call->targets == NULL) == is_last(m, s->stage) || call->in == NULL ||
        (call->loss == NULL) == is_last(m, s->stage))
        return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u, micro %u: not a forward's call",
                         s->stage, call->micro);
    return WEFT_OK;
}

static enum weft_status forward(void *self, const struct weft_stage_call *call,
                                struct weft_error *err)
{
    struct own_stage *s = self;
    const struct tracer_model *m = s->t->model;
    struct slot *slot;
    WEFT_TRY(enter(s, call, SLOT_FREE, &slot, err));
    WEFT_TRY(check_ends(s, call, err));
    WEFT_TRY(check_blocks(s, call, false, err));
    slot->state = SLOT_FORWARD;
    slot->micro = call->micro;
    s->t->in_use++;
    s->t->peak = s->t->in_use > s->t->peak ? s->t->in_use : s->t->peak;
    uint64_t h = fold(s->stage * GOLDEN + call->micro, call->in,
                      in_words(m, s->stage, call->micro) * sizeof(uint64_t));
    WEFT_TRY(happen(s, call, WEFT_ACT_F, err));
    uint64_t read = h;
    h = fold_values(s, call, h);
    make_blocks(s, call, h);
    keep(s, slot, h, read);
    if (!is_last(m, s->stage)) {
        spread(h, call->out, in_words(m, s->stage + 1, call->micro));
        return WEFT_OK;
    }
    h = fold(h, call->targets, call->rows * sizeof *call->targets);
    *call->loss = (double)(h >> 11);
    return WEFT_OK;
}

static enum weft_status check_backward(const struct own_stage *s, const struct slot *slot,
                                       const struct weft_stage_call *call,
                                       struct weft_error *err)
{
    const struct tracer_model *m = s->t->model;
    if ((call->dout == NULL) != is_last(m, s->stage) || call->din == NULL || call->out != NULL)
        return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u, micro %u: not a backward's call",
                         s->stage, call->micro);
    uint64_t read = fold(s->stage * GOLDEN + call->micro, call->din,
                         in_words(m, s->stage, call->micro) * sizeof(uint64_t));
    if (s->t->in_place && s->stage > 0 && read != slot->words[1])
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "stage %u, micro %u: somebody wrote into the activation", s->stage,
                         call->micro);
    return check_blocks(s, call, true, err);
}

static enum weft_status input_half(struct own_stage *s, struct slot *slot,
                                   const struct weft_stage_call *call, unsigned kind,
                                   struct weft_error *err)
{
    const struct tracer_model *m = s->t->model;
    WEFT_TRY(kept(s, slot, err));
    WEFT_TRY(check_backward(s, slot, call, err));
    uint64_t h = slot->words[0], g = h;
    if (!is_last(m, s->stage))
        g = fold(g, call->dout, in_words(m, s->stage + 1, call->micro) * sizeof(uint64_t));
    WEFT_TRY(happen(s, call, kind, err));
    g = fold_sums(s, call, g);
    add_sums(s, call, g);
    spread(g, call->din, in_words(m, s->stage, call->micro));
    keep(s, slot, h, g);
    return WEFT_OK;
}

static enum weft_status weight_half(struct own_stage *s, struct slot *slot,
                                    struct weft_error *err)
{
    WEFT_TRY(kept(s, slot, err));
    if (s->n_reduced > 0)
        return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u was reduced before micro %u", s->stage,
                         slot->micro);
    s->weight += slot->words[0] * slot->words[1];
    s->n_weights++;
    leave(s, slot);
    return WEFT_OK;
}

static enum weft_status backward_input(void *self, const struct weft_stage_call *call,
                                       struct weft_error *err)
{
    struct slot *slot;
    WEFT_TRY(enter(self, call, SLOT_FORWARD, &slot, err));
    WEFT_TRY(input_half(self, slot, call, WEFT_ACT_I, err));
    slot->state = SLOT_SPLIT;
    return WEFT_OK;
}

static enum weft_status backward_weight(void *self, const struct weft_stage_call *call,
                                        struct weft_error *err)
{
    struct own_stage *s = self;
    struct slot *slot;
    WEFT_TRY(enter(s, call, SLOT_SPLIT, &slot, err));
    if (call->dout != NULL || call->din != NULL || call->blocks != NULL)
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "stage %u, micro %u: buffers that have gone on are given", s->stage,
                         call->micro);
    WEFT_TRY(happen(s, call, WEFT_ACT_W, err));
    return weight_half(s, slot, err);
}

static enum weft_status backward(void *self, const struct weft_stage_call *call,
                                 struct weft_error *err)
{
    struct slot *slot;
    WEFT_TRY(enter(self, call, SLOT_FORWARD, &slot, err));
    WEFT_TRY(input_half(self, slot, call, WEFT_ACT_B, err));
    return weight_half(self, slot, err);
}

/* The same calls with micros counted from 0. */
static struct weft_stage_call from_zero(const struct own_stage *s,
                                        const struct weft_stage_call *call)
{
    struct weft_stage_call out = *call;
    out.micro -= s->t->micro0;
    return out;
}

static enum weft_status call_forward(void *self, const struct weft_stage_call *call,
                                     struct weft_error *err)
{
    struct weft_stage_call own = from_zero(self, call);
    return forward(self, &own, err);
}

static enum weft_status call_input(void *self, const struct weft_stage_call *call,
                                   struct weft_error *err)
{
    struct weft_stage_call own = from_zero(self, call);
    return backward_input(self, &own, err);
}

static enum weft_status call_weight(void *self, const struct weft_stage_call *call,
                                    struct weft_error *err)
{
    struct weft_stage_call own = from_zero(self, call);
    return backward_weight(self, &own, err);
}

static enum weft_status call_backward(void *self, const struct weft_stage_call *call,
                                      struct weft_error *err)
{
    struct weft_stage_call own = from_zero(self, call);
    return backward(self, &own, err);
}

static const struct weft_stage_ops ops = {call_forward, call_input, call_weight, call_backward};

static void tracer_begin(struct tracer *t, const struct tracer_model *m)
{
    *t = (struct tracer){.model = m};
    for (uint32_t s = 0; s < m->n_stages; s++) {
        t->own[s] = (struct own_stage){.t = t, .stage = s};
        t->stages[s] = (struct weft_stage){
            .ops = &ops,
            .self = &t->own[s],
            .in_bytes = s == 0 ? 0 : m->words[s] * sizeof(uint64_t),
            .out_bytes = is_last(m, s) ? 0 : m->words[s + 1] * sizeof(uint64_t),
        };
    }
}

/* What a failed step left behind. */
static void tracer_clear(struct tracer *t)
{
    for (uint32_t s = 0; s < t->model->n_stages; s++)
        for (size_t i = 0; i < WEFT_LEN(t->own[s].slots); i++)
            if (t->own[s].slots[i].state != SLOT_FREE)
                leave(&t->own[s], &t->own[s].slots[i]);
}

/* -- what goes in and what should come out --------------------------------------------------- */

struct results {
    double loss[TRACER_MICROS];
    uint64_t weight[TRACER_STAGES];
    uint64_t input_grad[TRACER_MICROS]; /* folded */
};

struct feed {
    uint64_t *inputs[TRACER_MICROS], *grads[TRACER_MICROS];
    int32_t *targets[TRACER_MICROS];
};

static void feed_release(struct feed *f)
{
    for (uint32_t i = 0; i < TRACER_MICROS; i++) {
        free(f->inputs[i]);
        free(f->grads[i]);
        free(f->targets[i]);
    }
}

static bool feed_init(struct feed *f, const struct tracer_model *m)
{
    bool ok = true;
    *f = (struct feed){0};
    for (uint32_t i = 0; i < m->n_micros; i++) {
        f->inputs[i] = calloc(in_words(m, 0, i) + 1, sizeof(uint64_t));
        f->grads[i] = calloc(in_words(m, 0, i) + 1, sizeof(uint64_t));
        f->targets[i] = calloc(m->rows[i] + 1, sizeof(int32_t));
        ok = ok && f->inputs[i] != NULL && f->grads[i] != NULL && f->targets[i] != NULL;
    }
    return ok;
}

static void feed_fill(struct feed *f, const struct tracer_model *m, uint64_t step)
{
    for (uint32_t i = 0; i < m->n_micros; i++) {
        spread(weft_random_u64(m->seed, step, i), f->inputs[i], in_words(m, 0, i));
        memset(f->grads[i], 0, in_words(m, 0, i) * sizeof(uint64_t));
        for (uint32_t row = 0; row < m->rows[i]; row++)
            f->targets[i][row] =
                (int32_t)weft_random_below(m->seed, step, 1000 + i * 10 + row, 1000);
    }
}

static uint64_t fold_grad(const struct feed *f, const struct tracer_model *m, uint32_t micro)
{
    return fold(0, f->grads[micro], in_words(m, 0, micro) * sizeof(uint64_t));
}

/* One micro through all stages and back, with buffers of its own for everything. */
struct alone {
    uint64_t *acts[TRACER_STAGES + 1], *slot[TRACER_STAGES];
    float *value[TRACER_STAGES];
    int64_t *grad[TRACER_STAGES];
    bool fresh[TRACER_STAGES];
};

static void *room(size_t n, size_t each)
{
    void *at = calloc(n + 1, each);
    if (at == NULL)
        abort();
    return at;
}

static void alone_init(struct alone *a, const struct tracer_model *m, uint32_t micro)
{
    for (uint32_t s = 0; s < m->n_stages; s++) {
        a->acts[s] = room(in_words(m, s, micro), sizeof(uint64_t));
        a->slot[s] = room(m->slot_words[s], sizeof(uint64_t));
    }
    for (uint32_t b = 0; b < m->n_blocks; b++) {
        a->value[b] = room(m->row_elements * m->rows[micro], sizeof(float));
        a->grad[b] = room(m->row_elements * m->rows[micro], sizeof(int64_t));
        a->fresh[b] = true;
    }
}

static void alone_release(struct alone *a, const struct tracer_model *m)
{
    for (uint32_t s = 0; s < m->n_stages; s++) {
        free(a->acts[s]);
        free(a->slot[s]);
    }
    for (uint32_t b = 0; b < m->n_blocks; b++) {
        free(a->value[b]);
        free(a->grad[b]);
    }
}

/* What a stage may see of the blocks. */
static const struct weft_stage_blocks *seen_by(const struct tracer_model *m, struct alone *a,
                                               uint32_t stage, struct weft_stage_blocks *out,
                                               float **value, int64_t **grad)
{
    if (!has_blocks(m))
        return NULL;
    for (uint32_t b = 0; b < m->n_blocks; b++) {
        value[b] = m->finished_by[b] <= stage ? a->value[b] : NULL;
        grad[b] = m->finished_by[b] <= stage ? a->grad[b] : NULL;
    }
    *out = (struct weft_stage_blocks){value, grad, a->fresh};
    return out;
}

static enum weft_status run_alone(struct tracer *t, struct feed *f, uint32_t micro,
                                  double *loss, struct weft_error *err)
{
    const struct tracer_model *m = t->model;
    struct alone a = {0};
    struct weft_stage_blocks blocks;
    float *value[TRACER_STAGES];
    int64_t *grad[TRACER_STAGES];
    enum weft_status st = WEFT_OK;
    alone_init(&a, m, micro);
    for (uint32_t s = 0; st == WEFT_OK && s < m->n_stages; s++) {
        bool last = is_last(m, s);
        t->own[s].slots[0].words = a.slot[s];
        struct weft_stage_call call = {.micro = micro,
                                       .rows = m->rows[micro],
                                       .in = s == 0 ? f->inputs[micro] : a.acts[s],
                                       .out = last ? NULL : a.acts[s + 1],
                                       .targets = last ? f->targets[micro] : NULL,
                                       .scale = 0.25F,
                                       .loss = last ? loss : NULL,
                                       .train = true,
                                       .blocks = seen_by(m, &a, s, &blocks, value, grad)};
        st = forward(&t->own[s], &call, err);
    }
    for (uint32_t s = m->n_stages; st == WEFT_OK && s-- > 0;) {
        struct weft_stage_call call = {.micro = micro,
                                       .rows = m->rows[micro],
                                       .dout = is_last(m, s) ? NULL : a.acts[s + 1],
                                       .din = s == 0 ? f->grads[micro] : a.acts[s],
                                       .blocks = seen_by(m, &a, s, &blocks, value, grad)};
        st = backward(&t->own[s], &call, err);
    }
    alone_release(&a, m);
    return st;
}

static enum weft_status expect(const struct tracer_model *model, uint64_t step,
                               struct results *out, struct weft_error *err)
{
    struct tracer_model m = *model; /* nothing happens on the way */
    struct feed f;
    struct tracer t;
    m.event.on = m.delays = false;
    tracer_begin(&t, &m);
    enum weft_status st = WEFT_OK;
    *out = (struct results){0};
    if (!feed_init(&f, &m))
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for inputs");
    else
        feed_fill(&f, &m, step);
    for (uint32_t i = 0; st == WEFT_OK && i < m.n_micros; i++) {
        st = run_alone(&t, &f, i, &out->loss[i], err);
        out->input_grad[i] = fold_grad(&f, &m, i);
    }
    for (uint32_t s = 0; s < m.n_stages; s++)
        out->weight[s] = t.own[s].weight;
    feed_release(&f);
    return st;
}

void tracer_model_init(struct tracer_model *m, const struct weft_placement *place,
                       uint32_t most_rows, uint64_t seed)
{
    *m = (struct tracer_model){
        .n_stages = place->n_stages, .n_micros = place->n_micros, .seed = seed};
    if (m->n_stages > TRACER_STAGES || m->n_micros > TRACER_MICROS)
        abort();
    for (uint32_t s = 0; s < m->n_stages; s++) {
        m->words[s] = 1 + weft_random_below(seed, 1, s, 12);
        m->slot_words[s] = 2 + weft_random_below(seed, 2, s, 40);
    }
    for (uint32_t i = 0; i < m->n_micros; i++)
        m->rows[i] = 1 + weft_random_below(seed, 3, i, most_rows);
}

/* -- a rank --------------------------------------------------------------------------------- */

struct shared {
    struct tracer_run *run;
    uint32_t first_peer;
    struct weft_traffic *traffic; /* owned */
    struct weft_report report;    /* owned */
    struct results expected[TRACER_STEPS];
    bool failed[TRACER_STEPS]; /* nothing is expected of the step */
    struct {
        uint64_t weight[TRACER_STEPS][TRACER_STAGES];
        uint64_t to[TRACER_STEPS][TRACER_RANKS][2]; /* bytes */
    } rank[TRACER_RANKS];
};

struct rank {
    struct shared *all;
    const struct tracer_model *model;
    const struct weft_placement *place;
    uint32_t rank, first_peer;
    struct weft_program *program; /* owned, as what follows */
    struct weft_exec *exec;
    struct weft_comm *copying;
    struct tracer t;
    struct feed feed;
    double losses[TRACER_MICROS];
};

static void rank_release(struct rank *r)
{
    weft_exec_free(r->exec);
    weft_program_free(r->program);
    copying_close(r->copying);
    free(r->t.memory);
    feed_release(&r->feed);
}

/* Slots one behind the other, or where the program lays them. */
static enum weft_status give_slots(struct rank *r, bool laid, struct weft_error *err)
{
    const struct tracer_model *m = r->model;
    size_t words = weft_program_slot_bytes(r->program) / sizeof(uint64_t), separate = 0;
    for (uint32_t s = 0; s < m->n_stages; s++) {
        size_t bytes = (m->slot_words[s] * sizeof(uint64_t) + 63) / 64 * 64;
        separate += weft_program_slots(r->program, s) * bytes;
    }
    words = laid ? words : separate / sizeof(uint64_t);
    r->t.memory = calloc(words + 1, sizeof(uint64_t));
    if (r->t.memory == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for slots");
    size_t next = 0;
    for (uint32_t s = 0; s < m->n_stages; s++)
        for (uint32_t i = 0; i < weft_program_slots(r->program, s); i++) {
            size_t at = laid ? weft_program_slot_at(r->program, s, i) / sizeof(uint64_t) : next;
            if (i >= WEFT_LEN(r->t.own[s].slots) || at + m->slot_words[s] > words)
                return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: slot %u of stage %u is outside",
                                 r->rank, i, s);
            r->t.own[s].slots[i].words = r->t.memory + at;
            next = at + m->slot_words[s];
        }
    return WEFT_OK;
}

/* With separate pools each stage has as many slots as it has micros in flight at most. */
static enum weft_status check_laid(const struct rank *r, const size_t *bytes,
                                   struct weft_error *err)
{
    struct weft_program *apart = NULL;
    size_t sum = 0;
    WEFT_TRY(weft_program_new(r->all->run->schedule, r->rank, NULL, &apart, err));
    for (uint32_t s = 0; s < r->model->n_stages; s++)
        sum += weft_program_slots(apart, s) * ((bytes[s] + 63) / 64 * 64);
    weft_program_free(apart);
    size_t total = weft_program_slot_bytes(r->program),
           bound = weft_program_slot_bound(r->program);
    if (bound <= total && total <= sum && bound > 0)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_INTERNAL,
                     "rank %u: %zu bytes of slots, at least %zu, %zu in separate pools",
                     r->rank, total, bound, sum);
}

static enum weft_status reduce(void *arg, uint32_t stage, struct weft_error *err)
{
    struct rank *r = arg;
    uint32_t micros = 0;
    for (uint32_t i = 0; i < r->model->n_micros; i++)
        micros += weft_placement_rank(r->place, stage, i) == r->rank;
    if (r->t.own[stage].n_reduced++ > 0 || r->t.own[stage].n_weights != micros)
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: stage %u is reduced after %u of %u",
                         r->rank, stage, r->t.own[stage].n_weights, micros);
    return WEFT_OK;
}

static void say_where(void *arg, uint32_t peer, uint64_t doing, char *out, size_t size)
{
    const struct rank *r = arg;
    if (peer >= r->first_peer && peer - r->first_peer < r->place->n_ranks)
        weft_program_describe(r->program, peer - r->first_peer, (size_t)doing, out, size);
}

static enum weft_status rank_begin(struct rank *r, struct weft_comm *comm,
                                   struct weft_error *err)
{
    struct tracer_run *run = r->all->run;
    size_t bytes[TRACER_STAGES];
    for (uint32_t s = 0; s < r->model->n_stages; s++)
        bytes[s] = r->model->slot_words[s] * sizeof(uint64_t);
    if (run->timeout > 0)
        weft_comm_set_timeout(comm, run->timeout);
    if (run->copying != COPYING_NOT) {
        WEFT_TRY(copying_open(comm, run->copying, &r->copying, err));
        comm = r->copying;
    }
    WEFT_TRY(weft_program_new(run->schedule, r->rank, run->lay_slots ? bytes : NULL,
                              &r->program, err));
    weft_comm_describe(comm, say_where, r);
    if (run->lay_slots)
        WEFT_TRY(check_laid(r, bytes, err));
    WEFT_TRY(give_slots(r, run->lay_slots, err));
    if (!feed_init(&r->feed, r->model))
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for inputs");
    bool reduces = run->model->event.on == false;
    struct weft_exec_setup setup = {
        .program = r->program,
        .comm = comm,
        .first_peer = r->first_peer,
        .micro0 = run->micro0,
        .stages = r->t.stages,
        .rows = r->model->rows,
        .blocks = {.traffic = r->all->traffic,
                   .row_elements = r->model->row_elements,
                   .merge = merge},
        .reduce = reduces ? reduce : NULL,
        .reduce_arg = r,
    };
    return weft_exec_new(&setup, &r->exec, err);
}

/* -- comparing ------------------------------------------------------------------------------ */

static enum weft_status check_results(struct rank *r, uint32_t step, struct weft_error *err)
{
    const struct results *want = &r->all->expected[step];
    for (uint32_t i = 0; i < r->model->n_micros; i++) {
        if (weft_placement_rank(r->place, r->model->n_stages - 1, i) == r->rank &&
            r->losses[i] != want->loss[i])
            return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u, step %u: the loss of micro %u",
                             r->rank, step, i);
        if (weft_placement_rank(r->place, 0, i) == r->rank &&
            fold_grad(&r->feed, r->model, i) != want->input_grad[i])
            return WEFT_FAIL(err, WEFT_INTERNAL,
                             "rank %u, step %u: the input's gradient of micro %u", r->rank,
                             step, i);
    }
    size_t peak = r->all->report.peak_activations[r->rank];
    if (r->t.peak != peak || weft_program_peak(r->program) != peak || r->t.in_use != 0)
        return WEFT_FAIL(
            err, WEFT_INTERNAL,
            "rank %u: %zu slots in use at most, %zu by the program, %zu by the verifier; "
            "%zu at the end",
            r->rank, r->t.peak, weft_program_peak(r->program), peak, r->t.in_use);
    return WEFT_OK;
}

/* Bytes of the message of an action, with the blocks that go along. */
static uint64_t message_bytes(const struct rank *r, struct weft_action a)
{
    bool up = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_RECV_B;
    bool fwd = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_RECV_F;
    uint32_t upper = up ? a.stage + 1 : a.stage;
    uint64_t bytes = in_words(r->model, upper, a.micro) * sizeof(uint64_t);
    if (r->all->traffic == NULL)
        return bytes;
    size_t n =
        weft_traffic_brings(r->all->traffic, weft_placement_pipe(r->place, a.micro), upper).len;
    size_t each = fwd ? sizeof(float) : sizeof(int64_t);
    return bytes + n * r->model->row_elements * r->model->rows[a.micro] * each;
}

static enum weft_status check_event(const struct rank *r, struct weft_trace_event e,
                                    struct weft_action a, double *now, struct weft_error *err)
{
    bool message = weft_kind_is_message(a.kind);
    bool up = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_RECV_B;
    bool send = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_SEND_B;
    uint32_t peer = message
                        ? weft_placement_rank(r->place, up ? a.stage + 1 : a.stage - 1, a.micro)
                        : WEFT_NO_RANK;
    enum weft_lane lane = !message ? WEFT_LANE_COMPUTE : send ? WEFT_LANE_SEND : WEFT_LANE_RECV;
    char text[WEFT_ACTION_TEXT];
    weft_action_print(a, text);
    if (memcmp(&e.action, &a, sizeof a) != 0 || e.rank != r->rank || e.lane != lane ||
        e.peer != peer || e.bytes != (message ? message_bytes(r, a) : 0))
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "rank %u: the event of %s: lane %d, peer %u, %" PRIu64 " bytes",
                         r->rank, text, (int)e.lane, e.peer, e.bytes);
    if (e.start < *now || e.length < 0)
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: %s begins before the one before ends",
                         r->rank, text);
    *now = e.start + e.length;
    return WEFT_OK;
}

static enum weft_status check_events(struct rank *r, uint32_t step, struct weft_error *err)
{
    struct weft_action_span list =
        weft_schedule_rank(weft_program_schedule(r->program), r->rank);
    uint64_t to[TRACER_RANKS][2] = {{0}};
    size_t n = 0;
    double now = 0;
    for (size_t i = 0; i < list.len; i++) {
        struct weft_action a = list.at[i];
        if (!weft_kind_is_compute(a.kind) && !weft_kind_is_message(a.kind))
            continue;
        if (n == weft_exec_n_events(r->exec))
            return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: %zu events only", r->rank, n);
        struct weft_trace_event e = weft_exec_event(r->exec, n++);
        WEFT_TRY(check_event(r, e, a, &now, err));
        if (e.lane == WEFT_LANE_SEND)
            to[e.peer][a.kind == WEFT_ACT_SEND_B] += e.bytes;
        if (a.paired && memcmp(&e.partner, &list.at[++i], sizeof a) != 0)
            return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: another partner in a pair", r->rank);
    }
    if (n != weft_exec_n_events(r->exec))
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: too many events", r->rank);
    struct weft_exec_times times = weft_exec_times(r->exec);
    uint64_t sent = 0;
    for (uint32_t k = 0; k < r->place->n_ranks; k++)
        sent += to[k][0] + to[k][1];
    if (times.sent_bytes != sent || times.compute_ns < 0 || times.wait_ns < 0 ||
        times.compute_ns + times.wait_ns > times.end_ns - times.begin_ns)
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: its times", r->rank);
    for (uint32_t k = 0; k < r->place->n_ranks; k++)
        for (int back = 0; back < 2; back++) {
            r->all->rank[r->rank].to[step][k][back] = to[k][back];
            if (to[k][back] != weft_exec_bytes_to(r->exec, k, back != 0))
                return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: bytes to rank %u", r->rank, k);
        }
    return WEFT_OK;
}

static enum weft_status rank_step(struct rank *r, uint32_t step, struct weft_error *err)
{
    struct tracer_run *run = r->all->run;
    feed_fill(&r->feed, r->model, step);
    r->t.step = step;
    r->t.peak = 0;
    for (uint32_t s = 0; s < r->model->n_stages; s++) {
        r->t.own[s].weight = 0;
        r->t.own[s].n_weights = r->t.own[s].n_reduced = 0;
    }
    struct weft_exec_io io = {.step = step,
                              .inputs = (const void *const *)r->feed.inputs,
                              .input_grads = (void *const *)r->feed.grads,
                              .targets = (const int32_t *const *)r->feed.targets,
                              .scale = 0.25F,
                              .losses = r->losses};
    enum weft_status st = weft_exec_step(r->exec, &io, err);
    if (st == WEFT_NUMERIC || st == WEFT_DATA || r->all->failed[step]) {
        if (st != WEFT_OK) {
            run->status[r->rank] = st;
            run->err[r->rank] = *err;
            run->failed_at[r->rank] = weft_exec_failed_at(r->exec);
        }
        tracer_clear(&r->t);
        return st == WEFT_NUMERIC || st == WEFT_DATA ? WEFT_OK : st;
    }
    WEFT_TRY(st);
    for (uint32_t s = 0; s < r->model->n_stages; s++)
        r->all->rank[r->rank].weight[step][s] = r->t.own[s].weight;
    WEFT_TRY(check_results(r, step, err));
    return check_events(r, step, err);
}

static enum weft_status count_allocations(struct rank *r, struct weft_comm *comm, uint32_t step,
                                          size_t *before, struct weft_error *err)
{
    const size_t *counter = r->all->run->allocations;
    if (counter == NULL)
        return WEFT_OK;
    WEFT_TRY(weft_comm_barrier(comm, err));
    size_t now = __atomic_load_n(counter, __ATOMIC_SEQ_CST);
    if (step == 1)
        *before = now;
    if (step > 1 && now != *before)
        return WEFT_FAIL(err, WEFT_INTERNAL, "%zu allocations in step %u", now - *before,
                         step - 1);
    return WEFT_OK;
}

static enum weft_status run_one(struct weft_comm *comm, struct shared *all,
                                struct weft_error *err)
{
    struct rank r = {.all = all,
                     .model = all->run->model,
                     .place = weft_schedule_placement(all->run->schedule),
                     .first_peer = all->first_peer,
                     .rank = weft_comm_rank(comm) - all->first_peer};
    size_t before = 0;
    if (r.rank >= r.place->n_ranks) /* also when it is below first_peer */
        return WEFT_OK;
    tracer_begin(&r.t, r.model);
    r.t.in_place = true;
    r.t.micro0 = all->run->micro0;
    enum weft_status st = rank_begin(&r, comm, err);
    for (uint32_t step = 0; st == WEFT_OK && step < all->run->steps; step++) {
        st = rank_step(&r, step, err);
        if (st == WEFT_OK) {
            all->run->steps_done[r.rank]++;
            st = count_allocations(&r, comm, step + 1, &before, err);
        }
    }
    if (st != WEFT_OK) {
        all->run->status[r.rank] = st;
        all->run->err[r.rank] = *err;
    }
    rank_release(&r);
    weft_comm_describe(comm, NULL, NULL);
    return st;
}

struct runs {
    struct shared *at; /* owned */
    size_t n;
};

static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct runs *runs = arg;
    for (size_t i = 0; i < runs->n; i++)
        WEFT_TRY(run_one(comm, &runs->at[i], err));
    return WEFT_OK;
}

/* -- all ranks ------------------------------------------------------------------------------ */

static enum weft_status check_weights(const struct shared *all, struct weft_error *err)
{
    for (uint32_t step = 0; step < all->run->steps; step++)
        for (uint32_t s = 0; !all->failed[step] && s < all->run->model->n_stages; s++) {
            uint64_t sum = 0;
            for (uint32_t r = 0; r < TRACER_RANKS; r++)
                sum += all->rank[r].weight[step][s];
            if (sum != all->expected[step].weight[s])
                return WEFT_FAIL(err, WEFT_INTERNAL, "%s: step %u: the weights of stage %u",
                                 all->run->label, step, s);
        }
    return WEFT_OK;
}

/* What the table of block traffic predicts for each link; for equal micros and widths. */
static enum weft_status check_traffic(const struct shared *all, struct weft_error *err)
{
    const struct tracer_model *m = all->run->model;
    struct weft_payload payload = {m->words[0] * m->rows[0] * sizeof(uint64_t),
                                   m->row_elements * m->rows[0] * sizeof(int64_t)};
    struct weft_traffic_step want;
    WEFT_TRY(weft_traffic_step_init(&want, all->traffic, payload, err));
    enum weft_status st = WEFT_OK;
    for (uint32_t step = 0; step < all->run->steps; step++) {
        size_t n = 0;
        for (uint32_t from = 0; !all->failed[step] && from < TRACER_RANKS; from++)
            for (uint32_t to = 0; to < TRACER_RANKS; to++) {
                const uint64_t *got = all->rank[from].to[step][to];
                if (got[0] + got[1] == 0)
                    continue;
                const struct weft_traffic_link *link = &want.links[n];
                if (n++ == want.n_links || link->from != from || link->to != to ||
                    got[0] != link->forward_bytes || got[1] != link->backward_bytes) {
                    st = WEFT_FAIL(err, WEFT_INTERNAL, "step %u: the bytes from rank %u to %u",
                                   step, from, to);
                    n--;
                }
            }
        if (st == WEFT_OK && !all->failed[step] && n != want.n_links)
            st = WEFT_FAIL(err, WEFT_INTERNAL, "%s: step %u: %zu links of %zu", all->run->label,
                           step, n, want.n_links);
    }
    weft_traffic_step_release(&want);
    return st;
}

static enum weft_status prepare(struct shared *all, uint32_t n_ranks, struct weft_error *err)
{
    struct tracer_run *run = all->run;
    const struct weft_placement *place = weft_schedule_placement(run->schedule);
    const struct tracer_model *m = run->model;
    all->first_peer = (n_ranks - place->n_ranks) / 2;
    WEFT_TRY(weft_verify(run->schedule, NULL, &all->report, err));
    if (m->n_blocks > 0)
        WEFT_TRY(weft_traffic_new(place, m->finished_by, m->n_blocks, run->cache, &all->traffic,
                                  err));
    for (uint32_t step = 0; step < run->steps; step++) {
        WEFT_TRY(expect(m, step, &all->expected[step], err));
        all->failed[step] = m->event.on && m->event.step == step && m->event.status != WEFT_OK;
    }
    return WEFT_OK;
}

static enum weft_status run_all(struct runs *runs, struct weft_error *err)
{
    uint32_t n_ranks = 1;
    for (size_t i = 0; i < runs->n; i++) {
        uint32_t n = weft_schedule_placement(runs->at[i].run->schedule)->n_ranks;
        n_ranks = n > n_ranks ? n : n_ranks;
    }
    for (size_t i = 0; i < runs->n; i++)
        WEFT_TRY(prepare(&runs->at[i], n_ranks, err));
    WEFT_TRY(weft_comm_run_threads(n_ranks, run_rank, runs, err));
    for (size_t i = 0; i < runs->n; i++) {
        WEFT_TRY(check_weights(&runs->at[i], err));
        if (runs->at[i].traffic != NULL)
            WEFT_TRY(check_traffic(&runs->at[i], err));
    }
    return WEFT_OK;
}

enum weft_status tracer_run(struct tracer_run *at, size_t n, struct weft_error *err)
{
    struct runs runs = {.at = calloc(n, sizeof *runs.at), .n = n};
    if (runs.at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu runs", n);
    for (size_t i = 0; i < n; i++)
        runs.at[i].run = &at[i];
    enum weft_status st = run_all(&runs, err);
    for (size_t i = 0; i < n; i++) {
        weft_traffic_free(runs.at[i].traffic);
        weft_report_release(&runs.at[i].report);
    }
    free(runs.at);
    return st;
}

static bool is_bad(const struct tracer_run *run)
{
    for (uint32_t r = 0; r < TRACER_RANKS; r++)
        if (run->status[r] != WEFT_OK)
            return true;
    return false;
}

void tracer_batch_finish(struct tracer_batch *b)
{
    struct weft_error err = {.msg = ""};
    for (size_t i = 0; i < b->n; i++) {
        b->runs[i].schedule =
            b->schedules[i] != NULL ? b->schedules[i] : b->runs[i - 1].schedule;
        b->runs[i].model = &b->models[i];
    }
    enum weft_status st = b->n == 0 ? WEFT_OK : tracer_run(b->runs, b->n, &err);
    for (size_t i = 0; i < b->n; i++) {
        if (st != WEFT_OK && is_bad(&b->runs[i]))
            print_error("%s\n", b->runs[i].label);
        weft_schedule_free(b->schedules[i]);
    }
    b->n_run += b->n;
    b->n = 0;
    if (st != WEFT_OK)
        fail_msg("%s", err.msg);
}

void tracer_batch_add(struct tracer_batch *b, struct weft_schedule *s,
                      const struct tracer_run *run)
{
    if (s != NULL && b->n + TRACER_SHARES > TRACER_BATCH)
        tracer_batch_finish(b);
    b->runs[b->n] = *run;
    b->models[b->n] = *run->model;
    b->schedules[b->n] = s;
    b->n++;
}
