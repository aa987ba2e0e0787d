/* Small vocabularies for tests, a slow reference encoder, and a check of decoded tokens. */
#ifndef TESTS_DATA_TOKEN_HELP_H
#define TESTS_DATA_TOKEN_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/text.h"
#include "weft/tokenizer.h"

enum { MAX_MERGES = 200, MAX_PIECE = 32 };

/* Token 256 + i is left[i] followed by right[i]. */
struct merges {
    size_t n;
    char left[MAX_MERGES][MAX_PIECE], right[MAX_MERGES][MAX_PIECE];
};

/* Returns true for bytes that represent themselves; these come first in the order
 * of the ids. */
static inline bool own_char(int b)
{
    return (b > 32 && b < 127) || (b > 160 && b != 173);
}

static inline int32_t byte_id(int byte)
{
    int32_t id = 0;
    for (int b = 0; b < 256; b++)
        id += own_char(byte) ? own_char(b) && b < byte : own_char(b) || b < byte;
    return id;
}

static inline void put_chars(struct wf_text *out, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        int b = (unsigned char)bytes[i], c = b;
        if (!own_char(b)) {
            c = 256;
            for (int k = 0; k < b; k++)
                c += !own_char(k);
        }
        if (c == '"' || c == '\\')
            wf_text_addc(out, '\\');
        if (c < 128) {
            wf_text_addc(out, (char)c);
        } else {
            wf_text_addc(out, (char)(0xC0 | c >> 6));
            wf_text_addc(out, (char)(0x80 | (c & 63)));
        }
    }
}

static inline void put_vocab(struct wf_text *out, const struct merges *m)
{
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        wf_text_adds(out, b == 0 ? "\"" : ",\"");
        put_chars(out, &byte, 1);
        wf_text_addf(out, "\":%d", (int)byte_id(b));
    }
    for (size_t i = 0; i < m->n; i++) {
        wf_text_adds(out, ",\"");
        put_chars(out, m->left[i], strlen(m->left[i]));
        put_chars(out, m->right[i], strlen(m->right[i]));
        wf_text_addf(out, "\":%zu", 256 + i);
    }
}

static inline void put_merges(struct wf_text *out, const struct merges *m, bool as_lists)
{
    for (size_t i = 0; i < m->n; i++) {
        wf_text_adds(out, i == 0 ? "" : ",");
        wf_text_adds(out, as_lists ? "[\"" : "\"");
        put_chars(out, m->left[i], strlen(m->left[i]));
        wf_text_adds(out, as_lists ? "\",\"" : " ");
        put_chars(out, m->right[i], strlen(m->right[i]));
        wf_text_adds(out, as_lists ? "\"]" : "\"");
    }
}

#define GPT2_STEP "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define LLAMA3_STEP                                                                            \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"    \
    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| ?"  \
    "[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},"    \
    "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","                     \
    "\"add_prefix_space\":false,\"use_regex\":false}]}"

/* Appends a whole tokenizer.json; `more` is added to the model: ",\"ignore_merges\":true". */
static inline void put_tokenizer(struct wf_text *out, const struct merges *m, bool as_lists,
                                 const char *step, const char *more)
{
    wf_text_addf(out,
                 "{\"added_tokens\":[{\"id\":%zu,\"content\":\"<|endoftext|>\",\"special\":"
                 "true}],\"normalizer\":null,\"pre_tokenizer\":%s,\"decoder\":{\"type\":"
                 "\"ByteLevel\"},\"model\":{\"type\":\"BPE\"%s,\"vocab\":{",
                 256 + m->n, step, more);
    put_vocab(out, m);
    wf_text_adds(out, "},\"merges\":[");
    put_merges(out, m, as_lists);
    wf_text_adds(out, "]}}");
}

/* Creates random merges of existing tokens into new ones, as training might. */
static inline void random_merges(struct merges *m, size_t n, const char *letters, uint64_t seed)
{
    uint32_t n_letters = (uint32_t)strlen(letters);
    m->n = 0;
    for (uint64_t k = 0; m->n < n; k++) {
        char sides[2][MAX_PIECE], both[2 * MAX_PIECE];

        for (uint64_t s = 0; s < 2; s++) {
            uint32_t pick =
                wf_random_below(seed, s, k, n_letters + (uint32_t)(m->n < 20 ? m->n : 20));
            if (pick < n_letters)
                snprintf(sides[s], MAX_PIECE, "%c", letters[pick]);
            else
                snprintf(sides[s], MAX_PIECE, "%.15s%.15s", m->left[pick - n_letters],
                         m->right[pick - n_letters]);
        }

        bool is_new = strlen(sides[0]) + strlen(sides[1]) < 16;
        snprintf(both, sizeof both, "%s%s", sides[0], sides[1]);
        for (size_t i = 0; i < m->n; i++) {
            char existing[2 * MAX_PIECE];
            snprintf(existing, sizeof existing, "%s%s", m->left[i], m->right[i]);
            is_new = is_new && strcmp(existing, both) != 0;
        }

        if (is_new) {
            memcpy(m->left[m->n], sides[0], MAX_PIECE);
            memcpy(m->right[m->n++], sides[1], MAX_PIECE);
        }
    }
}

/* Encodes one piece by repeatedly merging the pair of the lowest rank, the leftmost
 * of equal ones. */
static inline size_t slow_encode(const struct merges *m, const char *piece, size_t len,
                                 int32_t *out)
{
    size_t *begin = malloc((len + 1) * sizeof *begin), n = len;
    for (size_t i = 0; i < len; i++) {
        out[i] = byte_id((unsigned char)piece[i]);
        begin[i] = i;
    }
    begin[len] = len;

    for (;;) {
        size_t rank = m->n, at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (size_t r = 0; r < rank; r++) {
                size_t a = strlen(m->left[r]), b = strlen(m->right[r]);
                if (begin[i + 1] - begin[i] == a && begin[i + 2] - begin[i + 1] == b &&
                    memcmp(piece + begin[i], m->left[r], a) == 0 &&
                    memcmp(piece + begin[i + 1], m->right[r], b) == 0) {
                    rank = r;
                    at = i;
                }
            }

        if (rank == m->n)
            break;

        out[at] = (int32_t)(256 + rank);
        memmove(out + at + 1, out + at + 2, (n - at - 2) * sizeof *out);
        memmove(begin + at + 1, begin + at + 2, (n - at - 1) * sizeof *begin);
        n--;
    }

    free(begin);
    return n;
}

/* Fails the test unless the bytes of the tokens, one after the other, are the text. */
static inline void assert_decodes(const struct weft_tokenizer *t,
                                  const struct weft_tokens *tokens, const char *text,
                                  size_t len)
{
    size_t at = 0;
    for (size_t i = 0; i < tokens->len; i++) {
        size_t n;
        const char *bytes = weft_tokenizer_token(t, tokens->at[i], &n);
        assert_non_null(bytes);
        assert_in_range(n, 0, len - at);
        assert_memory_equal(bytes, text + at, n);
        at += n;
    }
    assert_int_equal(at, len);
}

#endif
