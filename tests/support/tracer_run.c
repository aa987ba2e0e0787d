/* Runs steps with executors and compares the results. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/random.h"
#include "tracer_priv.h"
#include "weft/verify.h"

struct shared {
    struct tracer_run *run;
    uint32_t ranks[TRACER_RANKS];     /* the rank of the transport of each rank */
    struct weft_traffic *traffic;     /* owned */
    struct weft_verify_result report; /* owned */
    struct results expected[TRACER_STEPS];
    bool failed[TRACER_STEPS]; /* the step has no expected results */
    struct {
        uint64_t weight[TRACER_STEPS][TRACER_STAGES];
        uint64_t to[TRACER_STEPS][TRACER_RANKS][2]; /* bytes */
    } rank[TRACER_RANKS];
};

struct rank {
    struct shared *all;
    const struct tracer_model *model; /* `now`: with the rows of the current step */
    struct tracer_model now;
    const struct weft_placement *place;
    uint32_t rank;
    struct weft_program *program; /* owned, like the next two */
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
    tracer_feed_release(&r->feed);
}

/* Places the slots in sequence, or at the offsets of the program. */
static enum weft_status place_slots(struct rank *r, bool laid, struct weft_error *err)
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
            size_t at =
                laid ? weft_program_slot_offset(r->program, s, i) / sizeof(uint64_t) : next;
            if (i >= WEFT_LEN(r->t.own[s].slots) || at + m->slot_words[s] > words)
                return WEFT_FAIL(err, WEFT_INTERNAL,
                                 "rank %u: slot %u of stage %u is out of range", r->rank, i, s);
            r->t.own[s].slots[i].words = r->t.memory + at;
            next = at + m->slot_words[s];
        }
    return WEFT_OK;
}

/* With separate pools, a stage has as many slots as its maximum number of micros in flight. */
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
    if (r->t.own[stage].n_reduced++ > 0 || r->t.own[stage].n_weights != micros ||
        weft_exec_num_saved(r->exec, stage) != 0)
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: stage %u is reduced after %u of %u",
                         r->rank, stage, r->t.own[stage].n_weights, micros);
    return WEFT_OK;
}

/* Returns the rank of the schedule that a rank of the transport runs, or n_ranks. */
static uint32_t find_rank(const struct shared *all, const struct weft_placement *place,
                          uint32_t in_comm)
{
    uint32_t r = 0;
    while (r < place->n_ranks && all->ranks[r] != in_comm)
        r++;
    return r;
}

static void describe_position(void *arg, uint32_t peer, uint64_t doing, char *out, size_t size)
{
    const struct rank *r = arg;
    uint32_t rank = find_rank(r->all, r->place, peer);
    if (rank < r->place->n_ranks)
        weft_program_describe(r->program, rank, (size_t)doing, out, size);
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
    if (run->copying != COPYING_NONE && run->launch == NULL) {
        WEFT_TRY(copying_open(comm, run->copying, &r->copying, err));
        comm = r->copying;
    }

    WEFT_TRY(weft_program_new(run->schedule, r->rank, run->lay_slots ? bytes : NULL,
                              &r->program, err));
    weft_comm_describe(comm, describe_position, r);
    if (run->lay_slots)
        WEFT_TRY(check_laid(r, bytes, err));
    WEFT_TRY(place_slots(r, run->lay_slots, err));

    if (!tracer_feed_init(&r->feed, r->model))
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for inputs");

    bool reduces = run->model->event.on == false;
    struct weft_exec_setup setup = {
        .program = r->program,
        .comm = comm,
        .ranks = r->all->ranks,
        .first_micro = run->first_micro,
        .stages = r->t.stages,
        .rows = r->model->vary_rows ? NULL : r->model->rows,
        .max_rows = r->model->vary_rows ? r->model->max_rows : 0,
        .outputs_on = run->outputs_on,
        .blocks = {.traffic = r->all->traffic,
                   .row_elements = r->model->row_elements,
                   .merge = tracer_merge},
        .reduce = reduces ? reduce : NULL,
        .reduce_arg = r,
    };
    return weft_exec_new(&setup, &r->exec, err);
}

