/* The store for activations and gradients of programs that call their stages themselves.
 *
 * All tensors have the same size.  The memory is an array of slots, enough for an activation and
 * a gradient of every micro-batch, and a stack of free slots: a dropped slot is the next one that
 * is used, so the store touches only as many slots as tensors were stored at one time. */
#include "weft/activations.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"

enum { N_KINDS = 2, SLOT_ALIGN = 64 };

#define NO_SLOT SIZE_MAX

struct weft_activations {
    uint32_t n_micros;
    size_t seq_len, hidden_size, size; /* size: floats of one tensor */
    size_t stride;                     /* bytes of one slot, a multiple of SLOT_ALIGN */
    char *memory;                      /* owned: (N_KINDS * n_micros) slots */
    size_t *slot_of;                   /* owned: (N_KINDS, n_micros), NO_SLOT: not stored */
    size_t *free_slots;                /* owned: a stack */
    size_t n_free, n_slots;
};

/* Computes all sizes.  Returns false on overflow. */
static bool compute_sizes(struct weft_activations *a, size_t *memory_bytes, size_t *list_bytes)
{
    size_t bytes;
    a->n_slots = (size_t)N_KINDS * a->n_micros;
    if (!wf_size_mul(a->seq_len, a->hidden_size, &a->size) ||
        !wf_size_mul(a->size, sizeof(float), &bytes) ||
        !wf_size_add(bytes, SLOT_ALIGN - 1, &bytes))
        return false;
    a->stride = bytes / SLOT_ALIGN * SLOT_ALIGN;
    /* An empty tensor also has an address. */
    return wf_size_mul(a->stride, a->n_slots, &bytes) &&
           wf_size_add(bytes, SLOT_ALIGN, memory_bytes) &&
           wf_size_mul(a->n_slots + 1, sizeof(size_t), list_bytes);
}

static enum weft_status check_result(const void *out, struct weft_error *err)
{
    if (out == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "activations: the result of the call is NULL");
    return WEFT_OK;
}

enum weft_status weft_activations_new(uint32_t n_micros, size_t seq_len, size_t hidden_size,
                                      struct weft_activations **out, struct weft_error *err)
{
    struct weft_activations sizes = {
        .n_micros = n_micros, .seq_len = seq_len, .hidden_size = hidden_size};
    size_t memory_bytes, list_bytes;
    WEFT_TRY(check_result(out, err));
    if (!compute_sizes(&sizes, &memory_bytes, &list_bytes))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "activations: %u micro-batches of %zu x %zu floats are too large",
                         n_micros, seq_len, hidden_size);

    struct weft_activations *a = malloc(sizeof *a);
    if (a == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a store of activations");
    *a = sizes;
    a->memory = aligned_alloc(SLOT_ALIGN, memory_bytes);
    a->slot_of = malloc(list_bytes);
    a->free_slots = malloc(list_bytes);
    if (a->memory == NULL || a->slot_of == NULL || a->free_slots == NULL) {
        weft_activations_free(a);
        return WEFT_FAIL(err, WEFT_NOMEM,
                         "no memory for activations: %u micro-batches of %zu x %zu floats",
                         n_micros, seq_len, hidden_size);
    }
    weft_activations_reset(a);
    *out = a;
    return WEFT_OK;
}

void weft_activations_free(struct weft_activations *a)
{
    if (a == NULL)
        return;
    free(a->memory);
    free(a->slot_of);
    free(a->free_slots);
    free(a);
}

void weft_activations_reset(struct weft_activations *a)
{
    if (a == NULL)
        return;
    a->n_free = a->n_slots;
    for (size_t i = 0; i < a->n_slots; i++) {
        a->slot_of[i] = NO_SLOT;
        a->free_slots[i] = a->n_slots - 1 - i; /* slot 0 is on top */
    }
}

/* Finds the entry of a tensor in slot_of. */
static enum weft_status find_entry(const struct weft_activations *a, enum weft_boundary which,
                                   uint32_t micro, size_t *entry, struct weft_error *err)
{
    if (a == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "activations: the store is NULL; create it first");
    if (which != WEFT_BOUNDARY_ACTIVATION && which != WEFT_BOUNDARY_GRADIENT)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "activations: %d is not a kind of tensor (expected "
                         "WEFT_BOUNDARY_ACTIVATION or WEFT_BOUNDARY_GRADIENT)",
                         (int)which);
    if (micro >= a->n_micros)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "activations: micro-batch %u is out of range (expected less than %u, "
                         "the number of micro-batches)",
                         micro, a->n_micros);
    *entry = (size_t)which * a->n_micros + micro;
    return WEFT_OK;
}

static float *slot_memory(const struct weft_activations *a, size_t slot)
{
    return (float *)(void *)(a->memory + slot * a->stride);
}

/* Returns the memory of an entry, and takes a slot if it has none. */
static float *take_slot(struct weft_activations *a, size_t entry)
{
    if (a->slot_of[entry] == NO_SLOT)
        a->slot_of[entry] = a->free_slots[--a->n_free];
    return slot_memory(a, a->slot_of[entry]);
}

enum weft_status weft_activations_store(struct weft_activations *a, enum weft_boundary which,
                                        uint32_t micro, const float *data, size_t n,
                                        struct weft_error *err)
{
    size_t entry = 0;
    WEFT_TRY(find_entry(a, which, micro, &entry, err));
    const char *name = which == WEFT_BOUNDARY_GRADIENT ? "gradient" : "activation";
    if (n != a->size)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "activations: the %s of micro-batch %u has %zu floats (expected %zu = "
                         "%zu x %zu)",
                         name, micro, n, a->size, a->seq_len, a->hidden_size);
    if (data == NULL && n > 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "activations: the %s of micro-batch %u is NULL (expected %zu floats)",
                         name, micro, n);

    float *to = take_slot(a, entry);
    if (n > 0)
        memmove(to, data, n * sizeof *to); /* `data` may be this memory itself */
    return WEFT_OK;
}

enum weft_status weft_activations_place(struct weft_activations *a, enum weft_boundary which,
                                        uint32_t micro, float **out, struct weft_error *err)
{
    size_t entry = 0;
    WEFT_TRY(find_entry(a, which, micro, &entry, err));
    WEFT_TRY(check_result(out, err));
    *out = take_slot(a, entry);
    return WEFT_OK;
}

enum weft_status weft_activations_get(const struct weft_activations *a,
                                      enum weft_boundary which, uint32_t micro,
                                      const float **out, struct weft_error *err)
{
    size_t entry = 0;
    WEFT_TRY(find_entry(a, which, micro, &entry, err));
    WEFT_TRY(check_result(out, err));
    size_t slot = a->slot_of[entry];
    *out = slot == NO_SLOT ? NULL : slot_memory(a, slot);
    return WEFT_OK;
}

enum weft_status weft_activations_drop(struct weft_activations *a, enum weft_boundary which,
                                       uint32_t micro, struct weft_error *err)
{
    size_t entry = 0;
    WEFT_TRY(find_entry(a, which, micro, &entry, err));
    if (a->slot_of[entry] != NO_SLOT)
        a->free_slots[a->n_free++] = a->slot_of[entry];
    a->slot_of[entry] = NO_SLOT;
    return WEFT_OK;
}

size_t weft_activations_size(const struct weft_activations *a)
{
    return a == NULL ? 0 : a->size;
}

size_t weft_activations_bytes(const struct weft_activations *a)
{
    return a == NULL ? 0 : (a->n_slots - a->n_free) * a->size * sizeof(float);
}
