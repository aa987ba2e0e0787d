/* The driver of the fault sweep: its cases, its runs, its verdicts. */
#ifndef FAULTS_SWEEP_H
#define FAULTS_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "fault.h"
#include "tree.h"

enum { MAX_WORDS = 96, MAX_VARIABLE = 64, ERR_BYTES = 4096 };

/* How a command is started. */
enum launch { LAUNCH_PLAIN, LAUNCH_OPENMPI, LAUNCH_MPICH };

/* One command that is swept. */
struct fault_case {
    const char *name;
    enum launch launch;
    const char *needs;   /* entries of the fixture, separated by spaces, that it starts with */
    const char *command; /* words after the program */
    bool trains;         /* continues after a failed checkpoint, with a warning */
    bool times;          /* standard output has times, and is not compared */
    bool refuses;        /* does not replace results that exist */
    bool deep;           /* not in the quick test */
    int every;           /* a slow command: only every Nth call fails (0: every one) */
    const char *program; /* NULL: weft; otherwise an example, by its name */
};

extern const struct fault_case fault_cases[];
extern const int n_fault_cases;

/* A kind of fault. */
struct fault_kind {
    const char *name;
    unsigned calls; /* a sum of enum fault_call */
    int error;
    bool ever;
    const char *group; /* the column of the table */
};

extern const struct fault_kind fault_kinds[];
extern const int n_fault_kinds;

/* Paths of the driver. */
struct places {
    char weft[TREE_PATH_BYTES];     /* the program */
    char shim[TREE_PATH_BYTES];     /* the library for LD_PRELOAD */
    char examples[TREE_PATH_BYTES]; /* the directory of the examples */
    char base[TREE_PATH_BYTES];     /* the temporary directory of the driver */
    int limit_s;                    /* time limit of one run */
};

/* The directory of one worker: root/ for the command; beside it its error output and the record. */
struct slot {
    char root[TREE_PATH_BYTES], err[TREE_PATH_BYTES], record_path[TREE_PATH_BYTES];
    struct fault_record *record; /* mapped */
};

/* What happened to a command. */
struct outcome {
    int exit_code; /* -1: a signal */
    int signal;
    bool timed_out;
    char err[ERR_BYTES]; /* standard error, cut to fit */
};

/* A case after its runs without faults. */
struct prepared {
    const struct fault_case *c;
    char before[TREE_PATH_BYTES], after[TREE_PATH_BYTES];
    char variable[MAX_VARIABLE][128]; /* files that differ from run to run */
    int n_variable;
    char err[ERR_BYTES];
};

/* Creates the files that the cases start with. */
void fixture_make(const struct places *p);

/* Makes the directory of a worker. */
void slot_make(const struct places *p, int number, struct slot *out);
/* Fills root/ with the files that a case starts with. */
void slot_reset(const struct slot *s, const char *before);

/* Runs a case in a slot.  Without `kind`, no library is loaded. */
void run_case(const struct places *p, const struct slot *s, const struct fault_case *c,
              const struct fault_kind *kind, int64_t at, struct outcome *out);
/* Runs the program in a directory; ends the driver unless it exits with 0. */
void run_or_die(const struct places *p, const char *dir, const char *command);

/* Runs a case twice without faults, and keeps its files. */
void prepare_case(const struct places *p, const struct fault_case *c, struct prepared *out);

/* Judges a run with a fault.  Returns NULL if all is right, otherwise what is wrong (static). */
const char *judge(const struct prepared *p, const struct slot *s, const struct fault_kind *kind,
                  const struct outcome *o);
/* Returns true if the run has changed no file: a next run would be a first one. */
bool is_unchanged(const struct prepared *p, const struct slot *s);
/* Returns true if the files are those of a run without a fault, except for standard output. */
bool is_complete(const struct prepared *p, const struct slot *s);
/* Judges a run without a fault after a run with one. */
const char *judge_recovery(const struct prepared *p, const struct slot *s,
                           const struct fault_kind *kind, const struct outcome *o);

#endif
