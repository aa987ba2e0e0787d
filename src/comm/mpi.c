/* Which MPI launched this process, and loading weft's module for it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/comm_priv.h"

const char *weft_comm_launcher(void)
{
    if (getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMIX_RANK") != NULL)
        return "openmpi";
    if (getenv("PMI_RANK") != NULL && getenv("PMI_SIZE") != NULL)
        return "mpich";
    return NULL;
}

/* Beside the program, where it is built; and where it is installed. */
static void *load(const char *launcher, char *tried, size_t room)
{
    const char *const places[] = {"", "../" WEFT_MODULE_DIR "/"};
    char self[2048], path[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash != NULL)
        slash[1] = '\0';
    for (size_t i = 0; i < WEFT_LEN(places); i++) {
        snprintf(path, sizeof path, "%s%sweft-%s.so", self, places[i], launcher);
        void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (module != NULL)
            return module;
        snprintf(tried, room, "%.200s", dlerror());
        if (access(path, F_OK) == 0)
            return NULL;
    }
    return NULL;
}

static enum weft_status open_module(const char *launcher, struct weft_comm **out,
                                    struct weft_error *err)
{
    char tried[256] = "";
    void *handle = load(launcher, tried, sizeof tried);
    if (handle == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s launched this process, but weft's module for it cannot be loaded: "
                         "%s",
                         launcher, tried);
    const struct weft_transport_module *m = dlsym(handle, WEFT_TRANSPORT_SYMBOL);
    if (m == NULL || m->version != WEFT_TRANSPORT_VERSION ||
        m->comm_bytes != sizeof(struct weft_comm) ||
        m->message_bytes != sizeof(struct weft_message))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "weft's module for %s is of another version: install both together",
                         launcher);
    WEFT_TRY(m->open(out, err));
    enum weft_status st = weft_comm_begin(*out, err);
    if (st != WEFT_OK)
        (*out)->ops->close(*out);
    return st;
}

enum weft_status weft_comm_run_mpi(weft_rank_fn *fn, void *arg, struct weft_error *err)
{
    struct weft_comm *comm = NULL;
    const char *launcher = weft_comm_launcher();
    if (launcher == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "no MPI launched this process: start it with mpirun or srun");
    WEFT_TRY(open_module(launcher, &comm, err));
    enum weft_status st = fn(comm, arg, err);
    weft_comm_returned(comm, st, err);
    if (st != WEFT_OK) {
        struct weft_error own = {.status = st};
        weft_comm_abort(comm, err != NULL ? err : &own);
    }
    weft_comm_end(comm);
    comm->ops->close(comm);
    return st;
}