/* -- comparing ----------------------------------------------------------------------------- */

/* Returns true if this rank receives the outputs of a micro in a step. */
static bool gets_output(const struct rank *r, uint32_t micro, uint32_t step)
{
    uint32_t holder = weft_placement_rank(r->place, r->model->n_stages - 1, micro);
    if (!r->model->has_outputs)
        return false;
    if (r->all->run->outputs_on == WEFT_OUTPUTS_ON_FIRST)
        return r->rank == 0;
    return r->rank == holder && step % 2 == 0; /* outputs are not always requested */
}

static enum weft_status check_outputs(struct rank *r, uint32_t step, struct weft_error *err)
{
    for (uint32_t i = 0; i < r->model->n_micros; i++)
        if (gets_output(r, i, step) && tracer_fold_output(r->feed.outputs[i], r->model, i) !=
                                           r->all->expected[step].output[i])
            return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u, step %u: wrong outputs of micro %u",
                             r->rank, step, i);
    return WEFT_OK;
}

/* Returns the bytes of the outputs that this rank sends to rank 0. */
static uint64_t output_bytes(const struct rank *r)
{
    uint64_t words = 0;
    if (!r->model->has_outputs || r->all->run->outputs_on != WEFT_OUTPUTS_ON_FIRST ||
        r->rank == 0)
        return 0;
    for (uint32_t i = 0; i < r->model->n_micros; i++)
        if (weft_placement_rank(r->place, r->model->n_stages - 1, i) == r->rank)
            words += tracer_in_words(r->model, r->model->n_stages, i);
    return words * sizeof(uint64_t);
}

/* Returns the program of the current step. */
static const struct weft_program *program_of(const struct rank *r)
{
    return r->t.forward_only ? weft_program_forward(r->program) : r->program;
}

static enum weft_status check_results(struct rank *r, uint32_t step, struct weft_error *err)
{
    const struct results *want = &r->all->expected[step];

    for (uint32_t i = 0; i < r->model->n_micros; i++) {
        if (weft_placement_rank(r->place, r->model->n_stages - 1, i) == r->rank &&
            r->losses[i] != want->loss[i])
            return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u, step %u: wrong loss of micro %u",
                             r->rank, step, i);
        if (!r->t.forward_only && weft_placement_rank(r->place, 0, i) == r->rank &&
            tracer_fold_grad(&r->feed, r->model, i) != want->input_grad[i])
            return WEFT_FAIL(err, WEFT_INTERNAL,
                             "rank %u, step %u: wrong input gradient of micro %u", r->rank,
                             step, i);
    }

    const struct weft_program *p = program_of(r);
    size_t peak = r->all->report.peak_activations[r->rank];
    if (r->t.forward_only)
        peak = weft_schedule_rank(weft_program_schedule(p), r->rank).len > 0;
    if (r->t.peak != peak || weft_program_peak(p) != peak || r->t.in_use != 0 ||
        weft_exec_num_saved(r->exec, WEFT_ALL_STAGES) != 0 ||
        weft_exec_max_saved(r->exec, WEFT_ALL_STAGES) != (r->t.forward_only ? 0 : peak))
        return WEFT_FAIL(
            err, WEFT_INTERNAL,
            "rank %u: %zu slots in use at most, %zu by the program, %zu by the verifier; "
            "%zu at the end",
            r->rank, r->t.peak, weft_program_peak(p), peak, r->t.in_use);
    return WEFT_OK;
}

/* Returns the bytes of the message of an action, including its blocks. */
static uint64_t message_bytes(const struct rank *r, struct weft_action a)
{
    bool up = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_RECV_B;
    bool fwd = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_RECV_F;
    uint32_t upper = up ? a.stage + 1 : a.stage;
    uint64_t bytes = tracer_in_words(r->model, upper, a.micro) * sizeof(uint64_t);
    if (r->all->traffic == NULL)
        return bytes;
    size_t n =
        weft_traffic_receives(r->all->traffic, weft_placement_pipe(r->place, a.micro), upper)
            .len;
    size_t each = fwd ? sizeof(float) : sizeof(int64_t);
    return bytes + n * r->model->row_elements * r->model->rows[a.micro] * each;
}

