/* Steps on four ranks allocate nothing: every way to ask for memory is counted. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "tracer.h"

static size_t calls; /* atomic */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { COUNTS = 0 }; /* a sanitizer has its own allocator */
#else
enum { COUNTS = 1 };

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *at, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

static void count(void)
{
    __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST);
}

void *malloc(size_t n)
{
    count();
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    count();
    return __libc_calloc(n, size);
}

void *realloc(void *at, size_t n)
{
    count();
    return __libc_realloc(at, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    count();
    *out = __libc_memalign(align, n);
    return *out == NULL;
}

void *aligned_alloc(size_t align, size_t n)
{
    count();
    return __libc_memalign(align, n);
}
#endif

static void check_steps(void **state)
{
    struct weft_params params = {.ranks = 4, .micros = 8};
    if (!COUNTS)
        skip();
    for (uint32_t blocks = 0; blocks < 2; blocks++) {
        struct weft_schedule *s = NULL;
        struct weft_error err = {.msg = ""};
        struct tracer_model model;
        assert_int_equal(weft_schedule_make(*state, &params, &s, &err), WEFT_OK);
        tracer_model_init(&model, weft_schedule_placement(s), 1, 7);
        for (uint32_t i = 0; blocks > 0 && i < model.n_stages; i++) {
            model.words[i] = 4;
            model.row_elements = 8;
            model.finished_by[model.n_blocks++] = i;
        }
        struct tracer_run run = {.schedule = s,
                                 .model = &model,
                                 .steps = TRACER_STEPS,
                                 .cache = WEFT_BLOCKS_FULL,
                                 .allocations = &calls};
        size_t before = __atomic_load_n(&calls, __ATOMIC_SEQ_CST);
        if (tracer_run(&run, 1, &err) != WEFT_OK)
            fail_msg("%s", err.msg);
        assert_true(__atomic_load_n(&calls, __ATOMIC_SEQ_CST) > before); /* it counts */
        weft_schedule_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"1f1b", check_steps, NULL, NULL, (void *)"1f1b"},
        {"zb-v", check_steps, NULL, NULL, (void *)"zb-v"},
        {"interleaved-zb", check_steps, NULL, NULL, (void *)"interleaved-zb"},
        {"dualpipe", check_steps, NULL, NULL, (void *)"dualpipe"},
    };
    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL) != 0;
}
