/* Gives bytes to functions that read a file: a file in memory, which exists once per program. */
#ifndef FUZZ_MEMORY_FILE_H
#define FUZZ_MEMORY_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Replaces the contents of the file and returns its path. */
const char *memory_file(const uint8_t *data, size_t size);

#endif
