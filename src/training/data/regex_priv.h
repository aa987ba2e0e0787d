/* The compiled form of a regular expression, for the files that compile and match it. */
#ifndef TRAINING_DATA_REGEX_PRIV_H
#define TRAINING_DATA_REGEX_PRIV_H

#include <stdint.h>

#include "training/data/regex.h"
#include "training/data/unicode.h"

enum {
    WF_REGEX_MAX_ITEMS = 256,
    WF_REGEX_MAX_RANGES = 256,
    WF_REGEX_MAX_GROUPS = 64,
    WF_REGEX_ENDLESS = INT32_MAX,
};

struct wf_regex_range {
    int32_t first, last;
};

/* A class of characters: the union of its parts, or the complement of the union. */
struct wf_regex_class {
    wf_category_set categories;
    bool space, not_space; /* \s and \S */
    bool negated;
    uint64_t ascii[2]; /* bit c: the class contains the ASCII character c */
    uint16_t first_range, n_ranges;
};

enum wf_regex_kind { WF_REGEX_CLASS, WF_REGEX_GROUP, WF_REGEX_AHEAD, WF_REGEX_NOT_AHEAD };

/* An element of a sequence. */
struct wf_regex_item {
    enum wf_regex_kind kind;
    bool possessive;
    int32_t min, max;
    uint16_t index; /* of the class or group */
    uint16_t next;  /* the next item of the sequence; WF_REGEX_MAX_ITEMS: none */
};

/* Alternatives: the first item of each is stored in `starts`. */
struct wf_regex_group {
    uint16_t starts[32]; /* WF_REGEX_MAX_ITEMS: an empty alternative */
    uint16_t n;
};

struct wf_regex {
    char *pattern; /* owned */
    struct wf_regex_item items[WF_REGEX_MAX_ITEMS];
    struct wf_regex_class classes[WF_REGEX_MAX_ITEMS];
    struct wf_regex_range ranges[WF_REGEX_MAX_RANGES];
    struct wf_regex_group groups[WF_REGEX_MAX_GROUPS]; /* group 0 is the whole expression */
    uint16_t n_items, n_classes, n_ranges, n_groups;
    uint64_t first[2]; /* bit c: a match may start with the ASCII character c */
};

/* Returns true if a class contains a character. */
bool wf_regex_class_has(const struct wf_regex *r, const struct wf_regex_class *k, int32_t c);

#endif
