/* Checks training under MPI: a step allocates nothing, memory is as planned, and an evaluation
 * sends activations alone.  Each rank is a process; test_mpi.sh starts four.
 * tests/trainer/test_ranks.c checks the same on threads.
 *
 * MPI itself allocates memory, so only calls from weft's code are counted,
 * by return address. */
#define _GNU_SOURCE
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "compute/model/stage.h"
#include "evaluations.h"
#include "weft/comm.h"

/* -- counting ------------------------------------------------------------------------------ */

enum { MAX_RANGES = 16 };

/* The code of this program and of weft's module for MPI. */
static struct {
    uintptr_t begin, end;
} ranges[MAX_RANGES];
static size_t n_ranges;
static atomic_size_t n_calls;

static int add_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    if (info->dlpi_name[0] != '\0' && strstr(info->dlpi_name, "/weft-") == NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type != PT_LOAD || (h->p_flags & PF_X) == 0 || n_ranges == MAX_RANGES)
            continue;
        ranges[n_ranges].begin = info->dlpi_addr + h->p_vaddr;
        ranges[n_ranges].end = ranges[n_ranges].begin + h->p_memsz;
        n_ranges++;
    }
    return 0;
}

/* Counts a call from weft's code.  Returns whether it is one.  Sanitizers replace the functions
 * that call it. */
__attribute__((unused)) static bool is_own_call(const void *caller)
{
    for (size_t i = 0; i < n_ranges; i++)
        if ((uintptr_t)caller >= ranges[i].begin && (uintptr_t)caller < ranges[i].end) {
            atomic_fetch_add(&n_calls, 1);
            return true;
        }
    return false;
}

#define LIVE_COUNTS(caller) is_own_call(caller)
#include "live_bytes.h"

/* A plan is at most 5 % above what the run allocates, and at most 2 % below it. */
#define MAX_RATIO 1.05
#define MIN_RATIO 0.98

/* -- cases --------------------------------------------------------------------------------- */

struct layout {
    const char *pp, *dp, *schedule, *chunks;
};

static void set_layout(struct wf_train_settings *s, const struct layout *l)
{
    run_set(s, "parallel.pp", l->pp);
    run_set(s, "parallel.dp", l->dp);
    run_set(s, "parallel.schedule", l->schedule);
    run_set(s, "parallel.chunks", l->chunks);
    run_set(s, "parallel.threads", "1");
    run_set(s, "train.timeout", "30");
}

/* Checks the trainer of a rank. */
typedef enum weft_status after_fn(struct weft_comm *comm, struct wf_trainer *t,
                                  const char *name, struct weft_error *err);

static enum weft_status count_steps(struct weft_comm *comm, struct wf_trainer *t,
                                    const char *name, struct weft_error *err)
{
    struct wf_step_result result;
    for (int i = 0; i < 2; i++)
        WEFT_TRY(wf_trainer_step(t, &result, err));
    WEFT_TRY(weft_comm_barrier(comm, err));
    size_t before = n_calls;
    for (int i = 0; i < 10; i++)
        WEFT_TRY(wf_trainer_step(t, &result, err));
    size_t calls = n_calls - before;
    if (before == 0 && LIVE_BYTES_WORK)
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "the counter does not work: the trainer made no allocation");
    if (calls != 0)
        return WEFT_FAIL(err, WEFT_INTERNAL, "%s, rank %u: %zu allocations in ten steps", name,
                         weft_comm_rank(comm), calls);
    return WEFT_OK;
}

/* Compares the plan with the bytes of the stages and buffers.  run_case() compares it with what
 * the rank has allocated. */
static enum weft_status compare_memory(struct weft_comm *comm, struct wf_trainer *t,
                                       const char *name, struct weft_error *err)
{
    struct wf_trainer_info i = wf_trainer_info(t);
    double ratio = (double)i.planned_bytes / (double)i.bytes.total;
    if (ratio >= MIN_RATIO && ratio <= MAX_RATIO)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_INTERNAL,
                     "%s, rank %u has %zu bytes (activations %zu, messages %zu), planned "
                     "%zu",
                     name, weft_comm_rank(comm), i.bytes.total, i.bytes.activations,
                     i.bytes.messages, i.planned_bytes);
}

static enum weft_status compare_peak(const char *name, uint32_t rank, size_t planned,
                                     size_t peak, struct weft_error *err)
{
    double ratio = (double)planned / (double)peak;
    printf("%-60s rank %u: %9zu bytes, the plan is %.4f of it\n", name, rank, peak, ratio);
    if (!LIVE_BYTES_WORK || (ratio >= MIN_RATIO && ratio <= MAX_RATIO))
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_INTERNAL, "%s, rank %u: %zu bytes allocated, %zu planned", name,
                     rank, peak, planned);
}

