/* Builds the manifest in memory and checks the complete manifest. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/printable.h"
#include "base/size.h"
#include "training/ckpt/safetensors_priv.h"
#include "training/ckpt/store_priv.h"

_Static_assert((int)WF_STORE_MAX_DIMS == (int)WF_SAFETENSORS_MAX_DIMS,
               "a parameter has the shape of a tensor");

const char *wf_store_field_name(enum wf_store_field field)
{
    static const char *const names[WF_STORE_N_FIELDS] = {"value", "m", "v"};
    return (size_t)field < WEFT_LEN(names) ? names[field] : "?";
}

/* -- building ------------------------------------------------------------------------------ */

enum weft_status wf_manifest_new(uint64_t step, const char *run, const char *config,
                                 const char *model, struct wf_manifest **out,
                                 struct weft_error *err)
{
    struct wf_manifest *m = calloc(1, sizeof *m);
    if (m != NULL) {
        m->step = step;
        m->run = strdup(run);
        m->config = strdup(config);
        m->model = strdup(model);
        m->index = json_object();
    }
    if (m == NULL || m->run == NULL || m->config == NULL || m->model == NULL ||
        m->index == NULL) {
        wf_manifest_free(m);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the manifest of a checkpoint");
    }
    *out = m;
    return WEFT_OK;
}

enum weft_status wf_manifest_set_data(struct wf_manifest *m, const char *tokenizer,
                                      const char *data, struct weft_error *err)
{
    m->tokenizer = strdup(tokenizer == NULL ? "" : tokenizer);
    m->data = strdup(data == NULL ? "" : data);
    if (m->tokenizer == NULL || m->data == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a manifest");
    return WEFT_OK;
}

void wf_manifest_free(struct wf_manifest *m)
{
    if (m == NULL)
        return;
    for (size_t i = 0; i < m->n_params; i++) {
        free((char *)m->params[i].info.name);
        free(m->params[i].pieces);
    }
    free(m->params);
    free(m->files);
    free(m->run);
    free(m->config);
    free(m->tokenizer);
    free(m->data);
    free(m->model);
    json_decref(m->index);
    free(m);
}

/* Grows the array *at, if necessary, to have space for one more element of `size` bytes. */
static enum weft_status grow(void **at, size_t n, size_t *cap, size_t size,
                             struct weft_error *err)
{
    if (n < *cap)
        return WEFT_OK;
    size_t new_cap = *cap < 8 ? 8 : *cap * 2, bytes;
    void *larger = NULL;
    if (wf_size_mul(new_cap, size, &bytes))
        larger = realloc(*at, bytes);
    if (larger == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a manifest with %zu entries", new_cap);
    *at = larger;
    *cap = new_cap;
    return WEFT_OK;
}

enum weft_status wf_manifest_add_file(struct wf_manifest *m,
                                      const struct wf_manifest_file *file,
                                      struct weft_error *err)
{
    if (m->n_files >= WF_STORE_MAX_FILES)
        return WEFT_FAIL(err, WEFT_CKPT, "a checkpoint has at most %d files",
                         WF_STORE_MAX_FILES);
    WEFT_TRY(grow((void **)&m->files, m->n_files, &m->files_cap, sizeof *m->files, err));
    m->files[m->n_files++] = *file;
    return WEFT_OK;
}

static enum weft_status check_shape(const char *name, uint32_t n_dims, const uint64_t *shape,
                                    uint64_t *n, struct weft_error *err)
{
    const char *fault = wf_safetensors_name_error(name);
    if (fault != NULL)
        return WEFT_FAIL(err, WEFT_CKPT, "the name of parameter '%s' %s", wf_printable(name).at,
                         fault);
    if (n_dims > WF_STORE_MAX_DIMS)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "parameter '%s' has %" PRIu32 " dimensions (maximum %d)",
                         wf_printable(name).at, n_dims, WF_STORE_MAX_DIMS);

    uint64_t count = 1, bytes;
    bool fits = true;
    for (uint32_t i = 0; i < n_dims; i++)
        fits = fits && wf_size_mul(count, shape[i], &count);
    if (!fits || !wf_size_mul(count, sizeof(float), &bytes) || bytes > INT64_MAX)
        return WEFT_FAIL(err, WEFT_CKPT, "parameter '%s' has too many elements",
                         wf_printable(name).at);
    if (count == 0)
        return WEFT_FAIL(err, WEFT_CKPT, "parameter '%s' has no elements",
                         wf_printable(name).at);
    *n = count;
    return WEFT_OK;
}

static bool same_shape(const struct wf_ckpt_param *p, uint32_t n_dims, const uint64_t *shape)
{
    return p->n_dims == n_dims &&
           (n_dims == 0 || memcmp(p->shape, shape, n_dims * sizeof *shape) == 0);
}

enum weft_status wf_manifest_add_param(struct wf_manifest *m, const char *name, uint32_t n_dims,
                                       const uint64_t *shape, size_t *slot,
                                       struct weft_error *err)
{
    const json_t *known = json_object_get(m->index, name);
    if (known != NULL) {
        size_t i = (size_t)json_integer_value(known);
        if (!same_shape(&m->params[i].info, n_dims, shape))
            return WEFT_FAIL(err, WEFT_CKPT, "parameter '%s' has two shapes",
                             wf_printable(name).at);
        *slot = i;
        return WEFT_OK;
    }

    struct wf_manifest_param p = {.info = {.n_dims = n_dims}};
    WEFT_TRY(check_shape(name, n_dims, shape, &p.info.n, err));
    if (n_dims > 0)
        memcpy(p.info.shape, shape, n_dims * sizeof *shape);

    WEFT_TRY(grow((void **)&m->params, m->n_params, &m->params_cap, sizeof *m->params, err));
    p.info.name = strdup(name);
    if (p.info.name == NULL ||
        json_object_set_new(m->index, name, json_integer((json_int_t)m->n_params)) != 0) {
        free((char *)p.info.name);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the name of a parameter");
    }
    *slot = m->n_params;
    m->params[m->n_params++] = p;
    return WEFT_OK;
}

enum weft_status wf_manifest_add_piece(struct wf_manifest *m, size_t param,
                                       const struct wf_manifest_piece *piece,
                                       struct weft_error *err)
{
    struct wf_manifest_param *p = &m->params[param];
    if (piece->n == 0 || piece->n > p->info.n || piece->begin > p->info.n - piece->n)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "parameter '%s' has %" PRIu64 " elements; a piece of %" PRIu64
                         " from %" PRIu64 " is out of range",
                         wf_printable(p->info.name).at, p->info.n, piece->n, piece->begin);
    WEFT_TRY(grow((void **)&p->pieces, p->n_pieces, &p->pieces_cap, sizeof *p->pieces, err));
    p->pieces[p->n_pieces++] = *piece;
    p->info.has[piece->field] = true;
    return WEFT_OK;
}

