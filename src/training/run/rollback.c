/* Removes the directories and the lock of a run that did not start. */
#include "training/run/rollback.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

enum weft_status wf_rollback_init(struct wf_rollback *rollback, const char *dir,
                                  struct weft_error *err)
{
    bool has_lock, has_checkpoints;
    WEFT_TRY(wf_dir_has(dir, "lock", &has_lock, err));
    WEFT_TRY(wf_dir_has(dir, "checkpoints", &has_checkpoints, err));
    *rollback = (struct wf_rollback){
        .dir = wf_path_trim(dir), .new_lock = !has_lock, .new_checkpoints = !has_checkpoints};
    if (rollback->dir == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for paths in %.200s", dir);
    for (char *at = rollback->dir; at != NULL && rollback->first == 0;) {
        at = strchr(at + 1, '/');
        if (at != NULL)
            *at = '\0';
        if (!exists(rollback->dir))
            rollback->first = strlen(rollback->dir);
        if (at != NULL)
            *at = '/';
    }
    return WEFT_OK;
}

/* Returns true if the directory was removed or never existed, so that its parents can be
 * removed. */
static bool remove_directory(const char *path)
{
    return rmdir(path) == 0 || errno == ENOENT || errno == ENAMETOOLONG;
}

void wf_rollback_undo(const struct wf_rollback *rollback, bool locked)
{
    char *path = rollback->dir == NULL ? NULL : strdup(rollback->dir);
    char *lock = path == NULL ? NULL : wf_path_join(path, "lock");
    char *checkpoints = path == NULL ? NULL : wf_path_join(path, "checkpoints");
    if (checkpoints != NULL && locked && rollback->new_checkpoints)
        rmdir(checkpoints); /* rmdir() fails if the directory is not empty, as intended */
    if (lock != NULL && locked && rollback->new_lock)
        unlink(lock);
    free(checkpoints);
    free(lock);
    while (path != NULL && rollback->first > 0 && strlen(path) >= rollback->first &&
           remove_directory(path)) {
        char *slash = strrchr(path, '/');
        *(slash == NULL ? path : slash) = '\0';
    }
    free(path);
}

void wf_rollback_release(struct wf_rollback *rollback)
{
    free(rollback->dir);
    *rollback = (struct wf_rollback){0};
}
