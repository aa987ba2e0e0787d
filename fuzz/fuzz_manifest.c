/* Parses any bytes as the manifest of a checkpoint, unchanged and with the correct hash
 * appended.  Checks that an accepted manifest is unchanged after printing and parsing.  The
 * mutator edits values and keeps sizes, offsets and the hash correct. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mutate.h"
#include "require.h"
#include "training/ckpt/store_priv.h"

static void check_error(enum weft_status st, const struct weft_error *err)
{
    require(st == WEFT_CKPT && err->status == st && err->msg[0] != '\0');
    for (const char *c = err->msg; *c != '\0'; c++)
        require(*c >= ' ' && *c <= '~');
}

static void print(const struct wf_manifest *m, struct wf_text *text)
{
    struct weft_error err;
    require(wf_manifest_print(m, text, &err) == WEFT_OK);
}

/* Checks that every piece is within its tensor and its file. */
static void check_pieces(const struct wf_manifest *m)
{
    for (size_t i = 0; i < m->n_params; i++)
        for (size_t k = 0; k < m->params[i].n_pieces; k++) {
            const struct wf_manifest_piece *p = &m->params[i].pieces[k];
            require(p->file < m->n_files && p->at >= m->files[p->file].header_bytes);
            require(p->n > 0 && p->at + p->n * 4 <= m->files[p->file].bytes);
            require(p->begin + p->n <= m->params[i].info.n);
        }
}

static void check_again(struct wf_manifest *m)
{
    struct wf_text first = {0}, second = {0};
    struct wf_manifest *again = NULL;
    struct weft_error err = {.msg = ""};
    check_pieces(m);
    print(m, &first);
    require(wf_manifest_parse(first.at, first.len, "again", &again, &err) == WEFT_OK);
    print(again, &second);
    require(first.len == second.len && memcmp(first.at, second.at, first.len) == 0);
    first.at[first.len / 2] ^= 4;
    struct wf_manifest *none = NULL;
    require(wf_manifest_parse(first.at, first.len, "again", &none, &err) == WEFT_CKPT);
    wf_manifest_free(again);
    wf_text_release(&first);
    wf_text_release(&second);
}

/* Returns false if the hash does not match. */
static bool parse(const char *bytes, size_t n)
{
    struct wf_manifest *m = NULL;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_manifest_parse(bytes, n, "fuzz", &m, &err);
    if (st != WEFT_OK) {
        check_error(st, &err);
        return strstr(err.msg, "its hash does not match") == NULL;
    }
    check_again(m);
    st = wf_manifest_check(m, "fuzz", &err);
    if (st != WEFT_OK)
        check_error(st, &err);
    wf_manifest_free(m);
    return true;
}

static void add_hash(struct wf_text *text)
{
    wf_text_adds(text, ",\n\"xxh3\":\"");
    require(!text->failed);
    struct wf_xxh3 hash = wf_xxh3_bytes(text->at, text->len);
    wf_text_adds(text, hash.hex);
    wf_text_adds(text, "\"}\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (parse((const char *)data, size))
        return 0;
    struct wf_text text = {0};
    wf_text_add(&text, (const char *)data, size);
    add_hash(&text);
    parse(text.at, text.len);
    wf_text_release(&text);
    return 0;
}

/* -- the mutator --------------------------------------------------------------------------- */

enum { MAX_ELEMENTS = 1 << 20 };

/* Reads a manifest without its hash.  Inputs may lack the hash and the brace after it. */
static json_t *load(const uint8_t *data, size_t size)
{
    struct wf_text text = {0};
    wf_text_add(&text, (const char *)data, size);
    wf_text_addc(&text, '}');
    require(!text.failed);
    json_t *top = json_loadb(text.at, size, 0, NULL);
    if (top == NULL)
        top = json_loadb(text.at, text.len, 0, NULL);
    wf_text_release(&text);
    json_object_del(top, "xxh3");
    return top;
}

static bool same_field(const json_t *a, const json_t *b)
{
    return json_equal(json_object_get(a, "what"), json_object_get(b, "what"));
}

/* Divides the elements of a parameter among the pieces of each field. */
static void divide_elements(json_t *param)
{
    json_t *pieces = json_object_get(param, "pieces"), *piece;
    size_t i;
    json_array_foreach(pieces, i, piece)
    {
        json_int_t begin = 0, n_left = (json_int_t)count_elements(param, MAX_ELEMENTS);
        bool last = true;
        for (size_t k = 0; k < i; k++)
            if (same_field(json_array_get(pieces, k), piece)) {
                json_t *count = json_object_get(json_array_get(pieces, k), "count");
                begin += json_integer_value(count);
            }
        for (size_t k = i + 1; k < json_array_size(pieces); k++)
            last = last && !same_field(json_array_get(pieces, k), piece);
        n_left -= begin;
        json_object_set_new(piece, "begin", json_integer(begin));
        json_object_set_new(piece, "count", json_integer(last ? n_left : (n_left + 1) / 2));
    }
}

/* Places the pieces in their files, one after the other, and sets the sizes of the files. */
static void place_pieces(json_t *top)
{
    json_t *files = json_object_get(top, "files"), *file, *param, *piece;
    size_t i, k, f, n_files = json_array_size(files);
    json_array_foreach(files, f, file)
    {
        json_t *header = json_object_get(file, "header_bytes");
        json_int_t at = json_integer_value(header);
        at = at >= 0 && at < MAX_ELEMENTS ? at : 8;
        json_object_set_new(file, "header_bytes", json_integer(at));
        json_array_foreach(json_object_get(top, "params"), i, param)
        {
            json_array_foreach(json_object_get(param, "pieces"), k, piece)
            {
                json_int_t of = json_integer_value(json_object_get(piece, "file"));
                if ((uint64_t)of % n_files != f)
                    continue;
                json_object_set_new(piece, "file", json_integer((json_int_t)f));
                json_object_set_new(piece, "at", json_integer(at));
                at += 4 * json_integer_value(json_object_get(piece, "count"));
            }
        }
        json_object_set_new(file, "bytes", json_integer(at));
    }
}

static void make_consistent(json_t *top)
{
    json_t *param;
    size_t i;
    json_array_foreach(json_object_get(top, "params"), i, param)
    {
        divide_elements(param);
    }
    place_pieces(top);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    struct random_numbers r = {seed, 0};
    struct wf_text text = {0};
    size_t n = 0;
    json_t *top = random_below(&r, 8) == 0 ? NULL : load(data, size);
    if (top == NULL)
        return LLVMFuzzerMutate(data, size, max_size);

    edit_json(top, &r);
    if (random_below(&r, 4) != 0)
        make_consistent(top);
    char *json = json_dumps(top, JSON_COMPACT);
    json_decref(top);
    if (json != NULL) {
        wf_text_add(&text, json, strlen(json) - 1); /* the hash comes before the last brace */
        add_hash(&text);
        n = put_text(data, max_size, text.at, text.len);
    }
    wf_text_release(&text);
    free(json);
    return n > 0 ? n : LLVMFuzzerMutate(data, size, max_size);
}
