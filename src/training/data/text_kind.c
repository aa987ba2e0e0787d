/* Recognizes what a file is by its first bytes: text, JSON or binary data. */
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/size.h"
#include "config/json_input.h"
#include "training/data/text_source.h"
#include "training/data/tokenizer.h"

enum { HEAD_BYTES = 1 << 16 };

/* Formats that are recognized by bytes at a fixed position. */
static const struct {
    const char *what;
    size_t at, n;
    const char *bytes;
} formats[] = {
    /* the first one is Parquet: see wf_text_find_kind() */
    {"a Parquet file", 0, 4, "PAR1"},
    {"an Arrow file", 0, 6, "ARROW1"},
    {"a ZIP archive", 0, 4, "PK\3\4"},
    {"a 7z archive", 0, 4, "7z\xBC\xAF"},
    {"a tar archive", 257, 5, "ustar"},
    {"a PDF document", 0, 5, "%PDF-"},
    {"a PNG image", 0, 4, "\x89PNG"},
    {"a JPEG image", 0, 3, "\xFF\xD8\xFF"},
    {"an HDF5 file", 0, 4, "\x89HDF"},
    {"a NumPy array", 0, 6, "\x93NUMPY"},
    {"a SQLite database", 0, 13, "SQLite format"},
    {"an ELF program", 0, 4,
     "\x7F"
     "ELF"},
    {"text in UTF-16 (expected UTF-8)", 0, 2, "\xFF\xFE"},
    {"text in UTF-16 (expected UTF-8)", 0, 2, "\xFE\xFF"},
};

static const char *find_binary(const char *at, size_t n)
{
    for (size_t i = 0; i < WEFT_LEN(formats); i++)
        if (formats[i].at + formats[i].n <= n &&
            memcmp(at + formats[i].at, formats[i].bytes, formats[i].n) == 0)
            return formats[i].what;
    return memchr(at, '\0', n) != NULL ? "binary data (it has a zero byte)" : NULL;
}

/* Returns true if the name, without the ending of a compression, ends in .jsonl, .ndjson or
 * .json. */
static bool has_json_name(const char *path)
{
    static const char *const packed[] = {".gz", ".zst", ".xz", ".bz2"};
    static const char *const names[] = {".jsonl", ".ndjson", ".json"};
    size_t len = strlen(path);
    for (size_t i = 0; i < WEFT_LEN(packed); i++) {
        size_t n = strlen(packed[i]);
        if (len > n && strcasecmp(path + len - n, packed[i]) == 0) {
            len -= n;
            break;
        }
    }
    for (size_t i = 0; i < WEFT_LEN(names); i++) {
        size_t n = strlen(names[i]);
        if (len >= n && strncasecmp(path + len - n, names[i], n) == 0)
            return true;
    }
    return false;
}

/* The first bytes of a file. */
struct text_head {
    const char *path, *at; /* borrowed */
    size_t n;
    bool continues; /* the file has more bytes */
};

/* Sets *out to whether the bytes `begin` .. `end` - 1 are a JSON value, or the beginning of one
 * if they end with the head and the file continues. */
static enum weft_status is_json(const struct text_head *h, size_t begin, size_t end,
                                size_t flags, bool *out, struct weft_error *err)
{
    json_error_t why;
    json_t *root = NULL;
    bool continues = h->continues && end == h->n;
    const char *at = h->at + begin;
    size_t n = end - begin;
    WEFT_TRY(wf_json_load(at, continues ? wf_utf8_complete(at, n) : n,
                          flags | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, h->path, &root,
                          &why, err));
    *out = root != NULL ||
           (continues && json_error_code(&why) == json_error_premature_end_of_input);
    json_decref(root);
    return WEFT_OK;
}

static size_t skip_space(const char *at, size_t n, size_t i)
{
    while (i < n && strchr(" \t\r\n", at[i]) != NULL && at[i] != '\0')
        i++;
    return i;
}

/* Finds out whether the bytes from `begin` on, which is not a space, are JSON records. */
static enum weft_status find_json(const struct text_head *h, size_t begin,
                                  enum wf_text_kind *out, struct weft_error *err)
{
    bool found = false;
    *out = WF_TEXT_PLAIN;
    if (begin == h->n)
        return WEFT_OK;
    const char *newline = memchr(h->at + begin, '\n', h->n - begin);
    size_t line_end = newline == NULL ? h->n : (size_t)(newline - h->at);
    size_t inner = skip_space(h->at, h->n, begin + 1);

    /* A line with a complete object is a record. */
    if (h->at[begin] == '{') {
        WEFT_TRY(is_json(h, begin, line_end, 0, &found, err));
        *out = found ? WF_TEXT_JSON_LINES : WF_TEXT_PLAIN;
    } else if (h->at[begin] == '[' && inner < h->n && h->at[inner] == '{') {
        WEFT_TRY(is_json(h, inner, h->n, JSON_DISABLE_EOF_CHECK, &found, err));
        *out = found ? WF_TEXT_JSON : WF_TEXT_PLAIN;
    }
    return WEFT_OK;
}

enum weft_status wf_text_find_kind(const char *path, struct wf_stream *s,
                                   enum wf_text_format format, struct wf_text_found *out,
                                   struct weft_error *err)
{
    const char *at = NULL;
    size_t n = 0;
    WEFT_TRY(wf_stream_peek(s, HEAD_BYTES, &at, &n, err));
    const struct text_head head = {
        .path = path, .at = at, .n = n, .continues = n == HEAD_BYTES};
    size_t bom = n >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    bool must_be_json =
        format == WF_TEXT_FORMAT_JSON || (format == WF_TEXT_FORMAT_AUTO && has_json_name(path));

    *out = (struct wf_text_found){
        .kind = WF_TEXT_BINARY, .what = find_binary(at, n), .empty = n == 0};
    out->parquet = out->what == formats[0].what;
    if (out->what != NULL)
        return WEFT_OK;
    size_t begin = skip_space(at, n, bom);
    out->kind = WF_TEXT_PLAIN;
    if (format != WF_TEXT_FORMAT_TEXT)
        WEFT_TRY(find_json(&head, begin, &out->kind, err));
    if (out->kind != WF_TEXT_PLAIN || !must_be_json)
        return WEFT_OK;

    /* The first line may be a bad record.  A value that spans lines is read as a whole. */
    bool whole = begin < n && at[begin] == '[';
    if (begin < n && !whole)
        WEFT_TRY(is_json(&head, begin, n, JSON_DISABLE_EOF_CHECK, &whole, err));
    out->kind = whole ? WF_TEXT_JSON : WF_TEXT_JSON_LINES;
    return WEFT_OK;
}
