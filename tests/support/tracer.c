/* Implements the stages of the tracer: their arithmetic, their slots, and the faults and delays
 * that tests inject. */
#include <inttypes.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/random.h"
#include "tracer_priv.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* -- the arithmetic ------------------------------------------------------------------------ */

uint64_t tracer_fold(uint64_t h, const void *at, size_t bytes)
{
    const unsigned char *from = at;
    for (size_t i = 0; i < bytes; i += sizeof h) {
        uint64_t word = 0;
        memcpy(&word, from + i, bytes - i < sizeof word ? bytes - i : sizeof word);
        h = wf_random_mix(h * 3 + word + GOLDEN);
    }
    return h;
}

void tracer_expand(uint64_t h, uint64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = wf_random_mix(h + i * GOLDEN);
}

static bool is_expanded(uint64_t h, const uint64_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at[i] != wf_random_mix(h + i * GOLDEN))
            return false;
    return true;
}

/* -- blocks -------------------------------------------------------------------------------- */

static enum weft_status check_blocks(const struct own_stage *s,
                                     const struct weft_stage_call *call, bool backward,
                                     struct weft_error *err)
{
    const struct tracer_model *m = s->t->model;
    if ((call->blocks != NULL) != tracer_has_blocks(m))
        return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u: blocks are %s", s->stage,
                         call->blocks == NULL ? "missing" : "there");
    for (uint32_t b = 0; tracer_has_blocks(m) && b < m->n_blocks; b++) {
        bool wanted = m->finished_by[b] <= s->stage;
        if ((call->blocks->value[b] != NULL) != wanted ||
            (backward && (call->blocks->grad[b] != NULL) != wanted))
            return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u, micro %u: block %u is %s", s->stage,
                             call->micro, b, wanted ? "missing" : "unexpected");
    }
    return WEFT_OK;
}

static uint64_t fold_values(const struct own_stage *s, const struct weft_stage_call *call,
                            uint64_t h)
{
    const struct tracer_model *m = s->t->model;
    for (uint32_t b = 0;
         tracer_has_blocks(m) && b < m->n_blocks && m->finished_by[b] < s->stage; b++)
        h = tracer_fold(h, call->blocks->value[b],
                        m->row_elements * call->rows * sizeof(float));
    return h;
}

static void make_blocks(const struct own_stage *s, const struct weft_stage_call *call,
                        uint64_t h)
{
    const struct tracer_model *m = s->t->model;
    for (uint32_t b = 0; tracer_has_blocks(m) && b < m->n_blocks; b++)
        for (size_t i = 0; m->finished_by[b] == s->stage && i < m->row_elements * call->rows;
             i++)
            call->blocks->value[b][i] =
                (float)(wf_random_mix(h + b * GOLDEN + i) & 0xffffff); /* exact */
}

/* Hashes the gradients of the blocks that the stage finished, which include those of all
 * later stages. */
static uint64_t fold_sums(const struct own_stage *s, const struct weft_stage_call *call,
                          uint64_t h)
{
    const struct tracer_model *m = s->t->model;
    for (uint32_t b = 0; tracer_has_blocks(m) && b < m->n_blocks; b++) {
        const int64_t none = 0;
        for (size_t i = 0; m->finished_by[b] == s->stage && i < m->row_elements * call->rows;
             i++)
            h = tracer_fold(h, call->blocks->fresh[b] ? &none : &call->blocks->grad[b][i],
                            sizeof none);
    }
    return h;
}

static void add_sums(const struct own_stage *s, const struct weft_stage_call *call, uint64_t k)
{
    const struct tracer_model *m = s->t->model;
    for (uint32_t b = 0;
         tracer_has_blocks(m) && b < m->n_blocks && m->finished_by[b] < s->stage; b++) {
        int64_t *sum = call->blocks->grad[b];
        for (size_t i = 0; i < m->row_elements * call->rows; i++) {
            int64_t share =
                (int64_t)(wf_random_mix(k + b * GOLDEN + i) >> 20) - (INT64_C(1) << 43);
            sum[i] = call->blocks->fresh[b] ? share : sum[i] + share;
        }
        call->blocks->fresh[b] = false;
    }
}

bool tracer_merge(int64_t *a, const int64_t *b, size_t n)
{
    bool bad = false;
    for (size_t i = 0; i < n; i++)
        bad = __builtin_add_overflow(a[i], b[i], &a[i]) || bad;
    return bad;
}

/* -- events -------------------------------------------------------------------------------- */

static void sleep_for(int64_t ns)
{
    nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
}

