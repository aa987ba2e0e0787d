/* What the driver (sweep.c) and the preloaded library (shim.c) share: the calls that can fail, and
 * the record through which the library reports.
 *
 * The driver passes the fault in the environment:
 *
 *     WEFT_FAULT         CALLS ERROR N EVER: the Nth of these calls fails with this error number;
 *                        if EVER is 1, so do all later ones.  CALLS is a sum of enum fault_call.
 *     WEFT_FAULT_ROOT    calls on files count only below this directory
 *     WEFT_FAULT_RECORD  a file that holds a struct fault_record
 */
#ifndef FAULTS_FAULT_H
#define FAULTS_FAULT_H

#include <stdatomic.h>
#include <stdint.h>

enum fault_call {
    FAULT_ALLOC = 1 << 0, /* malloc and its relatives, mmap; the error is ENOMEM */
    FAULT_THREAD = 1 << 1,
    FAULT_OPEN = 1 << 2,
    FAULT_READ = 1 << 3, /* also pread */
    FAULT_WRITE = 1 << 4,
    FAULT_SYNC = 1 << 5,
    FAULT_RENAME = 1 << 6,
    FAULT_CLOSE = 1 << 7, /* the file is closed all the same, as on Linux */
    FAULT_MKDIR = 1 << 8,
    FAULT_UNLINK = 1 << 9, /* also rmdir */
    FAULT_TRUNCATE = 1 << 10,
    FAULT_LIST = 1 << 11, /* getdents */
    FAULT_STAT = 1 << 12,
};

/* The calls that change files, which a full disk makes fail. */
#define FAULT_CHANGES                                                                          \
    (FAULT_WRITE | FAULT_SYNC | FAULT_RENAME | FAULT_MKDIR | FAULT_TRUNCATE | FAULT_CLOSE)
#define FAULT_FILES                                                                            \
    (FAULT_CHANGES | FAULT_OPEN | FAULT_READ | FAULT_UNLINK | FAULT_LIST | FAULT_STAT)

/* Instead of an error number: the call transfers only a part of its bytes. */
enum { FAULT_SHORT = 10000, FAULT_FRAMES = 24 };

/* Shared memory of the driver and all processes of a run. */
struct fault_record {
    _Atomic int64_t n_loaded; /* processes that have loaded the library */
    _Atomic int64_t n_calls;  /* matching calls */
    _Atomic int64_t n_fired;  /* calls that failed */
    int32_t call;             /* enum fault_call of the first failed call */
    int32_t n_frames;
    uint64_t base;                 /* where the program is loaded */
    uint64_t frames[FAULT_FRAMES]; /* return addresses at the first failed call */
};

#endif
