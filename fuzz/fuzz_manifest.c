/* Parses any bytes as the manifest of a checkpoint, unchanged and with the correct hash
 * appended.  Checks that an accepted manifest is unchanged after printing and parsing. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

static void parse(const char *bytes, size_t n)
{
    struct wf_manifest *m = NULL;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_manifest_parse(bytes, n, "fuzz", &m, &err);
    if (st != WEFT_OK) {
        check_error(st, &err);
        return;
    }
    check_again(m);
    st = wf_manifest_check(m, "fuzz", &err);
    if (st != WEFT_OK)
        check_error(st, &err);
    wf_manifest_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parse((const char *)data, size);
    struct wf_text text = {0};
    wf_text_add(&text, (const char *)data, size);
    wf_text_adds(&text, ",\n\"xxh3\":\"");
    if (!text.failed) {
        struct wf_xxh3 hash = wf_xxh3_bytes(text.at, text.len);
        wf_text_adds(&text, hash.hex);
        wf_text_adds(&text, "\"}\n");
        parse(text.at, text.len);
    }
    wf_text_release(&text);
    return 0;
}
