/* A library for LD_PRELOAD that makes one call of a program fail: the Nth allocation, thread or
 * call on a file (fault.h).
 *
 * Allocations and threads are replaced by symbol.  They count if weft calls them: directly, from
 * libc (strdup, open_memstream), or from a small library that works for weft alone (JSON, YAML,
 * zlib, UTF-8).  MPI, hwloc, cairo, fontconfig and their dependencies are excluded: several of
 * them crash inside themselves without memory.
 *
 * Calls on files are caught as system calls (seccomp), so that calls of stdio count as well.  They
 * count if the file is below the directory of the test.  Standard error does not count: the error
 * line itself goes there. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "fault.h"

#if !defined(__x86_64__)
#error "the registers of a system call are known for x86-64 only"
#endif

enum { MAX_OBJECTS = 512, PATH_BYTES = 512 };

/* An object file in memory, and whose it is. */
enum owner { OTHER, LIBC, WEFT };
struct object {
    uintptr_t begin, end;
    enum owner owner;
};

/* The state of the library: it has one fault in its life. */
static struct {
    struct fault_record *record; /* NULL: not active */
    unsigned calls;
    int error;
    int64_t at;
    bool ever;
    char root[PATH_BYTES];
    size_t root_len;
    struct object objects[MAX_OBJECTS];
    _Atomic size_t n_objects;
    atomic_flag updating;
} fault = {.updating = ATOMIC_FLAG_INIT};

/* True inside of this library, whose own calls do not count. */
static __thread bool inside __attribute__((tls_model("initial-exec")));

/* -- whose call it is ---------------------------------------------------------------------- */

static enum owner owner_of(const char *name)
{
    static const char *const ours[] = {"weft",     "jansson", "yaml",
                                       "utf8proc", "libz.",   "xxhash"};
    const char *slash = strrchr(name, '/'), *last = slash != NULL ? slash + 1 : name;
    if (name[0] == '\0')
        return WEFT; /* the program itself */
    if (strncmp(last, "libc.so", 7) == 0)
        return LIBC;
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (strstr(last, ours[i]) != NULL && strstr(last, "faults") == NULL)
            return WEFT;
    return OTHER;
}

static int add_object(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        size_t n = fault.n_objects;
        if (h->p_type != PT_LOAD || (h->p_flags & PF_X) == 0 || n == MAX_OBJECTS)
            continue;
        uintptr_t begin = info->dlpi_addr + h->p_vaddr;
        bool known = false;
        for (size_t k = 0; k < n; k++)
            known = known || fault.objects[k].begin == begin;
        if (known)
            continue;
        fault.objects[n] =
            (struct object){begin, begin + h->p_memsz, owner_of(info->dlpi_name)};
        fault.n_objects = n + 1;
    }
    return 0;
}

/* Returns the owner of an address.  Objects that were loaded meanwhile are looked up, unless another
 * thread is doing this: waiting for it could deadlock on the lock of the loader. */
static enum owner owner_at(const void *address)
{
    uintptr_t at = (uintptr_t)address;
    for (int attempt = 0; attempt < 2; attempt++) {
        for (size_t i = 0, n = fault.n_objects; i < n; i++)
            if (at >= fault.objects[i].begin && at < fault.objects[i].end)
                return fault.objects[i].owner;
        if (attempt == 0 && !atomic_flag_test_and_set(&fault.updating)) {
            dl_iterate_phdr(add_object, NULL);
            atomic_flag_clear(&fault.updating);
        }
    }
    return OTHER;
}

/* Returns true if weft calls.  Behind libc, the first other caller decides. */
static bool is_ours(const void *caller)
{
    enum owner owner = owner_at(caller);
    if (owner != LIBC)
        return owner == WEFT;
    void *frames[16];
    int n = backtrace(frames, 16), i = 0;
    while (i < n && frames[i] != caller) /* the frames of this library */
        i++;
    while (i < n && owner_at(frames[i]) == LIBC)
        i++;
    return i < n && owner_at(frames[i]) == WEFT;
}

/* -- when a call fails --------------------------------------------------------------------- */

