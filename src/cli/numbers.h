/* Numbers for people. */
#ifndef CLI_NUMBERS_H
#define CLI_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

enum { WF_NUMBER_TEXT = 32 };

/* 1234567 -> "1,234,567" */
const char *wf_grouped(char out[WF_NUMBER_TEXT], uint64_t n);

/* 1572864 -> "1.5 MiB" */
const char *wf_bytes_text(char out[WF_NUMBER_TEXT], size_t bytes);

#endif
