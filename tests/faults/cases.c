/* The commands that are swept, the faults, and the files that the commands start with. */
#define _GNU_SOURCE

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sweep.h"

const struct fault_kind fault_kinds[] = {
    {"no memory", FAULT_ALLOC, ENOMEM, false, "memory"},
    {"no memory any more", FAULT_ALLOC, ENOMEM, true, "memory"},
    {"no thread", FAULT_THREAD, EAGAIN, false, "threads"},
    {"no thread any more", FAULT_THREAD, EAGAIN, true, "threads"},
    {"EIO", FAULT_FILES, EIO, false, "EIO"},
    {"EIO for ever", FAULT_FILES, EIO, true, "EIO"},
    {"ENOSPC", FAULT_CHANGES, ENOSPC, false, "ENOSPC"},
    {"ENOSPC for ever", FAULT_CHANGES, ENOSPC, true, "ENOSPC"},
    {"EMFILE", FAULT_OPEN, EMFILE, false, "EMFILE"},
    {"EMFILE for ever", FAULT_OPEN, EMFILE, true, "EMFILE"},
    {"EINTR", FAULT_OPEN | FAULT_READ | FAULT_WRITE | FAULT_SYNC | FAULT_CLOSE, EINTR, false,
     "EINTR"},
    {"short", FAULT_READ | FAULT_WRITE, FAULT_SHORT, false, "short"},
    {"short for ever", FAULT_READ | FAULT_WRITE, FAULT_SHORT, true, "short"},
};
const int n_fault_kinds = sizeof fault_kinds / sizeof fault_kinds[0];

#define MODEL                                                                                  \
    "--model.arch=gpt2 --model.layers=2 --model.dim=16 --model.heads=2 --model.vocab=257 "     \
    "--model.ctx=16 "
#define TRAIN                                                                                  \
    "train " MODEL "--data.train=data --data.val=data --data.batch=4 --data.seq=16 "           \
    "--eval.every=2 --eval.batches=1 --parallel.micros=4 --parallel.threads=1 "                \
    "--train.timeout=20 --train.slow=off --optim.warmup=1 --optim.decay_steps=4 "              \
    "--checkpoint.every=1 --checkpoint.resume=auto --log.dir=run "

