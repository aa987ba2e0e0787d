/* Detects the MPI that launched this process, and loads weft's module for it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "runtime/comm/comm_priv.h"

/* Checks the environment variables of launchers: Open MPI's mpirun; MPICH's mpirun and srun
 * with PMI-2, which MPICH supports; srun with PMIx, which Open MPI supports. */
const char *weft_comm_launcher(void)
{
    if (getenv("OMPI_COMM_WORLD_SIZE") != NULL)
        return "openmpi";
    if (getenv("PMI_RANK") != NULL && getenv("PMI_SIZE") != NULL)
        return "mpich";
    if (getenv("PMIX_RANK") != NULL)
        return "openmpi";
    return NULL;
}

/* -- loading ------------------------------------------------------------------------------- */

enum { MAX_PATH = 4096, MAX_REASON = 256 };

/* Loads the file folder + place + the module's name.  Returns false if the file does not exist.
 * If the file exists but cannot be loaded, returns true with *out NULL and sets `why`. */
static bool load_at(const char *folder, const char *place, const char *launcher, void **out,
                    char *why)
{
    char path[MAX_PATH];
    int n = snprintf(path, sizeof path, "%s%sweft-%s.so", folder, place, launcher);
    if (n < 0 || (size_t)n >= sizeof path || access(path, F_OK) != 0)
        return false;
    *out = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (*out == NULL)
        snprintf(why, MAX_REASON, "%.200s", dlerror());
    return true;
}

/* Removes the file name from a path; the result is "" if there is no directory. */
static void keep_directory(char *path)
{
    char *slash = strrchr(path, '/');
    path[slash == NULL ? 0 : slash + 1 - path] = '\0';
}

/* Searches for the module near the program: in the build directory (test programs are two
 * levels below it) and in the directories of an installation. */
static bool load_near_program(const char *launcher, void **out, char *why)
{
    const char *const places[] = {"", "../" WEFT_MODULE_DIR "/", "../", "../../"};
    char self[MAX_PATH];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    keep_directory(self);
    for (size_t i = 0; i < WEFT_LEN(places); i++)
        if (load_at(self, places[i], launcher, out, why))
            return true;
    return false;
}

/* Searches for the module near libweft.so.  Programs that are installed elsewhere find it
 * there. */
static bool load_near_library(const char *launcher, void **out, char *why)
{
    static const char own_symbol = 0;
    Dl_info info;
    char self[MAX_PATH];
    if (dladdr(&own_symbol, &info) == 0 || info.dli_fname == NULL)
        return false;
    snprintf(self, sizeof self, "%s", info.dli_fname);
    keep_directory(self);
    return load_at(self, "weft/", launcher, out, why) || load_at(self, "", launcher, out, why);
}

static enum weft_status load(const char *launcher, void **out, struct weft_error *err)
{
    const char *folder = getenv("WEFT_MODULES");
    char why[MAX_REASON] =
        "it is neither beside the program nor installed; set WEFT_MODULES to "
        "its directory";
    if (folder != NULL) {
        snprintf(why, sizeof why, "it is not in the directory WEFT_MODULES, %.180s", folder);
        load_at(folder, "/", launcher, out, why);
    } else if (!load_near_program(launcher, out, why)) {
        load_near_library(launcher, out, why);
    }
    if (*out != NULL)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "%s launched this process, but weft-%s.so cannot be loaded: %s", launcher,
                     launcher, why);
}

static enum weft_status open_module(const char *launcher, struct weft_comm **out,
                                    struct weft_error *err)
{
    void *handle = NULL;
    struct wf_endpoint e = {0};
    /* The module is never unloaded: MPI libraries do not support unloading. */
    WEFT_TRY(load(launcher, &handle, err));
    const struct wf_transport_module *m = dlsym(handle, WF_TRANSPORT_SYMBOL);
    if (m == NULL || wf_comm_check_abi(&m->abi, launcher, NULL) != WEFT_OK)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "weft's module for %s has another version; install the program and its "
            "modules together",
            launcher);
    WEFT_TRY(m->open(&e, err));
    enum weft_status st =
        weft_comm_open(e.transport, e.self, e.rank, e.n_ranks, e.run, out, err);
    if (st != WEFT_OK) { /* the other ranks would wait for this rank */
        e.transport->abort(e.self, err);
        e.transport->close(e.self);
    }
    return st;
}

enum weft_status weft_comm_run_mpi(weft_rank_fn *fn, void *arg, struct weft_error *err)
{
    struct weft_comm *comm = NULL;
    struct weft_error own = {.status = WEFT_OK};
    const char *launcher = weft_comm_launcher();
    if (err == NULL)
        err = &own;
    if (launcher == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "no MPI launched this process; start it with mpirun or srun");
    WEFT_TRY(open_module(launcher, &comm, err));
    return weft_comm_run(comm, fn, arg, err);
}