static enum weft_status check_event(const struct rank *r, struct weft_trace_event e,
                                    struct weft_action a, double *now, struct weft_error *err)
{
    bool message = weft_act_is_message(a.kind);
    bool up = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_RECV_B;
    bool send = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_SEND_B;
    uint32_t peer = message
                        ? weft_placement_rank(r->place, up ? a.stage + 1 : a.stage - 1, a.micro)
                        : WEFT_NO_RANK;
    enum weft_lane lane = !message ? WEFT_LANE_COMPUTE : send ? WEFT_LANE_SEND : WEFT_LANE_RECV;
    char text[WEFT_ACTION_TEXT_MAX];
    weft_action_print(a, text);
    if (memcmp(&e.action, &a, sizeof a) != 0 || e.rank != r->rank || e.lane != lane ||
        e.peer != peer || e.bytes != (message ? message_bytes(r, a) : 0))
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "rank %u: the event of %s: lane %d, peer %u, %" PRIu64 " bytes",
                         r->rank, text, (int)e.lane, e.peer, e.bytes);
    if (e.start < *now || e.length < 0)
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "rank %u: %s starts before the previous action ends", r->rank, text);
    *now = e.start + e.length;
    return WEFT_OK;
}

static enum weft_status check_events(struct rank *r, uint32_t step, struct weft_error *err)
{
    struct weft_action_span list =
        weft_schedule_rank(weft_program_schedule(program_of(r)), r->rank);
    uint64_t to[TRACER_RANKS][2] = {{0}};
    size_t n = 0;
    double now = 0;

    for (size_t i = 0; i < list.len; i++) {
        struct weft_action a = list.at[i];
        if (!weft_act_is_compute(a.kind) && !weft_act_is_message(a.kind))
            continue;
        if (n == weft_exec_n_events(r->exec))
            return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: only %zu events", r->rank, n);

        struct weft_trace_event e = weft_exec_event(r->exec, n++);
        WEFT_TRY(check_event(r, e, a, &now, err));
        if (e.lane == WEFT_LANE_SEND)
            to[e.peer][a.kind == WEFT_ACT_SEND_B] += e.bytes;
        if (a.paired && memcmp(&e.partner, &list.at[++i], sizeof a) != 0)
            return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: wrong partner in a pair", r->rank);
    }

    if (n != weft_exec_n_events(r->exec))
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: too many events", r->rank);

    struct weft_exec_times times = weft_exec_times(r->exec);
    uint64_t sent = 0;
    to[0][0] += output_bytes(r);
    for (uint32_t k = 0; k < r->place->n_ranks; k++)
        sent += to[k][0] + to[k][1];

    if (times.sent_bytes != sent || times.compute_ns < 0 || times.wait_ns < 0 ||
        times.compute_ns + times.wait_ns > times.end_ns - times.begin_ns)
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: inconsistent times", r->rank);

    for (uint32_t k = 0; k < r->place->n_ranks; k++)
        for (int back = 0; back < 2; back++) {
            /* Outputs for rank 0 are not part of the traffic table. */
            uint64_t *all = &r->all->rank[r->rank].to[step][k][back];
            if (!r->t.forward_only)
                *all = to[k][back] - (k == 0 && back == 0 ? output_bytes(r) : 0);
            if (r->t.forward_only && back != 0 && to[k][back] != 0)
                return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u sends a gradient to rank %u",
                                 r->rank, k);
            if (to[k][back] != weft_exec_bytes_to(r->exec, k, back != 0))
                return WEFT_FAIL(err, WEFT_INTERNAL,
                                 "rank %u: wrong number of bytes to rank %u", r->rank, k);
        }
    return WEFT_OK;
}

static enum weft_status rank_step(struct rank *r, uint32_t step, bool forward_only,
                                  struct weft_error *err)
{
    struct tracer_run *run = r->all->run;
    r->t.forward_only = forward_only || weft_program_forward(r->program) == r->program;
    bool first = run->outputs_on == WEFT_OUTPUTS_ON_FIRST;

