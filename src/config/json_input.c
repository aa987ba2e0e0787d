/* Parsing of JSON with a check for failed allocations. */
#include "config/json_input.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"

static json_malloc_t next_malloc;
static json_free_t next_free;
static _Thread_local bool lacked_memory;

static void *checked_malloc(size_t n)
{
    void *p = next_malloc(n);
    lacked_memory = lacked_memory || p == NULL;
    return p;
}

/* Memory is still allocated and freed by the functions that were set before, so values that a
 * program created earlier stay valid. */
static void install(void)
{
    json_get_alloc_funcs(&next_malloc, &next_free);
    json_set_alloc_funcs(checked_malloc, next_free);
}

enum weft_status wf_json_load(const char *text, size_t len, size_t flags, const char *source,
                              json_t **out, json_error_t *why, struct weft_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);

    *why = (json_error_t){.line = -1};
    lacked_memory = false;
    json_t *root = json_loadb(text, len, flags, why);
    if (lacked_memory || (root == NULL && json_error_code(why) == json_error_out_of_memory)) {
        json_decref(root);
        return WEFT_FAIL(err, WEFT_NOMEM, "%.200s: no memory to read %zu bytes of JSON", source,
                         len);
    }
    *out = root;
    return WEFT_OK;
}
