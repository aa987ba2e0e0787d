/* Recognizes what a file is by its first bytes: text, JSON or binary data. */
#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/size.h"
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

/* Returns true if the bytes are a JSON value, or the beginning of one if the file continues
 * after them. */
static bool is_json(const char *at, size_t n, size_t flags, bool continues)
{
    json_error_t why;
    json_t *root = json_loadb(at, continues ? wf_utf8_complete(at, n) : n,
                              flags | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
    bool valid = root != NULL ||
                 (continues && json_error_code(&why) == json_error_premature_end_of_input);
    json_decref(root);
    return valid;
}

static size_t skip_space(const char *at, size_t n, size_t i)
{
    while (i < n && strchr(" \t\r\n", at[i]) != NULL && at[i] != '\0')
        i++;
    return i;
}

/* Finds out whether the first bytes of a file are JSON records.  `continues` is true if the
 * file has more bytes. */
static enum wf_text_kind find_json(const char *at, size_t n, bool continues)
{
    size_t begin = skip_space(at, n, 0);
    if (begin == n)
        return WF_TEXT_PLAIN;
    const char *newline = memchr(at + begin, '\n', n - begin);
    size_t line = newline == NULL ? n - begin : (size_t)(newline - at) - begin;
    size_t inner = skip_space(at, n, begin + 1);

    /* A line with a complete object is a record. */
    if (at[begin] == '{' && is_json(at + begin, line, 0, continues && newline == NULL))
        return WF_TEXT_JSON_LINES;
    if (at[begin] == '[' && inner < n && at[inner] == '{' &&
        is_json(at + inner, n - inner, JSON_DISABLE_EOF_CHECK, continues))
        return WF_TEXT_JSON;
    return WF_TEXT_PLAIN;
}

enum weft_status wf_text_find_kind(const char *path, struct wf_stream *s,
                                   enum wf_text_format format, struct wf_text_found *out,
                                   struct weft_error *err)
{
    const char *at = NULL;
    size_t n = 0;
    WEFT_TRY(wf_stream_peek(s, HEAD_BYTES, &at, &n, err));
    bool continues = n == HEAD_BYTES;
    size_t bom = n >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    bool must_be_json =
        format == WF_TEXT_FORMAT_JSON || (format == WF_TEXT_FORMAT_AUTO && has_json_name(path));

    *out = (struct wf_text_found){
        .kind = WF_TEXT_BINARY, .what = find_binary(at, n), .empty = n == 0};
    out->parquet = out->what == formats[0].what;
    if (out->what != NULL)
        return WEFT_OK;
    out->kind =
        format == WF_TEXT_FORMAT_TEXT ? WF_TEXT_PLAIN : find_json(at + bom, n - bom, continues);
    if (out->kind != WF_TEXT_PLAIN || !must_be_json)
        return WEFT_OK;

    /* The first line may be a bad record.  A value that spans lines is read as a whole. */
    size_t begin = skip_space(at, n, bom);
    bool whole = begin < n && (at[begin] == '[' || is_json(at + begin, n - begin,
                                                           JSON_DISABLE_EOF_CHECK, continues));
    out->kind = whole ? WF_TEXT_JSON : WF_TEXT_JSON_LINES;
    return WEFT_OK;
}