/* Counts a call, and returns true if it is to fail. */
static bool fires(enum fault_call call)
{
    int64_t n = atomic_fetch_add(&fault.record->n_calls, 1) + 1;
    if (fault.at == 0 || n < fault.at || (n > fault.at && !fault.ever))
        return false;
    if (atomic_fetch_add(&fault.record->n_fired, 1) == 0) {
        void *frames[FAULT_FRAMES];
        int n_frames = backtrace(frames, FAULT_FRAMES);
        for (int i = 0; i < n_frames; i++)
            fault.record->frames[i] = (uint64_t)(uintptr_t)frames[i];
        fault.record->call = call;
        fault.record->n_frames = n_frames;
    }
    return true;
}

static bool fails(enum fault_call call, const void *caller)
{
    if (fault.record == NULL || inside || (fault.calls & call) == 0)
        return false;
    inside = true;
    bool failed = is_ours(caller) && fires(call);
    inside = false;
    return failed;
}

/* -- allocations and threads --------------------------------------------------------------- */

#define NEXT(name)                                                                             \
    static __typeof__(name) *next;                                                             \
    if (next == NULL)                                                                          \
    next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define CALLER __builtin_return_address(0)

#define FAIL_NULL                                                                              \
    do {                                                                                       \
        if (fails(FAULT_ALLOC, CALLER)) {                                                      \
            errno = ENOMEM;                                                                    \
            return NULL;                                                                       \
        }                                                                                      \
    } while (0)

void *malloc(size_t n)
{
    NEXT(malloc);
    FAIL_NULL;
    return next(n);
}

void *calloc(size_t n, size_t size)
{
    NEXT(calloc);
    FAIL_NULL;
    return next(n, size);
}

void *realloc(void *old, size_t n)
{
    NEXT(realloc);
    FAIL_NULL;
    return next(old, n);
}

void *reallocarray(void *old, size_t n, size_t size)
{
    NEXT(reallocarray);
    FAIL_NULL;
    return next(old, n, size);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    NEXT(aligned_alloc);
    FAIL_NULL;
    return next(alignment, n);
}

int posix_memalign(void **out, size_t alignment, size_t n)
{
    NEXT(posix_memalign);
    return fails(FAULT_ALLOC, CALLER) ? ENOMEM : next(out, alignment, n);
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    NEXT(mmap);
    if (fails(FAULT_ALLOC, CALLER)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return next(at, n, protection, flags, fd, offset);
}

int pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument)
{
    NEXT(pthread_create);
    return fails(FAULT_THREAD, CALLER) ? EAGAIN : next(out, attributes, start, argument);
}

/* SIGSYS stays deliverable in threads that block all signals: otherwise the kernel would end the
 * process. */
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    NEXT(pthread_sigmask);
    sigset_t allowed;
    if (set != NULL && how != SIG_UNBLOCK) {
        allowed = *set;
        sigdelset(&allowed, SIGSYS);
        set = &allowed;
    }
    return next(how, set, old);
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    int failed = pthread_sigmask(how, set, old);
    if (failed != 0)
        errno = failed;
    return failed != 0 ? -1 : 0;
}

/* -- calls on files ------------------------------------------------------------------------ */

/* The filter allows system calls from this place only: it returns to fault_syscall_return. */
long fault_syscall(long number, long a, long b, long c, long d, long e, long f);
extern const char fault_syscall_return[];
__asm__(".text\n"
        ".globl fault_syscall\n"
        ".hidden fault_syscall\n"
        ".hidden fault_syscall_return\n"
        ".type fault_syscall, @function\n"
        "fault_syscall:\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %rdi\n"
        "    mov %rdx, %rsi\n"
        "    mov %rcx, %rdx\n"
        "    mov %r8, %r10\n"
        "    mov %r9, %r8\n"
        "    mov 8(%rsp), %r9\n"
        "    syscall\n"
        ".globl fault_syscall_return\n"
        "fault_syscall_return:\n"
        "    ret\n"
        ".size fault_syscall, .-fault_syscall\n"
        ".globl fault_restore\n"
        ".hidden fault_restore\n"
        "fault_restore:\n"
        "    mov $15, %rax\n" /* rt_sigreturn */
        "    syscall\n");
