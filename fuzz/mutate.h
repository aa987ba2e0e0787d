/* What the mutators of fuzz targets share: random numbers and edits of JSON values. */
#ifndef FUZZ_MUTATE_H
#define FUZZ_MUTATE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Changes some bytes and returns the new size.  libFuzzer defines it; replay.c does so without
 * libFuzzer. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* Changes an input and returns the new size.  A target may define it instead of changes to any
 * byte. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* A sequence of random numbers; {seed} is its start. */
struct random_numbers {
    uint64_t seed, n_drawn;
};

/* Returns the next number, which is below n; n is at least 1. */
uint32_t random_below(struct random_numbers *r, uint32_t n);

/* Makes a few random edits inside a JSON array or object: changes, removes, copies and exchanges
 * values. */
void edit_json(json_t *root, struct random_numbers *r);

/* Mutates a JSON text: edits the values of a valid text, or changes any byte.  It is the whole
 * mutator of a target whose format is plain JSON. */
size_t mutate_json_text(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* Returns the number of elements of a tensor with the key "shape"; more than `max` count as none. */
uint64_t count_elements(const json_t *tensor, uint64_t max);

/* Copies text to data and returns its length, or 0 if it has more than max_size bytes. */
size_t put_text(uint8_t *data, size_t max_size, const char *text, size_t len);

#endif
