/* Ensures that only one run uses a directory at a time.  The lock is a flock() lock, which the
 * system releases when the process ends; the existence of the lock file has no meaning. */
#define _GNU_SOURCE /* flock, gethostname */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"
#include "training/ckpt/store.h"

struct wf_store_lock {
    int fd;
};

enum { OWNER_CHARS = 200, ATTEMPTS = 4 };

/* Writes the owner of the lock into the lock file.  Other processes print the owner in their
 * error messages.  Write errors are ignored. */
static void write_owner(int fd)
{
    char host[80] = "", when[40] = "", text[OWNER_CHARS];
    time_t now = time(NULL);
    struct tm tm;
    if (gethostname(host, sizeof host - 1) != 0)
        strcpy(host, "unknown");
    if (gmtime_r(&now, &tm) != NULL)
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", &tm);
    int n = snprintf(text, sizeof text, "pid %ld on host %s since %s\n", (long)getpid(), host,
                     when);
    if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) < 0)
        return;
}

static enum weft_status fail_locked(int fd, const char *dir, struct weft_error *err)
{
    char text[OWNER_CHARS] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return WEFT_FAIL(err, WEFT_USAGE,
                     "%.160s is locked by %s; wait for that run to end, or use another "
                     "directory",
                     dir, text[0] == '\0' ? "another run" : wf_printable(text).at);
}

static enum weft_status acquire(int fd, const char *path, const char *dir,
                                struct weft_error *err)
{
    struct stat st, now;
    if (fstat(fd, &st) != 0)
        return WEFT_FAIL(err, WEFT_IO, "%.160s/lock: %s", dir, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return WEFT_FAIL(err, WEFT_IO, "%.160s/lock is not a regular file", dir);

    /* Retry, because wf_store_is_locked() in another process may hold the lock briefly. */
    int failed = flock(fd, LOCK_EX | LOCK_NB);
    for (int i = 0; failed != 0 && errno == EWOULDBLOCK && i < ATTEMPTS; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        failed = flock(fd, LOCK_EX | LOCK_NB);
    }

    if (failed == 0) {
        /* The previous owner of the lock may have removed the file.  A lock on a removed file
         * protects nothing. */
        bool found = stat(path, &now) == 0;
        if (!found && errno != ENOENT)
            return WEFT_FAIL(err, WEFT_IO, "%.160s/lock: %s", dir, strerror(errno));
        if (!found || now.st_ino != st.st_ino || now.st_dev != st.st_dev)
            return WEFT_FAIL(err, WEFT_USAGE, "%.160s was locked a moment ago; try again", dir);
        write_owner(fd);
        return WEFT_OK;
    }
    if (errno == EWOULDBLOCK)
        return fail_locked(fd, dir, err);
    return WEFT_FAIL(err, WEFT_IO, "%.160s/lock cannot be locked: %s", dir, strerror(errno));
}

enum weft_status wf_store_lock(const char *dir, struct wf_store_lock **out,
                               struct weft_error *err)
{
    char *path = wf_path_join(dir, "lock");
    struct wf_store_lock *lock = malloc(sizeof *lock);
    if (path == NULL || lock == NULL) {
        free(path);
        free(lock);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a lock");
    }

    /* The file may exist without a lock.  Only the owner of the lock may remove the file. */
    lock->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    enum weft_status st;
    if (lock->fd < 0)
        st = WEFT_FAIL(err, WEFT_IO, "%.160s cannot be opened: %s", path, strerror(errno));
    else
        st = acquire(lock->fd, path, dir, err);
    free(path);

    if (st == WEFT_OK)
        *out = lock;
    else
        wf_store_unlock(lock);
    return st;
}

void wf_store_unlock(struct wf_store_lock *lock)
{
    if (lock == NULL)
        return;
    if (lock->fd >= 0)
        close(lock->fd);
    free(lock);
}

int wf_store_is_locked(const char *dir)
{
    char *path = wf_path_join(dir, "lock");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int locked = -1;
    if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0)
        locked = 0;
    else if (fd >= 0 && errno == EWOULDBLOCK)
        locked = 1;
    if (fd >= 0)
        close(fd); /* releases the lock */
    free(path);
    return locked;
}