    r->now = tracer_model_at(run->model, step);
    tracer_feed_fill(&r->feed, r->model, step);
    r->t.step = step;
    r->t.peak = 0;
    for (uint32_t s = 0; s < r->model->n_stages; s++) {
        r->t.own[s].weight = 0;
        r->t.own[s].n_weights = r->t.own[s].n_reduced = 0;
    }

    struct weft_exec_io io = {.step = step,
                              .inputs = (const void *const *)r->feed.inputs,
                              .input_grads = (void *const *)r->feed.grads,
                              .targets = (const void *const *)r->feed.targets,
                              .scale = 0.25F,
                              .loss = r->model->has_outputs ? tracer_loss : NULL,
                              .loss_arg = &r->t,
                              .outputs = first || step % 2 == 0 ? (void *const *)r->feed.outputs
                                                                : NULL,
                              .rows = r->model->vary_rows ? r->model->rows : NULL,
                              .forward_only = forward_only,
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
    for (uint32_t s = 0; !r->t.forward_only && s < r->model->n_stages; s++)
        r->all->rank[r->rank].weight[step][s] = r->t.own[s].weight;
    WEFT_TRY(check_results(r, step, err));
    WEFT_TRY(check_outputs(r, step, err));
    return check_events(r, step, err);
}

static enum weft_status count_allocations(struct rank *r, struct weft_comm *comm, uint32_t step,
                                          size_t *before, struct weft_error *err)
{
    if (r->all->run->allocations == NULL)
        return WEFT_OK;
    WEFT_TRY(weft_comm_barrier(comm, err));
    size_t now = r->all->run->allocations();
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
    const struct weft_placement *place = weft_schedule_placement(all->run->schedule);
    struct rank r = {.all = all,
                     .now = tracer_model_at(all->run->model, 0),
                     .place = place,
                     .rank = find_rank(all, place, weft_comm_rank(comm))};
    size_t before = 0;

    if (r.rank == place->n_ranks)
        return WEFT_OK;

    r.model = &r.now;
    tracer_begin(&r.t, r.model);
    r.t.in_place = true;
    r.t.first_micro = all->run->first_micro;

    enum weft_status st = rank_begin(&r, comm, err);
    for (uint32_t step = 0; st == WEFT_OK && step < all->run->steps; step++) {
        st = rank_step(&r, step, false, err);
        for (uint32_t i = 1; st == WEFT_OK && i <= all->run->evals; i++)
            st = rank_step(&r, (step + i) % all->run->steps, true, err);
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

/* -- all ranks ----------------------------------------------------------------------------- */

static bool is_forward_only(const struct shared *all)
{
    return weft_schedule_is_forward_only(all->run->schedule);
}

static enum weft_status check_weights(const struct shared *all, struct weft_error *err)
{
    for (uint32_t step = 0; step < all->run->steps; step++)
        for (uint32_t s = 0;
             !all->failed[step] && !is_forward_only(all) && s < all->run->model->n_stages;
             s++) {
            uint64_t sum = 0;
            for (uint32_t r = 0; r < TRACER_RANKS; r++)
                sum += all->rank[r].weight[step][s];
            if (sum != all->expected[step].weight[s])
                return WEFT_FAIL(err, WEFT_INTERNAL, "%s: step %u: wrong weights of stage %u",
                                 all->run->label, step, s);
        }
    return WEFT_OK;
}

/* Compares with the prediction of the traffic table for each link; for equal micros and
 * widths. */
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
                    st = WEFT_FAIL(err, WEFT_INTERNAL,
                                   "step %u: wrong number of bytes from rank %u to %u", step,
                                   from, to);
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

/* Chooses the ranks of the transport: adjacent ranks, or some in a random order. */
static void choose_ranks(struct shared *all, uint32_t n, uint32_t size)
{
    uint32_t from[TRACER_RANKS];
    for (uint32_t i = 0; i < size; i++)
        from[i] = i;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t i = r + wf_random_below(all->run->model->seed, 4, r, size - r);
        if (!all->run->shuffle_ranks)
            i = r + (size - n) / 2;
        all->ranks[r] = from[i];
        if (all->run->shuffle_ranks)
            from[i] = from[r];
    }
}

static enum weft_status prepare(struct shared *all, uint32_t n_ranks, struct weft_error *err)
{
    struct tracer_run *run = all->run;
    const struct weft_placement *place = weft_schedule_placement(run->schedule);
    const struct tracer_model *m = run->model;
    choose_ranks(all, place->n_ranks, n_ranks);
    WEFT_TRY(weft_verify(run->schedule, NULL, &all->report, err));
    if (m->n_blocks > 0)
        WEFT_TRY(weft_traffic_new(place, m->finished_by, m->n_blocks, run->cache, &all->traffic,
                                  err));
    for (uint32_t step = 0; step < run->steps; step++) {
        WEFT_TRY(tracer_expect(m, step, &all->expected[step], err));
        all->failed[step] = m->event.on && m->event.step == step && m->event.status != WEFT_OK;
    }
    return WEFT_OK;
}

/* Adds the weights of all ranks, which are processes. */
static enum weft_status gather_weights(struct weft_comm *comm, struct shared *all,
                                       struct weft_error *err)
{
    uint64_t weights[TRACER_RANKS][TRACER_STEPS][TRACER_STAGES];
    uint32_t rank =
        find_rank(all, weft_schedule_placement(all->run->schedule), weft_comm_rank(comm));
    uint64_t none[TRACER_STEPS][TRACER_STAGES] = {{0}};
    WEFT_TRY(weft_comm_gather_equal(comm, rank < TRACER_RANKS ? all->rank[rank].weight : none,
                                    sizeof none, weights, err));
    for (uint32_t r = 0; weft_comm_rank(comm) == 0 && r < weft_comm_size(comm); r++)
        memcpy(all->rank[r].weight, weights[r], sizeof none);
    return weft_comm_rank(comm) == 0 ? check_weights(all, err) : WEFT_OK;
}

static enum weft_status run_on(struct weft_comm *comm, struct runs *runs,
                               struct weft_error *err)
{
    for (size_t i = 0; i < runs->n; i++) {
        WEFT_TRY(prepare(&runs->at[i], weft_comm_size(comm), err));
        WEFT_TRY(run_one(comm, &runs->at[i], err));
        WEFT_TRY(gather_weights(comm, &runs->at[i], err));
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
    weft_launch_fn *launch = runs->at[0].run->launch;
    WEFT_TRY(launch != NULL ? launch(NULL, n_ranks, run_rank, runs, err)
                            : weft_comm_run_threads(n_ranks, run_rank, runs, err));
    for (size_t i = 0; i < runs->n; i++) {
        WEFT_TRY(check_weights(&runs->at[i], err));
        if (runs->at[i].traffic != NULL && !is_forward_only(&runs->at[i]))
            WEFT_TRY(check_traffic(&runs->at[i], err));
    }
    return WEFT_OK;
}

/* Allocates the results in memory that forked ranks share. */
static struct shared *alloc_results(size_t n)
{
    void *at = mmap(NULL, n * sizeof(struct shared), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

enum weft_status tracer_run_on(struct weft_comm *comm, struct tracer_run *at, size_t n,
                               struct weft_error *err)
{
    struct runs runs = {.at = alloc_results(n), .n = n};
    if (runs.at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu runs", n);
    for (size_t i = 0; i < n; i++)
        runs.at[i].run = &at[i];
    enum weft_status st = comm == NULL ? run_all(&runs, err) : run_on(comm, &runs, err);
    for (size_t i = 0; i < n; i++) {
        weft_traffic_free(runs.at[i].traffic);
        weft_verify_result_release(&runs.at[i].report);
    }
    munmap(runs.at, n * sizeof *runs.at);
    return st;
}

enum weft_status tracer_run(struct tracer_run *at, size_t n, struct weft_error *err)
{
    return tracer_run_on(NULL, at, n, err);
}
