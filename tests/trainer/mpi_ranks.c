/* Checks training under MPI: a step allocates nothing, and memory is as planned.  Each rank is a
 * process; test_mpi.sh starts four.  tests/trainer/test_ranks.c checks the same on threads.
 *
 * MPI itself allocates memory, so only calls from weft's code are counted, by return address. */
#define _GNU_SOURCE
#include <link.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "compute/model/stage.h"
#include "runs.h"
#include "weft/comm.h"

/* -- counting ------------------------------------------------------------------------------- */

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

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { COUNTER_WORKS = 0 }; /* sanitizers replace the allocator */
#else
enum { COUNTER_WORKS = 1 };

static void count(const void *caller)
{
    for (size_t i = 0; i < n_ranges; i++)
        if ((uintptr_t)caller >= ranges[i].begin && (uintptr_t)caller < ranges[i].end)
            atomic_fetch_add(&n_calls, 1);
}

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *at, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n)
{
    count(__builtin_return_address(0));
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    count(__builtin_return_address(0));
    return __libc_calloc(n, size);
}

void *realloc(void *at, size_t n)
{
    count(__builtin_return_address(0));
    return __libc_realloc(at, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    count(__builtin_return_address(0));
    *out = __libc_memalign(align, n);
    return *out == NULL;
}

void *aligned_alloc(size_t align, size_t n)
{
    count(__builtin_return_address(0));
    return __libc_memalign(align, n);
}
#endif

/* -- cases ---------------------------------------------------------------------------------- */

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
    if (before == 0 && COUNTER_WORKS)
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "the counter does not work: the trainer made no allocation");
    if (calls != 0)
        return WEFT_FAIL(err, WEFT_INTERNAL, "%s, rank %u: %zu allocations in ten steps", name,
                         weft_comm_rank(comm), calls);
    return WEFT_OK;
}

static enum weft_status compare_memory(struct weft_comm *comm, struct wf_trainer *t,
                                       const char *name, struct weft_error *err)
{
    struct wf_trainer_info i = wf_trainer_info(t);
    size_t have = i.bytes.weights + i.bytes.gradients + i.bytes.packed + i.bytes.moments +
                  i.bytes.activations + i.bytes.messages;
    double ratio = (double)have / (double)i.bytes.planned;
    printf("%-32s rank %u: %zu bytes, %.3f of the plan\n", name, weft_comm_rank(comm), have,
           ratio);
    if (fabs(ratio - 1) <= 0.05)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_INTERNAL,
                     "%s, rank %u has %zu bytes (activations %zu, messages %zu), planned "
                     "%zu",
                     name, weft_comm_rank(comm), have, i.bytes.activations, i.bytes.messages,
                     i.bytes.planned);
}

static enum weft_status run_case(struct weft_comm *comm, struct wf_train_settings *s,
                                 const struct layout *l, const char *model, after_fn *after,
                                 struct weft_error *err)
{
    char name[120];
    struct wf_trainer *t = NULL;
    snprintf(name, sizeof name, "%s, pp %s, dp %s, %s", model, l->pp, l->dp, l->schedule);
    set_layout(s, l);
    enum weft_status st = wf_trainer_new(s, comm, &t, err);
    if (st == WEFT_OK)
        st = after(comm, t, name, err);
    wf_trainer_free(t);
    wf_settings_release(wf_train_setting_list(), s);
    return st;
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
    for (int blocks = 0; blocks < 2; blocks++)
        for (size_t i = 0; i < WEFT_LEN(layouts); i++) {
            struct wf_train_settings s;
            WEFT_TRY(wf_settings_init(wf_train_setting_list(), &s, err));
            for (size_t k = 0; k < WEFT_LEN(keys); k++)
                run_set(&s, keys[k][0], keys[k][1]);
            if (blocks == 1) {
                run_set(&s, "model.arch", "llama");
                run_set(&s, "model.ffn", "512");
                run_set(&s, "model.residual_block_layers", "2");
            }
            run_set(&s, "data.train", run_path("gpt2-tiny", "tokens.bin"));
            WEFT_TRY(run_case(comm, &s, &layouts[i], blocks == 1 ? "blocks" : "plain",
                              compare_memory, err));
        }
    return WEFT_OK;
}

static enum weft_status rank_main(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    (void)arg;
    dl_iterate_phdr(add_object, NULL); /* the MPI module is loaded */
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