void fault_restore(void);

/* The system calls, and where their file is. */
enum file_argument { BY_FD, BY_PATH, BY_DIR }; /* argument 0; 0; 0 and 1 */
static const struct file_call {
    long number;
    enum fault_call call;
    enum file_argument file;
} file_calls[] = {
    {SYS_open, FAULT_OPEN, BY_PATH},        {SYS_openat, FAULT_OPEN, BY_DIR},
    {SYS_creat, FAULT_OPEN, BY_PATH},       {SYS_read, FAULT_READ, BY_FD},
    {SYS_pread64, FAULT_READ, BY_FD},       {SYS_readv, FAULT_READ, BY_FD},
    {SYS_write, FAULT_WRITE, BY_FD},        {SYS_pwrite64, FAULT_WRITE, BY_FD},
    {SYS_writev, FAULT_WRITE, BY_FD},       {SYS_fsync, FAULT_SYNC, BY_FD},
    {SYS_fdatasync, FAULT_SYNC, BY_FD},     {SYS_rename, FAULT_RENAME, BY_PATH},
    {SYS_renameat, FAULT_RENAME, BY_DIR},   {SYS_renameat2, FAULT_RENAME, BY_DIR},
    {SYS_close, FAULT_CLOSE, BY_FD},        {SYS_mkdir, FAULT_MKDIR, BY_PATH},
    {SYS_mkdirat, FAULT_MKDIR, BY_DIR},     {SYS_unlink, FAULT_UNLINK, BY_PATH},
    {SYS_unlinkat, FAULT_UNLINK, BY_DIR},   {SYS_rmdir, FAULT_UNLINK, BY_PATH},
    {SYS_ftruncate, FAULT_TRUNCATE, BY_FD}, {SYS_fallocate, FAULT_TRUNCATE, BY_FD},
    {SYS_getdents64, FAULT_LIST, BY_FD},    {SYS_stat, FAULT_STAT, BY_PATH},
    {SYS_lstat, FAULT_STAT, BY_PATH},       {SYS_newfstatat, FAULT_STAT, BY_DIR},
    {SYS_fstat, FAULT_STAT, BY_FD},
};
enum { N_FILE_CALLS = sizeof file_calls / sizeof file_calls[0] };

/* Returns true if a descriptor is a file below the root.  Runs in a signal handler. */
static bool is_file_below(int fd)
{
    char link[32] = "/proc/self/fd/", digits[12], path[PATH_BYTES];
    size_t n = 0, at = strlen(link);
    if (fd < 0 || fd == STDERR_FILENO)
        return false;
    for (int rest = fd; n == 0 || rest > 0; rest /= 10)
        digits[n++] = (char)('0' + rest % 10);
    while (n > 0)
        link[at++] = digits[--n];
    link[at] = '\0';
    long len = fault_syscall(SYS_readlink, (long)link, (long)path, PATH_BYTES, 0, 0, 0);
    return len >= (long)fault.root_len && memcmp(path, fault.root, fault.root_len) == 0;
}

/* Relative paths are below the root: the program starts there. */
static bool is_path_below(const char *path)
{
    return path[0] != '/' || strncmp(path, fault.root, fault.root_len) == 0;
}

static bool is_below(const struct file_call *c, const greg_t *regs)
{
    const char *second = (const char *)regs[REG_RSI];
    switch (c->file) {
    case BY_FD:
        return is_file_below((int)regs[REG_RDI]);
    case BY_PATH:
        return is_path_below((const char *)regs[REG_RDI]);
    case BY_DIR:
        if (second[0] == '\0' || (second[0] != '/' && (int)regs[REG_RDI] != AT_FDCWD))
            return is_file_below((int)regs[REG_RDI]);
        return is_path_below(second);
    }
    return false;
}

/* Executes a call that has failed: a descriptor is closed, and a short transfer is done. */
static long run_failed(const struct file_call *c, const greg_t *regs)
{
    long size = regs[REG_RDX];
    if (c->call == FAULT_CLOSE)
        fault_syscall(c->number, regs[REG_RDI], 0, 0, 0, 0, 0);
    if (fault.error != FAULT_SHORT)
        return -fault.error;
    bool counted = c->number != SYS_readv && c->number != SYS_writev;
    return fault_syscall(c->number, regs[REG_RDI], regs[REG_RSI],
                         counted && size > 1 ? size / 2 : size, regs[REG_R10], regs[REG_R8],
                         regs[REG_R9]);
}