struct wf_manifest_param *wf_manifest_find(const struct wf_manifest *m, const char *name)
{
    const json_t *slot = json_object_get(m->index, name);
    return slot == NULL ? NULL : &m->params[json_integer_value(slot)];
}

enum weft_status wf_manifest_merge(struct wf_manifest *m, const struct wf_manifest *part,
                                   struct weft_error *err)
{
    size_t first_file = m->n_files;
    for (size_t i = 0; i < part->n_files; i++)
        WEFT_TRY(wf_manifest_add_file(m, &part->files[i], err));
    for (size_t i = 0; i < part->n_params; i++) {
        const struct wf_manifest_param *p = &part->params[i];
        size_t slot;
        WEFT_TRY(
            wf_manifest_add_param(m, p->info.name, p->info.n_dims, p->info.shape, &slot, err));
        for (size_t k = 0; k < p->n_pieces; k++) {
            struct wf_manifest_piece piece = p->pieces[k];
            piece.file += first_file;
            WEFT_TRY(wf_manifest_add_piece(m, slot, &piece, err));
        }
    }
    return WEFT_OK;
}

/* -- checking ------------------------------------------------------------------------------ */

static int compare_pieces(const void *a, const void *b)
{
    const struct wf_manifest_piece *x = a, *y = b;
    if (x->field != y->field)
        return x->field < y->field ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Checks that the pieces of one field cover all elements of the parameter.  The pieces of the
 * field start at index *at.  Sets *at to the index of the first piece of the next field. */
static enum weft_status check_coverage(const struct wf_manifest_param *p, size_t *at,
                                       const char *source, struct weft_error *err)
{
    enum wf_store_field field = p->pieces[*at].field;
    uint64_t end = 0;

    for (; *at < p->n_pieces && p->pieces[*at].field == field; ++*at) {
        const struct wf_manifest_piece *piece = &p->pieces[*at];
        if (piece->begin != end)
            return WEFT_FAIL(
                err, WEFT_CKPT,
                "%.160s: elements %" PRIu64 " .. %" PRIu64 " of '%s' of parameter '%s' are %s",
                source, piece->begin < end ? piece->begin : end,
                (piece->begin < end ? end : piece->begin) - 1, wf_store_field_name(field),
                wf_printable(p->info.name).at, piece->begin < end ? "duplicated" : "missing");
        end = piece->begin + piece->n;
    }

    if (end != p->info.n)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s: elements %" PRIu64 " .. %" PRIu64
                         " of '%s' of parameter '%s' are missing",
                         source, end, p->info.n - 1, wf_store_field_name(field),
                         wf_printable(p->info.name).at);
    return WEFT_OK;
}

