/* Detects the instruction set of the machine and applies WEFT_ISA. */
#include "compute/kern/isa.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"portable", "avx2", "avx512", "avx512_bf16"};

static enum wf_isa best;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static enum wf_isa detect(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return WF_ISA_PORTABLE;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return WF_ISA_AVX2;
    return __builtin_cpu_supports("avx512bf16") ? WF_ISA_AVX512_BF16 : WF_ISA_AVX512;
#else
    return WF_ISA_PORTABLE;
#endif
}

static void choose(void)
{
    const char *requested = getenv("WEFT_ISA");
    best = detect();
    for (int i = 0; requested != NULL && i < (int)best; i++)
        if (strcmp(requested, names[i]) == 0)
            best = (enum wf_isa)i;
}

enum wf_isa wf_isa(void)
{
    pthread_once(&once, choose);
    return best;
}

bool wf_isa_is_name(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

const char *wf_isa_name(enum wf_isa isa)
{
    return names[isa];
}
