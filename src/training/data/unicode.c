/* Decodes characters and finds their categories with utf8proc.  unicode_normalize.c implements
 * normalization. */
#include "training/data/unicode.h"

#include <string.h>
#include <utf8proc.h>

#include "base/error.h"
#include "training/data/unicode_tables.h"

int32_t wf_unicode_at(const unsigned char *s, size_t len, size_t at, size_t *n)
{
    utf8proc_int32_t c;
    size_t n_max = len - at < 4 ? len - at : 4;
    utf8proc_ssize_t got = utf8proc_iterate(s + at, (utf8proc_ssize_t)n_max, &c);
    if (got <= 0) {
        *n = 1;
        return WF_NOT_A_CHAR;
    }
    *n = (size_t)got;
    return c;
}

size_t wf_unicode_before(const unsigned char *s, size_t begin, size_t at)
{
    size_t n;
    for (size_t back = 2; back <= 4 && back <= at - begin; back++)
        if (s[at - back] >= 0xC2 && wf_unicode_at(s, at, at - back, &n) != WF_NOT_A_CHAR &&
            n == back)
            return at - back;
    return at - 1;
}

bool wf_unicode_is_space(int32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= '\t' && c <= '\r');
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/* -- general categories -------------------------------------------------------------------- */

#define SET(category) ((wf_category_set)1 << UTF8PROC_CATEGORY_##category)

static const struct category {
    const char name[3];
    wf_category_set set;
} categories[] = {
    {"L", SET(LU) | SET(LL) | SET(LT) | SET(LM) | SET(LO)},
    {"M", SET(MN) | SET(MC) | SET(ME)},
    {"N", SET(ND) | SET(NL) | SET(NO)},
    {"P", SET(PC) | SET(PD) | SET(PS) | SET(PE) | SET(PI) | SET(PF) | SET(PO)},
    {"S", SET(SM) | SET(SC) | SET(SK) | SET(SO)},
    {"Z", SET(ZS) | SET(ZL) | SET(ZP)},
    {"Lu", SET(LU)},
    {"Ll", SET(LL)},
    {"Lt", SET(LT)},
    {"Lm", SET(LM)},
    {"Lo", SET(LO)},
    {"Mn", SET(MN)},
    {"Mc", SET(MC)},
    {"Me", SET(ME)},
    {"Nd", SET(ND)},
    {"Nl", SET(NL)},
    {"No", SET(NO)},
    {"Pc", SET(PC)},
    {"Pd", SET(PD)},
    {"Ps", SET(PS)},
    {"Pe", SET(PE)},
    {"Pi", SET(PI)},
    {"Pf", SET(PF)},
    {"Po", SET(PO)},
    {"Sm", SET(SM)},
    {"Sc", SET(SC)},
    {"Sk", SET(SK)},
    {"So", SET(SO)},
    {"Zs", SET(ZS)},
};

static utf8proc_category_t category_of(int32_t c)
{
    utf8proc_category_t found = utf8proc_category(c);
    if (found != UTF8PROC_CATEGORY_CN)
        return found;
    for (size_t i = 0; i < WEFT_LEN(new_characters) && c >= new_characters[i].first; i++)
        if (c <= new_characters[i].last)
            return new_characters[i].category;
    return UTF8PROC_CATEGORY_CN;
}

wf_category_set wf_unicode_category(int32_t c)
{
    return c == WF_NOT_A_CHAR ? 0 : (wf_category_set)1 << category_of(c);
}

bool wf_unicode_find_category(const char *name, size_t len, wf_category_set *out)
{
    for (size_t i = 0; i < WEFT_LEN(categories); i++)
        if (strlen(categories[i].name) == len && memcmp(categories[i].name, name, len) == 0) {
            *out = categories[i].set;
            return true;
        }
    return false;
}

enum wf_char_class wf_unicode_class(int32_t c)
{
    if (c == WF_NOT_A_CHAR)
        return WF_CHAR_OTHER;
    switch (category_of(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return WF_CHAR_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return WF_CHAR_NUMBER;
    default:
        return wf_unicode_is_space(c) ? WF_CHAR_SPACE : WF_CHAR_OTHER;
    }
}

bool wf_unicode_is_punctuation(int32_t c)
{
    const wf_category_set symbols = c < 0x80 ? categories[4].set : 0;
    return (wf_unicode_category(c) & (categories[3].set | symbols)) != 0;
}

bool wf_unicode_is_word(int32_t c)
{
    const wf_category_set words =
        categories[0].set | categories[1].set | SET(ND) | SET(NL) | SET(PC);
    bool joiner = c == 0x200C || c == 0x200D;
    bool circled = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                   (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
    return joiner || circled || (wf_unicode_category(c) & words) != 0;
}
