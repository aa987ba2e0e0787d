#include "train/made.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "ckpt/file.h"

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

enum weft_status weft_made_note(struct weft_made *made, const char *dir, struct weft_error *err)
{
    char *lock = weft_path_join(dir, "lock");
    *made = (struct weft_made){.dir = strdup(dir)};
    if (lock == NULL || made->dir == NULL) {
        free(lock);
        weft_made_release(made);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for names in %.200s", dir);
    }
    made->new_lock = !is_there(lock);
    free(lock);
    for (size_t n = strlen(dir); n > 1 && made->dir[n - 1] == '/'; n--)
        made->dir[n - 1] = '\0';
    for (char *at = made->dir; at != NULL && made->first == 0;) {
        at = strchr(at + 1, '/');
        if (at != NULL)
            *at = '\0';
        if (!is_there(made->dir))
            made->first = strlen(made->dir);
        if (at != NULL)
            *at = '/';
    }
    return WEFT_OK;
}

void weft_made_undo(const struct weft_made *made)
{
    char *path = made->dir == NULL ? NULL : strdup(made->dir);
    char *lock = path == NULL ? NULL : weft_path_join(path, "lock");
    if (lock != NULL && made->new_lock)
        unlink(lock);
    free(lock);
    while (path != NULL && made->first > 0 && strlen(path) >= made->first && rmdir(path) == 0) {
        char *slash = strrchr(path, '/');
        *(slash == NULL ? path : slash) = '\0';
    }
    free(path);
}

void weft_made_release(struct weft_made *made)
{
    free(made->dir);
    *made = (struct weft_made){0};
}
