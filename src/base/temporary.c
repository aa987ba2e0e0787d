/* Creates, locks and removes temporary files and directories.  A lock belongs to the open file,
 * so that it also protects against processes of other machines and containers, whose ids cannot
 * be examined here. */
#define _DEFAULT_SOURCE /* flock */
#include "base/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum { ATTEMPTS = 100, MAX_DEPTH = 8 };

static const char mark[] = ".tmp-";

/* -- creating ------------------------------------------------------------------------------ */

/* Returns temporary name number `attempt` beside `path`, or NULL if memory runs out. */
static char *make_name(const char *path, int attempt)
{
    size_t n = strlen(path) + 40;
    char *tmp = malloc(n);
    if (tmp != NULL)
        snprintf(tmp, n, "%s%s%ld-%d", path, mark, (long)getpid(), attempt);
    return tmp;
}

/* Locks a new temporary.  Returns false if another process, which took it for a stale one, has
 * removed it or is about to. */
static bool lock_new(int fd, const char *tmp)
{
    struct stat opened, named;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return false;
    return fstat(fd, &opened) == 0 && lstat(tmp, &named) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

/* Creates a temporary and opens it.  mkstemp() is not used: it ignores the umask and creates
 * files that only the owner can read. */
static int create(const char *tmp, bool directory)
{
    if (!directory)
        return open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (mkdir(tmp, 0777) != 0)
        return -1;
    int fd = open(tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int why = errno;
    if (fd < 0)
        rmdir(tmp);
    errno = why;
    return fd;
}

static enum weft_status make(const char *path, bool directory, char **out, int *fd,
                             struct weft_error *err)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        char *tmp = make_name(path, i);
        if (tmp == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of a temporary file");
        int created = create(tmp, directory);
        if (created >= 0 && lock_new(created, tmp)) {
            *out = tmp;
            *fd = created;
            return WEFT_OK;
        }

        bool again = created >= 0 || errno == EEXIST;
        int why = errno;
        if (created >= 0)
            close(created);
        free(tmp);
        errno = why;
        if (!again)
            break;
    }
    return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be %s: %s", path,
                     directory ? "created" : "written", strerror(errno));
}

enum weft_status wf_temporary_new_file(const char *path, char **tmp, int *fd,
                                       struct weft_error *err)
{
    return make(path, false, tmp, fd, err);
}

enum weft_status wf_temporary_new_dir(const char *path, char **tmp, int *lock,
                                      struct weft_error *err)
{
    wf_temporary_clean(path);
    return make(path, true, tmp, lock, err);
}

/* -- removing stale ones ------------------------------------------------------------------- */

/* Parses "NAME.tmp-PID-N".  Returns the length of NAME, or 0 for any other name. */
static size_t parse_name(const char *name, long *pid)
{
    const char *found = NULL;
    for (const char *at = name; (at = strstr(at, mark)) != NULL; at++)
        found = at;
    if (found == NULL)
        return 0;
    const char *digits = found + sizeof mark - 1;
    size_t n = strspn(digits, "0123456789");
    size_t number = digits[n] == '-' ? strspn(digits + n + 1, "0123456789") : 0;
    if (n == 0 || n > 10 || number == 0 || digits[n + 1 + number] != '\0')
        return 0;
    *pid = strtol(digits, NULL, 10);
    return (size_t)(found - name);
}

static bool is_alive(long pid)
{
    return pid != (long)getpid() && (kill((pid_t)pid, 0) == 0 || errno != ESRCH);
}

/* Removes everything in a directory.  Takes ownership of `fd`. */
static void empty_dir(int fd, int depth)
{
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        close(fd);
        return;
    }
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(dir), e->d_name, 0) == 0 || depth == MAX_DEPTH)
            continue;
        int inner =
            openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner >= 0) {
            empty_dir(inner, depth + 1);
            unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
        }
    }
    closedir(dir);
}

/* Removes a temporary that nobody has locked.  The lock is held until it is removed, so that
 * its writer cannot take it in between. */
static void remove_unlocked(int dir, const char *name)
{
    struct stat info;
    if (fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)))
        return;
    bool directory = S_ISDIR(info.st_mode);
    int fd = openat(dir, name,
                    O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC |
                        (directory ? O_RDONLY | O_DIRECTORY : O_RDWR));
    if (fd < 0)
        return;

    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        int inner = directory ? openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        if (inner >= 0)
            empty_dir(inner, 0);
        unlinkat(dir, name, directory ? AT_REMOVEDIR : 0);
    }
    close(fd);
}

/* Removes the stale temporaries in a directory; of one name only unless `only` is NULL. */
static void clean(const char *path, const char *only)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return;
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        long pid;
        size_t n = parse_name(e->d_name, &pid);
        if (n == 0 || (only != NULL && (strlen(only) != n || memcmp(only, e->d_name, n) != 0)))
            continue;
        if (!is_alive(pid))
            remove_unlocked(dirfd(dir), e->d_name);
    }
    closedir(dir);
}

void wf_temporary_clean(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        clean(".", path);
        return;
    }
    char *dir = strndup(path, slash == path ? 1 : (size_t)(slash - path));
    if (dir != NULL && slash[1] != '\0')
        clean(dir, slash + 1);
    free(dir);
}

void wf_temporary_clean_dir(const char *dir)
{
    clean(dir, NULL);
}