static enum weft_status check_param(const struct wf_manifest *m, struct wf_manifest_param *p,
                                    const char *source, struct weft_error *err)
{
    const bool *all = m->params[0].info.has;
    if (!p->info.has[WF_STORE_FIELD_VALUE])
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: parameter '%s' has no value", source,
                         wf_printable(p->info.name).at);
    for (int w = 0; w < WF_STORE_N_FIELDS; w++)
        if (p->info.has[w] != all[w])
            return WEFT_FAIL(err, WEFT_CKPT, "%.160s: parameter '%s' has %s '%s', unlike '%s'",
                             source, wf_printable(p->info.name).at,
                             p->info.has[w] ? "an" : "no",
                             wf_store_field_name((enum wf_store_field)w),
                             wf_printable(m->params[0].info.name).at);
    qsort(p->pieces, p->n_pieces, sizeof *p->pieces, compare_pieces);
    for (size_t at = 0; at < p->n_pieces;)
        WEFT_TRY(check_coverage(p, &at, source, err));
    return WEFT_OK;
}

static int compare_files(const void *a, const void *b)
{
    const struct wf_manifest_file *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static enum weft_status check_file_names(const struct wf_manifest *m, const char *source,
                                         struct weft_error *err)
{
    const struct wf_manifest_file **files = calloc(m->n_files + 1, sizeof *files);
    if (files == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of %zu files", m->n_files);
    for (size_t i = 0; i < m->n_files; i++)
        files[i] = &m->files[i];
    qsort(files, m->n_files, sizeof *files, compare_files);
    enum weft_status st = WEFT_OK;
    for (size_t i = 1; i < m->n_files && st == WEFT_OK; i++)
        if (strcmp(files[i - 1]->name, files[i]->name) == 0)
            st = WEFT_FAIL(err, WEFT_CKPT, "%.160s: file %s is listed twice", source,
                           files[i]->name);
    free(files);
    return st;
}

struct extent {
    size_t file;
    uint64_t begin, end; /* byte offsets in the file */
};

static int compare_extents(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Checks that the pieces of each file fill the file from the end of its header to the end of
 * the file, without gaps or overlaps. */
static enum weft_status check_extents(const struct wf_manifest *m, const struct extent *e,
                                      size_t n, const char *source, struct weft_error *err)
{
    size_t i = 0;
    for (size_t f = 0; f < m->n_files; f++) {
        uint64_t end = m->files[f].header_bytes;
        for (; i < n && e[i].file == f && e[i].begin == end; i++)
            end = e[i].end;
        if (end != m->files[f].bytes || (i < n && e[i].file == f))
            return WEFT_FAIL(
                err, WEFT_CKPT,
                "%.160s: the pieces of %s have a gap or an overlap at byte %" PRIu64, source,
                m->files[f].name, end);
    }
    return WEFT_OK;
}

static enum weft_status check_files(const struct wf_manifest *m, const char *source,
                                    struct weft_error *err)
{
    size_t n = 0, k = 0;
    for (size_t i = 0; i < m->n_params; i++)
        n += m->params[i].n_pieces;
    struct extent *extents = calloc(n + 1, sizeof *extents);
    if (extents == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of %zu pieces", n);
    for (size_t i = 0; i < m->n_params; i++)
        for (size_t j = 0; j < m->params[i].n_pieces; j++) {
            const struct wf_manifest_piece *p = &m->params[i].pieces[j];
            extents[k++] = (struct extent){p->file, p->at, p->at + p->n * sizeof(float)};
        }
    qsort(extents, n, sizeof *extents, compare_extents);
    enum weft_status st = check_extents(m, extents, n, source, err);
    free(extents);
    return st == WEFT_OK ? check_file_names(m, source, err) : st;
}

enum weft_status wf_manifest_check(struct wf_manifest *m, const char *source,
                                   struct weft_error *err)
{
    if (m->n_params == 0)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: there are no parameters", source);
    for (size_t i = 0; i < m->n_params; i++)
        WEFT_TRY(check_param(m, &m->params[i], source, err));
    return check_files(m, source, err);
}