static void random_delay(struct own_stage *s, const struct weft_stage_call *call, unsigned kind)
{
    uint64_t seed = s->t->model->seed + s->t->step;
    uint32_t how = wf_random_below(seed, kind, s->stage * 1000 + call->micro, 16);
    volatile uint32_t spin = how * 300;
    if (how >= 14)
        sleep_for(20000);
    else if (how >= 8)
        sched_yield();
    else
        while (spin > 0)
            spin--;
}

static enum weft_status inject_event(struct own_stage *s, const struct weft_stage_call *call,
                                     unsigned kind, struct weft_error *err)
{
    const struct tracer_event *event = &s->t->model->event;
    if (s->t->model->delays)
        random_delay(s, call, kind);
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

/* -- slots --------------------------------------------------------------------------------- */

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
                         "stage %u, micro %u: slot %u is %s of micro %u; expected %s", s->stage,
                         call->micro, call->slot, names[slot->state], slot->micro,
                         names[expected]);
    if (call->micro >= m->n_micros || call->rows != m->rows[call->micro])
        return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u, micro %u: %u rows", s->stage,
                         call->micro, call->rows);
    return WEFT_OK;
}

/* The first words store numbers; the others detect overwriting. */
static void keep(struct own_stage *s, struct slot *slot, uint64_t h, uint64_t k)
{
    slot->words[0] = h;
    slot->words[1] = k;
    tracer_expand(h + k + s->stage, slot->words + 2, s->t->model->slot_words[s->stage] - 2);
}

static enum weft_status kept(const struct own_stage *s, const struct slot *slot,
                             struct weft_error *err)
{
    if (is_expanded(slot->words[0] + slot->words[1] + s->stage, slot->words + 2,
                    s->t->model->slot_words[s->stage] - 2))
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u, micro %u: the slot was overwritten",
                     s->stage, slot->micro);
}

static void leave(struct own_stage *s, struct slot *slot)
{
    memset(slot->words, 0xa5, s->t->model->slot_words[s->stage] * sizeof *slot->words);
    slot->state = SLOT_FREE;
    s->t->in_use--;
}

/* -- the stage ----------------------------------------------------------------------------- */

static enum weft_status check_endpoints(const struct own_stage *s,
                                        const struct weft_stage_call *call,
                                        struct weft_error *err)
{
    const struct tracer_model *m = s->t->model;
    if (call->scale != 0.25F || call->train == s->t->forward_only ||
        (call->out == NULL) != tracer_has_loss(m, s->stage) ||
        (call->targets == NULL) == tracer_has_loss(m, s->stage) || call->in == NULL ||
        (call->loss == NULL) == tracer_has_loss(m, s->stage))
        return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u, micro %u: not a call of a forward",
                         s->stage, call->micro);
    return WEFT_OK;
}

static uint64_t fold_input(const struct own_stage *s, const struct weft_stage_call *call)
{
    size_t words = tracer_in_words(s->t->model, s->stage, call->micro);
    return tracer_fold(s->stage * GOLDEN + call->micro, call->in, words * sizeof(uint64_t));
}

static enum weft_status forward(void *self, const struct weft_stage_call *call,
                                struct weft_error *err)
{
    struct own_stage *s = self;
    const struct tracer_model *m = s->t->model;
    struct slot *slot;

    WEFT_TRY(enter(s, call, SLOT_FREE, &slot, err));
    WEFT_TRY(check_endpoints(s, call, err));
    WEFT_TRY(check_blocks(s, call, false, err));

    slot->state = SLOT_FORWARD;
    slot->micro = call->micro;
    s->t->in_use++;
    s->t->peak = s->t->in_use > s->t->peak ? s->t->in_use : s->t->peak;

    uint64_t read = fold_input(s, call);
    uint64_t h = fold_values(s, call, read);
    WEFT_TRY(inject_event(s, call, WEFT_ACT_F, err));
    if (fold_values(s, call, fold_input(s, call)) != h)
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "stage %u, micro %u: the input changed during the forward", s->stage,
                         call->micro);
    make_blocks(s, call, h);
    keep(s, slot, h, read);
    if (s->t->forward_only)
        leave(s, slot);

    if (!tracer_has_loss(m, s->stage)) {
        tracer_expand(h, call->out, tracer_in_words(m, s->stage + 1, call->micro));
        return WEFT_OK;
    }

    h = tracer_fold(h, call->targets, call->rows * sizeof(struct tracer_target));
    *call->loss = (double)(h >> 11);
    return WEFT_OK;
}