static void on_system_call(int signal_number, siginfo_t *info, void *context)
{
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    const struct file_call *c = NULL;
    (void)signal_number;
    for (int i = 0; i < N_FILE_CALLS && c == NULL; i++)
        if (file_calls[i].number == info->si_syscall)
            c = &file_calls[i];

    bool was_inside = inside;
    inside = true;
    bool failed = !was_inside && c != NULL && (fault.calls & c->call) != 0 &&
                  is_below(c, regs) && fires(c->call);
    inside = was_inside;
    regs[REG_RAX] =
        failed ? run_failed(c, regs)
               : fault_syscall(info->si_syscall, regs[REG_RDI], regs[REG_RSI], regs[REG_RDX],
                               regs[REG_R10], regs[REG_R8], regs[REG_R9]);
}

/* Installs the handler without libc: a sanitizer replaces sigaction(). */
static bool install_handler(void)
{
    struct {
        void (*handler)(int, siginfo_t *, void *);
        unsigned long flags;
        void (*restorer)(void);
        uint64_t mask;
    } action = {on_system_call, SA_SIGINFO | SA_NODEFER | 0x04000000ul /* SA_RESTORER */,
                fault_restore, 0};
    return fault_syscall(SYS_rt_sigaction, SIGSYS, (long)&action, 0, sizeof action.mask, 0,
                         0) == 0;
}

/* Makes the kernel raise SIGSYS at every call of the table, except from fault_syscall(). */
static bool install_filter(void)
{
    struct sock_filter code[2 * N_FILE_CALLS + 8];
    uintptr_t allowed = (uintptr_t)fault_syscall_return;
    unsigned short n = 0;
    enum { IP = offsetof(struct seccomp_data, instruction_pointer) };
#define ADD(...) code[n++] = (struct sock_filter)__VA_ARGS__
    ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, IP));
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)allowed, 0, 3));
    ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, IP + 4));
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(allowed >> 32), 0, 1));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    for (int i = 0; i < N_FILE_CALLS; i++) {
        if ((file_calls[i].call & fault.calls) == 0)
            continue;
        ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)file_calls[i].number, 0, 1));
        ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
    }
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
#undef ADD
    struct sock_fprog program = {n, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* -- start --------------------------------------------------------------------------------- */

static int first_object(struct dl_phdr_info *info, size_t size, void *out)
{
    (void)size;
    *(uint64_t *)out = info->dlpi_addr;
    return 1;
}

static struct fault_record *map_record(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *at = fd < 0 ? MAP_FAILED
                      : mmap(NULL, sizeof(struct fault_record), PROT_READ | PROT_WRITE,
                             MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return at == MAP_FAILED ? NULL : at;
}

static void __attribute__((constructor)) start(void)
{
    const char *spec = getenv("WEFT_FAULT"), *root = getenv("WEFT_FAULT_ROOT");
    const char *path = getenv("WEFT_FAULT_RECORD");
    if (spec == NULL || root == NULL || path == NULL || strlen(root) >= PATH_BYTES)
        return;
    char *end;
    fault.calls = (unsigned)strtoul(spec, &end, 10);
    fault.error = (int)strtol(end, &end, 10);
    fault.at = strtoll(end, &end, 10);
    fault.ever = strtol(end, NULL, 10) != 0;
    strcpy(fault.root, root);
    fault.root_len = strlen(root);

    void *frames[4];
    backtrace(frames, 4); /* loads the unwinder now: it allocates when it is first used */
    dl_iterate_phdr(add_object, NULL);
    struct fault_record *record = map_record(path);
    if (record == NULL)
        return;
    dl_iterate_phdr(first_object, &record->base);
    if ((fault.calls & FAULT_FILES) != 0 && (!install_handler() || !install_filter()))
        return;
    atomic_fetch_add(&record->n_loaded, 1);
    fault.record = record;
}
