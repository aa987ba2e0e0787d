/* Parsing of JSON with a check for failed allocations. */
#include "config/json_input.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"

/* A text is parsed in pieces of PIECE_BYTES.  Without memory, the parser gets the rest of the piece
 * and its memory from a reserve: jansson ends the program if it cannot store a number. */
enum { PIECE_BYTES = 64, RESERVE_BYTES = 16 << 10 };

/* One text that is being parsed. */
struct input {
    const char *at;
    size_t len;
    bool lacked_memory;
    size_t n_reserved;
    _Alignas(max_align_t) char reserve[RESERVE_BYTES];
};

static json_malloc_t next_malloc;
static json_free_t next_free;
static _Thread_local struct input *current; /* the text that this thread parses, or NULL */

static void *allocate_reserved(struct input *in, size_t n)
{
    size_t aligned = n + (size_t)-n % sizeof(max_align_t);
    in->lacked_memory = true;
    if (n > RESERVE_BYTES || aligned > RESERVE_BYTES - in->n_reserved)
        return NULL;
    in->n_reserved += aligned;
    return in->reserve + in->n_reserved - aligned;
}

static void *checked_malloc(size_t n)
{
    void *p = next_malloc(n);
    return p == NULL && current != NULL ? allocate_reserved(current, n) : p;
}

static void checked_free(void *p)
{
    uintptr_t at = (uintptr_t)p, reserve = current != NULL ? (uintptr_t)current->reserve : 0;
    if (reserve == 0 || at < reserve || at >= reserve + RESERVE_BYTES)
        next_free(p);
}

/* Memory is still allocated and freed by the functions that were set before, so values that a
 * program created earlier stay valid. */
static void install(void)
{
    json_get_alloc_funcs(&next_malloc, &next_free);
    json_set_alloc_funcs(checked_malloc, checked_free);
}

static size_t read_piece(void *buffer, size_t size, void *data)
{
    struct input *in = data;
    size_t n = wf_size_min(wf_size_min(size, PIECE_BYTES), in->len);
    if (in->lacked_memory)
        return (size_t)-1;
    memcpy(buffer, in->at, n);
    in->at += n;
    in->len -= n;
    return n;
}

enum weft_status wf_json_load(const char *text, size_t len, size_t flags, const char *source,
                              json_t **out, json_error_t *why, struct weft_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);

    struct input in;
    in.at = text;
    in.len = len;
    in.lacked_memory = false;
    in.n_reserved = 0;
    *why = (json_error_t){.line = -1};

    current = &in;
    json_t *root = json_load_callback(read_piece, &in, flags, why);
    bool failed =
        in.lacked_memory || (root == NULL && json_error_code(why) == json_error_out_of_memory);
    if (failed)
        json_decref(root);
    current = NULL;
    if (failed)
        return WEFT_FAIL(err, WEFT_NOMEM, "%.200s: no memory to read %zu bytes of JSON", source,
                         len);
    *out = root;
    return WEFT_OK;
}

char *wf_json_dump(const json_t *value, size_t flags)
{
    size_t n = json_dumpb(value, NULL, 0, flags);
    char *text = n == 0 ? NULL : malloc(n + 1);
    if (text == NULL || json_dumpb(value, text, n, flags) != n) {
        free(text);
        return NULL;
    }
    text[n] = '\0';
    return text;
}
