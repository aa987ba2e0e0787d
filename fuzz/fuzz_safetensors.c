/* Opens any bytes as a safetensors file.  Checks that the tensors of an accepted file fill the
 * data and are readable.  The mutator edits the header and keeps lengths and offsets correct, so
 * that most mutants are accepted. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mutate.h"
#include "require.h"
#include "training/ckpt/safetensors.h"

/* Reads a whole tensor, and its last element separately. */
static void check_tensor(const struct wf_safetensors *s, const struct wf_safetensors_tensor *t)
{
    struct weft_error err = {.msg = ""};
    require(wf_safetensors_find(s, t->name) == t);
    if (!t->readable) {
        float value;
        require(wf_safetensors_read(s, t, 0, 0, &value, &err) == WEFT_CKPT);
        require(err.msg[0] != '\0');
        return;
    }
    size_t n = (size_t)t->n;
    float *values = malloc((n + 1) * sizeof *values), last;
    require(values != NULL);
    require(wf_safetensors_read(s, t, 0, n, values, &err) == WEFT_OK);
    require(wf_safetensors_read(s, t, 0, n + 1, values, &err) == WEFT_CKPT);
    if (n > 0) {
        require(wf_safetensors_read(s, t, n - 1, 1, &last, &err) == WEFT_OK);
        require(memcmp(&last, &values[n - 1], sizeof last) == 0);
    }
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wf_safetensors *s = NULL;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_safetensors_open_bytes(data, size, "fuzz", &s, &err);
    if (st != WEFT_OK) {
        require(st == WEFT_CKPT && err.status == st && err.msg[0] != '\0' && s == NULL);
        for (const char *c = err.msg; *c != '\0'; c++)
            require(*c >= ' ' && *c <= '~');
        return 0;
    }
    uint64_t end = 0;
    for (size_t i = 0; i < wf_safetensors_count(s); i++) {
        const struct wf_safetensors_tensor *t = wf_safetensors_at(s, i);
        require(t->begin == end && t->end <= size && t->n_dims <= WF_SAFETENSORS_MAX_DIMS);
        end = t->end;
        check_tensor(s, t);
    }
    wf_safetensors_free(s);
    return 0;
}

/* -- the mutator --------------------------------------------------------------------------- */

enum { LENGTH_BYTES = 8, MAX_ELEMENTS = 512 };

/* Returns the header of a file, or NULL if it is not JSON. */
static json_t *load_header(const uint8_t *data, size_t size, size_t *data_start)
{
    uint64_t n = 0;
    for (size_t i = LENGTH_BYTES; size >= LENGTH_BYTES && i-- > 0;)
        n = n << 8 | data[i];
    if (size < LENGTH_BYTES || n > size - LENGTH_BYTES)
        return NULL;
    *data_start = LENGTH_BYTES + (size_t)n;
    return json_loadb((const char *)data + LENGTH_BYTES, (size_t)n, 0, NULL);
}

/* Returns the bits of an element.  The first number in the name of a type is its size: F32, BF16,
 * F8_E4M3.  BOOL has none. */
static uint64_t type_bits(const json_t *tensor)
{
    const char *type = json_string_value(json_object_get(tensor, "dtype"));
    const char *digits = type == NULL ? NULL : strpbrk(type, "123456789");
    unsigned long bits = digits == NULL ? 8 : strtoul(digits, NULL, 10);
    return bits <= 64 ? bits : 64;
}

/* Sets the offsets of all tensors, one after the other, and returns the size of the data. */
static size_t place_tensors(json_t *header)
{
    const char *name;
    json_t *tensor;
    uint64_t at = 0;
    json_object_foreach(header, name, tensor)
    {
        if (strcmp(name, "__metadata__") == 0 || !json_is_object(tensor))
            continue;
        uint64_t bytes = count_elements(tensor, MAX_ELEMENTS) * type_bits(tensor) / 8;
        json_object_set_new(tensor, "data_offsets",
                            json_pack("[I,I]", (json_int_t)at, (json_int_t)(at + bytes)));
        at += bytes;
    }
    return (size_t)at;
}

/* Writes the header length, the header and the data, which is repeated if it is too short. */
static size_t write_file(uint8_t *data, size_t max_size, const json_t *header,
                         const uint8_t *values, size_t n_values, size_t n_data)
{
    char *text = json_dumps(header, JSON_COMPACT);
    size_t n = text == NULL ? 0 : strlen(text), at = LENGTH_BYTES + n;
    bool fits = text != NULL && at <= max_size && n_data <= max_size - at;
    if (fits) {
        for (size_t i = 0; i < LENGTH_BYTES; i++)
            data[i] = (uint8_t)((uint64_t)n >> 8 * i);
        memcpy(data + LENGTH_BYTES, text, n);
        for (size_t i = 0; i < n_data; i++)
            data[at + i] = n_values > 0 ? values[i % n_values] : (uint8_t)i;
    }
    free(text);
    return fits ? at + n_data : 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    struct random_numbers r = {seed, 0};
    size_t start = 0, n = 0;
    json_t *header = random_below(&r, 8) == 0 ? NULL : load_header(data, size, &start);
    if (header == NULL)
        return LLVMFuzzerMutate(data, size, max_size);

    /* The values are copied, because the file is written over them. */
    size_t n_values = size - start;
    uint8_t *values = malloc(n_values + 1);
    require(values != NULL);
    memcpy(values, data + start, n_values);
    edit_json(header, &r);
    size_t n_data = random_below(&r, 8) == 0 ? n_values : place_tensors(header);
    n = write_file(data, max_size, header, values, n_values, n_data);

    free(values);
    json_decref(header);
    return n > 0 ? n : LLVMFuzzerMutate(data, size, max_size);
}