static enum weft_status run_case(struct weft_comm *comm, struct wf_train_settings *s,
                                 const struct layout *l, const char *model, after_fn *after,
                                 struct weft_error *err)
{
    char name[120];
    struct wf_trainer *t = NULL;
    uint32_t rank = weft_comm_rank(comm);
    size_t planned = 0;
    snprintf(name, sizeof name, "%s, pp %s, dp %s, %s, %s", model, l->pp, l->dp, l->schedule,
             s->train.recompute);
    set_layout(s, l);
    live_begin(rank);
    enum weft_status st = wf_trainer_new(s, comm, &t, err);
    if (st == WEFT_OK) {
        planned = wf_trainer_info(t).planned_bytes;
        st = after(comm, t, name, err);
    }
    wf_trainer_free(t);
    wf_settings_release(wf_train_setting_list(), s);
    size_t peak = live_end();
    return st == WEFT_OK && after == compare_memory
               ? compare_peak(name, rank, planned, peak, err)
               : st;
}

static enum weft_status all_allocations(struct weft_comm *comm, struct weft_error *err)
{
    static const struct layout layouts[] = {
        {"2", "2", "1f1b", "1"}, {"4", "1", "zb-h1", "1"}, {"1", "4", "1f1b", "1"},
        {"2", "2", "zb-v", "2"}, {"4", "1", "gpipe", "1"},
    };
    static const char *const models[] = {"gpt2-tiny", "llama-tiny-tied-residual"};
    for (size_t m = 0; m < WEFT_LEN(models); m++)
        for (size_t i = 0; i < WEFT_LEN(layouts); i++) {
            struct wf_train_settings s;
            run_settings(&s, models[m]);
            run_set(&s, "data.batch", "32");
            run_set(&s, "parallel.micros", "32");
            run_set(&s, "parallel.cache", "full");
            WEFT_TRY(run_case(comm, &s, &layouts[i], models[m], count_steps, err));
        }
    return WEFT_OK;
}

static enum weft_status all_memory(struct weft_comm *comm, struct weft_error *err)
{
    static const char *const keys[][2] = {
        {"model.arch", "gpt2"}, {"model.layers", "8"},     {"model.dim", "128"},
        {"model.heads", "4"},   {"model.vocab", "1024"},   {"model.ctx", "96"},
        {"data.batch", "32"},   {"parallel.micros", "16"}, {"data.seq", "40"},
    };
    static const struct layout layouts[] = {
        {"2", "2", "1f1b", "1"},
        {"4", "1", "1f1b", "1"},
        {"2", "2", "zb-h1", "1"},
        {"2", "2", "zb-v", "2"},
        {"4", "1", "interleaved-1f1b", "2"},
        {"1", "4", "1f1b", "1"},
        {"4", "1", "gpipe", "1"},
    };
    static const char *const recomputes[] = {"none", "attention", "full"};
    static const char *const models[] = {"fp32", "bf16", "blocks"};
    for (size_t k = 0; k < WEFT_LEN(models) * WEFT_LEN(recomputes) * WEFT_LEN(layouts); k++) {
        const char *model = models[k / WEFT_LEN(recomputes) % WEFT_LEN(models)];
        struct wf_train_settings s;
        WEFT_TRY(wf_settings_init(wf_train_setting_list(), &s, err));
        for (size_t i = 0; i < WEFT_LEN(keys); i++)
            run_set(&s, keys[i][0], keys[i][1]);
        run_set(&s, "train.recompute", recomputes[k % WEFT_LEN(recomputes)]);
        if (strcmp(model, "bf16") == 0)
            run_set(&s, "train.precision", "bf16");
        if (strcmp(model, "blocks") == 0) {
            run_set(&s, "model.arch", "llama");
            run_set(&s, "model.ffn", "512");
            run_set(&s, "model.residual_block_layers", "2");
        }
        run_set(&s, "data.train", run_path("gpt2-tiny", "tokens.bin"));
        WEFT_TRY(run_case(comm, &s, &layouts[k / WEFT_LEN(models) / WEFT_LEN(recomputes)],
                          model, compare_memory, err));
    }
    return WEFT_OK;
}

/* Evaluates in the layouts with four ranks, for all ranks belong to the run. */
static enum weft_status all_evaluations(struct weft_comm *comm, struct weft_error *err)
{
    for (size_t i = 0; i < WEFT_LEN(eval_layouts); i++) {
        struct eval_layout l = eval_layouts[i];
        struct wf_train_settings s;
        struct wf_trainer *t = NULL;
        if (strcmp(l.pp, "4") != 0)
            continue;
        double want = eval_on_one_rank(&l);
        eval_settings(&s, &l);
        enum weft_status st = wf_trainer_new(&s, comm, &t, err);
        if (st == WEFT_OK)
            st = eval_check(comm, t, &s, want, err);
        wf_trainer_free(t);
        wf_settings_release(wf_train_setting_list(), &s);
        WEFT_TRY(st);
    }
    return WEFT_OK;
}

static enum weft_status rank_main(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    (void)arg;
    dl_iterate_phdr(add_object, NULL); /* the MPI module is loaded */
    WEFT_TRY(all_evaluations(comm, err));
    WEFT_TRY(all_allocations(comm, err));
    return all_memory(comm, err);
}

int main(void)
{
    struct weft_error err = {0};
    if (weft_comm_run_mpi(rank_main, NULL, &err) == WEFT_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "mpi_ranks: %s\n", err.msg);
    return EXIT_FAILURE;
}
