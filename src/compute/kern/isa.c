#include "compute/kern/isa.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"portable", "avx2", "avx512", "avx512_bf16"};

static enum weft_isa best;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static enum weft_isa of_machine(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return WEFT_ISA_PORTABLE;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return WEFT_ISA_AVX2;
    return __builtin_cpu_supports("avx512bf16") ? WEFT_ISA_AVX512_BF16 : WEFT_ISA_AVX512;
#else
    return WEFT_ISA_PORTABLE;
#endif
}

static void choose(void)
{
    const char *wish = getenv("WEFT_ISA");
    best = of_machine();
    for (int i = 0; wish != NULL && i < (int)best; i++)
        if (strcmp(wish, names[i]) == 0)
            best = (enum weft_isa)i;
}

enum weft_isa weft_isa(void)
{
    pthread_once(&once, choose);
    return best;
}

bool weft_isa_is_name(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

const char *weft_isa_name(enum weft_isa isa)
{
    return names[isa];
}
