/* Names of files and directories that belong to a step: step-00000120. */
#ifndef BASE_STEP_NAME_H
#define BASE_STEP_NAME_H

#include <stdbool.h>
#include <stdint.h>

enum { WF_STEP_NAME_SIZE = 32 };

/* Numbers of digits: with leading zeros, a listing shows the steps in order. */
enum { WF_STEP_DIGITS_CHECKPOINT = 8, WF_STEP_DIGITS_TRACE = 6 };

/* Writes the name of a step with at least this many digits. */
void wf_step_name_print(uint64_t step, int digits, char out[WF_STEP_NAME_SIZE]);

/* Parses the name of a step at the beginning of a text.  Stores the rest of the text in *rest.
 * Accepts only the spelling of wf_step_name_print(), so that no step has two names. */
bool wf_step_name_parse(const char *text, int digits, uint64_t *step, const char **rest);

#endif