static enum weft_status check_backward(const struct own_stage *s, const struct slot *slot,
                                       const struct weft_stage_call *call,
                                       struct weft_error *err)
{
    const struct tracer_model *m = s->t->model;
    if ((call->dout == NULL) != tracer_has_loss(m, s->stage) || call->din == NULL ||
        call->out != NULL)
        return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u, micro %u: not a call of a backward",
                         s->stage, call->micro);
    uint64_t read = tracer_fold(s->stage * GOLDEN + call->micro, call->din,
                                tracer_in_words(m, s->stage, call->micro) * sizeof(uint64_t));
    if (s->t->in_place && s->stage > 0 && read != slot->words[1])
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "stage %u, micro %u: the activation was overwritten", s->stage,
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
    if (!tracer_has_loss(m, s->stage))
        g = tracer_fold(g, call->dout,
                        tracer_in_words(m, s->stage + 1, call->micro) * sizeof(uint64_t));
    WEFT_TRY(inject_event(s, call, kind, err));
    g = fold_sums(s, call, g);
    add_sums(s, call, g);
    tracer_expand(g, call->din, tracer_in_words(m, s->stage, call->micro));
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
        return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u, micro %u: released buffers are passed",
                         s->stage, call->micro);
    WEFT_TRY(inject_event(s, call, WEFT_ACT_W, err));
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

/* Returns the call with micros counted from 0. */
static struct weft_stage_call from_zero(const struct own_stage *s,
                                        const struct weft_stage_call *call)
{
    struct weft_stage_call out = *call;
    out.micro -= s->t->first_micro;
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

static const struct weft_stage_ops ops = {call_forward, call_input, call_weight, call_backward,
                                          NULL};

enum weft_status tracer_loss(void *arg, const struct weft_loss_call *call,
                             struct weft_error *err)
{
    struct tracer *t = arg;
    const struct tracer_model *m = t->model;
    uint32_t micro = call->micro - t->first_micro;
    size_t words = tracer_in_words(m, m->n_stages, micro);
    if (call->scale != 0.25F || (call->grad == NULL) != t->forward_only ||
        call->rows != m->rows[micro] || call->grad == call->outputs)
        return WEFT_FAIL(err, WEFT_INTERNAL, "micro %u: not a call of a loss function", micro);
    uint64_t h = tracer_fold(micro, call->outputs, words * sizeof(uint64_t));
    h = tracer_fold(h, call->targets, call->rows * sizeof(struct tracer_target));
    *call->loss = (double)(h >> 11);
    if (!t->forward_only)
        tracer_expand(h, call->grad, words);
    return WEFT_OK;
}

/* Describes the tensors of a stage.  The words are the last of them. */
static void describe_tensors(struct tracer *t, uint32_t stage)
{
    const struct tracer_model *m = t->model;
    struct weft_stage *s = &t->stages[stage];
    for (uint32_t i = stage; i <= stage + 1; i++) {
        t->shapes[i][0] = (struct weft_tensor_shape){WEFT_DTYPE_U8, 1, {3}};
        t->shapes[i][1] = (struct weft_tensor_shape){WEFT_DTYPE_BF16, 3, {1, 5, 1}};
        t->shapes[i][2] = (struct weft_tensor_shape){WEFT_DTYPE_U64, 2, {1, m->words[i]}};
    }
    if (stage > 0) {
        s->in = t->shapes[stage];
        s->n_in = TRACER_TENSORS;
    }
    if (!tracer_has_loss(m, stage)) {
        s->out = t->shapes[stage + 1];
        s->n_out = TRACER_TENSORS;
    }
    s->in_bytes = s->out_bytes = 0;
}

void tracer_begin(struct tracer *t, const struct tracer_model *m)
{
    *t = (struct tracer){.model = m};
    for (uint32_t s = 0; s < m->n_stages; s++) {
        t->own[s] = (struct own_stage){.t = t, .stage = s};
        t->stages[s] = (struct weft_stage){
            .ops = &ops,
            .self = &t->own[s],
            .in_bytes = s == 0 ? 0 : m->words[s] * sizeof(uint64_t),
            .out_bytes = tracer_has_loss(m, s) ? 0 : m->words[s + 1] * sizeof(uint64_t),
        };
    }
    for (uint32_t s = 0; m->tensors && s < m->n_stages; s++)
        describe_tensors(t, s);
}

/* Empties the slots after a failed step. */
void tracer_clear(struct tracer *t)
{
    for (uint32_t s = 0; s < t->model->n_stages; s++)
        for (size_t i = 0; i < WEFT_LEN(t->own[s].slots); i++)
            if (t->own[s].slots[i].state != SLOT_FREE)
                leave(&t->own[s], &t->own[s].slots[i]);
}
