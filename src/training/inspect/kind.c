/* Determines the kind of a file or directory. */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/input.h"
#include "training/inspect/inspect.h"

enum weft_status wf_as_data(enum weft_status st, struct weft_error *err)
{
    if (st != WEFT_USAGE && st != WEFT_SCHEDULE && st != WEFT_CKPT)
        return st;
    if (err != NULL)
        err->status = WEFT_DATA;
    return WEFT_DATA;
}

enum { HEAD_BYTES = 4096 };

/* The first bytes of a file. */
struct file_head {
    unsigned char at[HEAD_BYTES + 1]; /* terminated by NUL */
    size_t n;
};

static enum weft_status read_head(const char *path, struct file_head *head,
                                  struct weft_error *err)
{
    int fd;
    uint64_t size;
    WEFT_TRY(wf_as_data(wf_file_open(path, &fd, &size, err), err));
    head->n = size < HEAD_BYTES ? (size_t)size : HEAD_BYTES;
    enum weft_status st = wf_as_data(wf_file_read_at(fd, path, 0, head->at, head->n, err), err);
    head->at[head->n] = '\0';
    close(fd);
    if (st == WEFT_OK && size == 0)
        st = WEFT_FAIL(err, WEFT_DATA, "%.300s: the file is empty", path);
    return st;
}

static uint64_t little_endian(const unsigned char *at, unsigned n)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static bool is_shard(const struct file_head *h)
{
    uint64_t magic = h->n < 4 ? 0 : little_endian(h->at, 4);
    return magic == 20240520 || magic == 20240801;
}

static bool is_llmc(const struct file_head *h)
{
    return h->n >= 4 && little_endian(h->at, 4) == 20240326;
}

static bool is_safetensors(const struct file_head *h)
{
    return h->n > 8 && h->at[8] == '{' && little_endian(h->at, 8) <= WF_SAFETENSORS_MAX_HEADER;
}

static bool is_text(const struct file_head *h)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->at[i] == 0x7f || (h->at[i] < ' ' && strchr("\t\n\r", h->at[i]) == NULL) ||
            h->at[i] == '\0')
            return false;
    return true;
}

/* A schedule starts with its header, with a cell, or with idle steps before the first cell. */
static bool is_schedule(const struct file_head *h)
{
    size_t i = strspn((const char *)h->at, ", \t(");
    return strncmp((const char *)h->at, "# weft schedule", 15) == 0 ||
           (h->at[i] >= '0' && h->at[i] <= '9');
}

/* A profile of PyTorch starts with the keys that its profiler writes first.  Of the files that
 * weft reads, only profiles are compressed. */
static bool is_profile(const struct file_head *h)
{
    const char *text = (const char *)h->at;
    bool packed = h->n >= 2 && h->at[0] == 0x1f && h->at[1] == 0x8b;
    return packed ||
           (weft_kineto_detect(text, h->n) && (strstr(text, "\"traceEvents\"") != NULL ||
                                               strstr(text, "\"schemaVersion\"") != NULL));
}

/* The first bytes of the file decide.  If they match no kind, the name decides, so that the
 * right reader reports the error of a malformed file. */
static enum wf_artifact kind_of_file(const char *path, const struct file_head *h)
{
    const char *text = (const char *)h->at;
    if (is_shard(h))
        return WF_ARTIFACT_SHARDS;
    if (is_llmc(h))
        return WF_ARTIFACT_LLMC;
    if (h->n >= 8 && memcmp(h->at, "weftrank", 8) == 0)
        return WF_ARTIFACT_FLIGHT;
    if (is_profile(h))
        return WF_ARTIFACT_TRACE;
    if (is_safetensors(h) || wf_path_ends_in(path, ".safetensors"))
        return WF_ARTIFACT_SAFETENSORS;
    if (wf_path_ends_in(path, ".bin"))
        return WF_ARTIFACT_SHARDS;
    if (!is_text(h))
        return WF_ARTIFACT_UNKNOWN;

    if (weft_trace_detect(text, h->n) || wf_path_ends_in(path, ".trace"))
        return WF_ARTIFACT_TRACE;
    if (wf_path_ends_in(path, ".jsonl"))
        return WF_ARTIFACT_METRICS;
    if (wf_path_ends_in(path, ".yaml") || wf_path_ends_in(path, ".yml"))
        return WF_ARTIFACT_SETTINGS;
    return wf_path_ends_in(path, ".csv") || is_schedule(h) ? WF_ARTIFACT_SCHEDULE
                                                           : WF_ARTIFACT_UNKNOWN;
}

/* A directory with token shards, or one that may not be read, is a directory of shards. */
static enum weft_status find_shards(const char *path, enum wf_artifact *out,
                                    struct weft_error *err)
{
    DIR *dir = opendir(path);
    const struct dirent *e;
    bool found = dir == NULL;
    if (dir == NULL && wf_errno_status(errno, WEFT_OK) != WEFT_OK)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_OK), "%.300s: %s", path,
                         strerror(errno));
    errno = 0;
    while (!found && (e = readdir(dir)) != NULL)
        found = wf_path_ends_in(e->d_name, ".bin");
    int why = errno;
    if (dir != NULL)
        closedir(dir);
    if (!found && why != 0)
        return WEFT_FAIL(err, WEFT_IO, "%.300s: %s", path, strerror(why));
    *out = found ? WF_ARTIFACT_SHARDS : WF_ARTIFACT_UNKNOWN;
    return WEFT_OK;
}

static enum weft_status kind_of_directory(const char *path, enum wf_artifact *out,
                                          struct weft_error *err)
{
    static const char *const names[] = {"config.json", "model.safetensors", "manifest.json",
                                        "config.yaml", "metrics.jsonl",     "ranks"};
    static const enum wf_artifact kinds[] = {WF_ARTIFACT_MODEL,      WF_ARTIFACT_MODEL,
                                             WF_ARTIFACT_CHECKPOINT, WF_ARTIFACT_RUN,
                                             WF_ARTIFACT_RUN,        WF_ARTIFACT_RUN};
    size_t found;
    WEFT_TRY(wf_dir_find(path, names, WEFT_LEN(names), &found, err));
    if (found == WEFT_LEN(names))
        return find_shards(path, out, err);
    *out = kinds[found];
    return WEFT_OK;
}

enum weft_status wf_artifact_detect(const char *path, enum wf_artifact *out,
                                    struct weft_error *err)
{
    struct stat info;
    struct file_head head;
    if (stat(path, &info) != 0)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.300s: %s", path,
                         strerror(errno));
    if (!S_ISDIR(info.st_mode)) {
        WEFT_TRY(read_head(path, &head, err));
        *out = kind_of_file(path, &head);
        return WEFT_OK;
    }
    enum wf_artifact kind = WF_ARTIFACT_UNKNOWN;
    WEFT_TRY(kind_of_directory(path, &kind, err));
    if (kind == WF_ARTIFACT_SHARDS && access(path, R_OK | X_OK) != 0)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.300s: %s", path,
                         strerror(errno));
    *out = kind;
    return WEFT_OK;
}