const struct fault_case fault_cases[] = {
    {.name = "plan", .command = "plan -s zb-h1 -p 2 -m 3 --lower -o out.csv"},
    {.name = "plan-json",
     .needs = "costs.yaml",
     .command = "plan -s 1f1b -p 2 -m 3 --cost-file costs.yaml --json"},
    {.name = "plan-model",
     .deep = true,
     .command = "plan -s 1f1b -p 2 -m 3 --model gpt2-124m --partition balanced"},
    {.name = "check", .needs = "plan.csv", .command = "check plan.csv"},
    {.name = "check-torch",
     .needs = "plan.csv",
     .deep = true,
     .command = "check plan.csv --for torch --json"},
    {.name = "simulate",
     .deep = true,
     .command = "simulate -s 1f1b -p 2 -m 3 --cluster rank:2 --bytes 1MB --samples 3"},
    {.name = "compare", .deep = true, .command = "compare -p 2 -m 2"},
    {.name = "tune",
     .deep = true,
     .command = "tune -p 2 -m 2 --cost F=1,I=2,W=1 --iterations 20"},
    {.name = "draw-svg", .needs = "plan.csv", .command = "draw plan.csv -o out.svg"},
    {.name = "draw-html",
     .needs = "plan.csv run",
     .deep = true,
     .command = "draw plan.csv -o out.html"},
    {.name = "draw-png",
     .needs = "plan.csv",
     .deep = true,
     .command = "draw plan.csv -o out.png"},
    {.name = "draw-trace", .needs = "trace", .deep = true, .command = "draw trace -o out.json"},
    {.name = "tokenize",
     .needs = "book.txt lines.jsonl",
     .times = true,
     .command = "tokenize book.txt lines.jsonl -o out --val 0.3 --threads 2"},
    {.name = "tokenize-bpe",
     .needs = "book.txt",
     .deep = true,
     .times = true,
     .command = "tokenize book.txt -o out --train-bpe 280 --threads 2"},
    {.name = "train",
     .needs = "data",
     .trains = true,
     .times = true,
     .command = TRAIN "--train.steps=2"},
    {.name = "train-ranks",
     .needs = "data",
     .trains = true,
     .deep = true,
     .times = true,
     .command = TRAIN "--train.steps=2 --parallel.pp=2 --parallel.dp=2 --log.trace_steps=1"},
    {.name = "resume",
     .needs = "data half",
     .trains = true,
     .times = true,
     .command = TRAIN "--log.dir=half --train.steps=4"},
    {.name = "resume-ranks",
     .needs = "data half",
     .trains = true,
     .deep = true,
     .times = true,
     .command =
         TRAIN "--log.dir=half --train.steps=4 --parallel.pp=2 --checkpoint.async=false"},
    {.name = "dry-run",
     .needs = "data",
     .deep = true,
     .times = true,
     .command = TRAIN "--train.steps=2 --parallel.pp=2 --dry-run"},
    {.name = "eval",
     .needs = "data model",
     .times = true,
     .command = "eval --model model --data data --threads 1"},
    {.name = "eval-ranks",
     .needs = "data model",
     .deep = true,
     .times = true,
     .command = "eval --model model --data data --threads 1 --ranks 2"},
    {.name = "generate",
     .needs = "model",
     .times = true,
     .command = "generate --model model --tokens 5,6,7 -n 4 --threads 2"},
    {.name = "generate-run",
     .needs = "half",
     .deep = true,
     .times = true,
     .command = "generate --model half --prompt ab -n 4 --threads 1"},
    {.name = "convert", .needs = "model", .command = "convert model out --type bf16"},
    {.name = "convert-shards",
     .needs = "half",
     .deep = true,
     .command = "convert half out --shard-bytes 10kB"},
    {.name = "convert-checkpoint",
     .needs = "model",
     .deep = true,
     .command = "convert model out --to checkpoint"},
    {.name = "inspect", .needs = "run", .command = "inspect run"},
    {.name = "inspect-files",
     .needs = "run model data plan.csv",
     .deep = true,
     .command = "inspect --json model/model.safetensors data/train-000000.bin plan.csv "
                "run/checkpoints/step-00000002"},
    {.name = "inspect-hash",
     .needs = "half model",
     .deep = true,
     .command = "inspect --hash half model"},
    {.name = "report", .needs = "run", .command = "report run -o out.html"},
    {.name = "bench-plan",
     .deep = true,
     .every = 1000,
     .times = true,
     .command = "bench plan --repeat 1 --json"},
    {.name = "train-openmpi",
     .every = 20,
     .launch = LAUNCH_OPENMPI,
     .needs = "data",
     .trains = true,
     .deep = true,
     .times = true,
     .command = TRAIN "--train.steps=2 --parallel.pp=2"},
    {.name = "train-mpich",
     .every = 20,
     .launch = LAUNCH_MPICH,
     .needs = "data",
     .trains = true,
     .deep = true,
     .times = true,
     .command = TRAIN "--train.steps=2 --parallel.pp=2"},
    {.name = "resume-openmpi",
     .every = 20,
     .launch = LAUNCH_OPENMPI,
     .needs = "data half",
     .trains = true,
     .deep = true,
     .times = true,
     .command = TRAIN "--log.dir=half --train.steps=4 --parallel.dp=2"},
    {.name = "resume-mpich",
     .every = 20,
     .launch = LAUNCH_MPICH,
     .needs = "data half",
     .trains = true,
     .deep = true,
     .times = true,
     .command = TRAIN "--log.dir=half --train.steps=4 --parallel.dp=2"},
    {.name = "eval-mpich",
     .every = 20,
     .launch = LAUNCH_MPICH,
     .needs = "data model",
     .deep = true,
     .times = true,
     .command = "eval --model model --data data --threads 1"},
};
const int n_fault_cases = sizeof fault_cases / sizeof fault_cases[0];

/* -- the fixture --------------------------------------------------------------------------- */

static void write_text(const char *dir, const char *name, const char *text)
{
    char path[TREE_PATH_BYTES];
    tree_join(path, dir, name);
    FILE *out = fopen(path, "wb");
    if (out == NULL || fputs(text, out) == EOF || fclose(out) != 0) {
        perror(path);
        exit(2);
    }
}

void fixture_make(const struct places *p)
{
    char dir[TREE_PATH_BYTES], path[TREE_PATH_BYTES], book[4096] = "";
    tree_join(dir, p->base, "fixture");
    if (mkdir(dir, 0777) != 0) {
        perror(dir);
        exit(2);
    }
    for (int i = 0; i < 40; i++) {
        char line[64];
        snprintf(line, sizeof line, "line %d of the book, %d words\n", i, i * i % 17);
        strcat(book, line);
    }
    write_text(dir, "book.txt", book);
    write_text(dir, "lines.jsonl", "{\"text\": \"a b c\"}\n{\"text\": \"d\\u00e9\"}\n");
    write_text(dir, "costs.yaml", "F: [1, 2]\nI: 1\nmem: {F: 1, W: -1}\n");

    run_or_die(p, dir, "tokenize book.txt -o data --val 0.3");
    run_or_die(p, dir, "plan -s 1f1b -p 2 -m 3 -o plan.csv");

    /* A finished run, whose trace and model other commands read; and one that is to be resumed. */
    run_or_die(p, dir,
               TRAIN "--train.steps=2 --parallel.pp=2 --log.trace_steps=1 --log.sample=1 "
                     "--log.sample_tokens=3");
    tree_join(path, dir, "run/model");
    char model[TREE_PATH_BYTES];
    tree_join(model, dir, "model");
    tree_copy(path, model);
    run_or_die(p, dir, TRAIN "--log.dir=half --train.steps=2");
    tree_join(path, dir, "half/model");
    tree_remove(path);
    tree_join(path, dir, "run/trace/step-000001.trace");
    tree_join(model, dir, "trace");
    tree_copy(path, model);
}
