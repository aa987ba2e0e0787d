#include "training/run/made.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "training/ckpt/file.h"

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

enum weft_status weft_made_note(struct weft_made *made, const char *dir, struct weft_error *err)
{
    *made = (struct weft_made){.dir = weft_path_trim(dir),
                               .new_lock = !weft_path_has(dir, "lock"),
                               .new_checkpoints = !weft_path_has(dir, "checkpoints")};
    if (made->dir == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for names in %.200s", dir);
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

/* One of them may never have been made: those above it go all the same. */
static bool remove_directory(const char *path)
{
    return rmdir(path) == 0 || errno == ENOENT || errno == ENAMETOOLONG;
}

void weft_made_undo(const struct weft_made *made, bool locked)
{
    char *path = made->dir == NULL ? NULL : strdup(made->dir);
    char *lock = path == NULL ? NULL : weft_path_join(path, "lock");
    char *checkpoints = path == NULL ? NULL : weft_path_join(path, "checkpoints");
    if (checkpoints != NULL && locked && made->new_checkpoints)
        rmdir(checkpoints); /* as long as it is empty */
    if (lock != NULL && locked && made->new_lock)
        unlink(lock);
    free(checkpoints);
    free(lock);
    while (path != NULL && made->first > 0 && strlen(path) >= made->first &&
           remove_directory(path)) {
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
