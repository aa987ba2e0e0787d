/* Data structures of templates: values, nodes, and the state of a parser and of a run. */
#ifndef TRAINING_CHAT_TEMPLATE_PRIV_H
#define TRAINING_CHAT_TEMPLATE_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "training/chat/template.h"

enum {
    WF_TPL_MAX_DEPTH = 100,                /* nesting of expressions, blocks and calls */
    WF_TPL_MAX_STEPS = 20 * 1000 * 1000,   /* nodes that a run may evaluate */
    WF_TPL_MAX_MEMORY = 256 * 1024 * 1024, /* bytes of values of a run */
    WF_TPL_MAX_OUTPUT = 64 * 1024 * 1024,  /* bytes of output */
    WF_TPL_MAX_ARGS = 8,                   /* arguments of a call */
};

/* -- memory -------------------------------------------------------------------------------- */

struct wf_tpl_chunk;

/* Memory that is freed as a whole.  A zeroed arena is empty. */
struct wf_tpl_arena {
    struct wf_tpl_chunk *chunks; /* owned */
    size_t used;                 /* bytes of all chunks */
};

/* Returns zeroed memory, or NULL if there is none or the arena would exceed
 * WF_TPL_MAX_MEMORY. */
void *wf_tpl_alloc(struct wf_tpl_arena *a, size_t bytes);
void wf_tpl_arena_release(struct wf_tpl_arena *a);

/* -- values -------------------------------------------------------------------------------- */

enum wf_tpl_kind {
    WF_TPL_UNDEFINED, /* `s` is the name that was looked up */
    WF_TPL_NONE,
    WF_TPL_BOOL,
    WF_TPL_INT,
    WF_TPL_FLOAT,
    WF_TPL_STRING,
    WF_TPL_LIST, /* also tuples */
    WF_TPL_DICT, /* also namespaces */
    WF_TPL_LOOP, /* the variable `loop` */
    WF_TPL_MACRO,
    WF_TPL_METHOD,   /* a method of `self` */
    WF_TPL_FUNCTION, /* a global function */
};

struct wf_tpl_string {
    const char *at; /* borrowed from the arena or the template; UTF-8 */
    size_t len;
};

struct wf_tpl_value {
    enum wf_tpl_kind kind;
    union {
        bool b;
        int64_t i;
        double f;
        struct wf_tpl_string s; /* also the name of a method, a function, an undefined value */
        struct wf_tpl_list *list;
        struct wf_tpl_dict *dict;
        struct wf_tpl_loop *loop;
        const struct wf_tpl_node *macro;
    };
    struct wf_tpl_value *self; /* of a method */
};

struct wf_tpl_list {
    struct wf_tpl_value *at;
    size_t n, cap;
};

/* Entries in the order of insertion; keys are unique. */
struct wf_tpl_dict {
    struct wf_tpl_value *keys, *values;
    size_t n, cap;
    bool is_namespace; /* its entries may be set */
};

struct wf_tpl_loop {
    const struct wf_tpl_list *items;
    size_t index; /* of the current item */
    size_t depth; /* number of loops around this one */
};

/* -- the tree ------------------------------------------------------------------------------ */

enum wf_tpl_op {
    /* statements */
    WF_TPL_TEXT,
    WF_TPL_PRINT,      /* a */
    WF_TPL_IF,         /* a: condition, list: body, b: the else part, an IF or a BODY */
    WF_TPL_BODY,       /* list */
    WF_TPL_FOR,        /* a: target, b: items, c: condition or NULL, list: body, d: else BODY */
    WF_TPL_SET,        /* a: target, b: value */
    WF_TPL_SET_BLOCK,  /* a: target, list: body */
    WF_TPL_MACRO_DEF,  /* value: name, a: list of ARG, list: body */
    WF_TPL_GENERATION, /* list: body */
    WF_TPL_BREAK,
    WF_TPL_CONTINUE,
    /* expressions */
    WF_TPL_LITERAL, /* value */
    WF_TPL_NAME,    /* value */
    WF_TPL_MAKE_LIST,
    WF_TPL_MAKE_DICT, /* list: keys, each with its value in `a` */
    WF_TPL_ATTRIBUTE, /* a.value */
    WF_TPL_ITEM,      /* a[b] */
    WF_TPL_SLICE,     /* a[b:c:d] */
    WF_TPL_CALL,      /* a(list) */
    WF_TPL_FILTER,    /* a|value(list) */
    WF_TPL_TEST,      /* a is value(list) */
    WF_TPL_NOT,
    WF_TPL_NEGATE,
    WF_TPL_BINARY, /* a code b */
    WF_TPL_AND,
    WF_TPL_OR,
    WF_TPL_CHOICE, /* a if b else c */
    WF_TPL_ARG,    /* value: name, or UNDEFINED; a: expression */
};

enum wf_tpl_operator {
    WF_TPL_ADD,
    WF_TPL_SUB,
    WF_TPL_MUL,
    WF_TPL_DIV,
    WF_TPL_FLOOR_DIV,
    WF_TPL_MOD,
    WF_TPL_CONCAT,
    WF_TPL_EQ,
    WF_TPL_NE,
    WF_TPL_LT,
    WF_TPL_LE,
    WF_TPL_GT,
    WF_TPL_GE,
    WF_TPL_IN,
};

struct wf_tpl_node {
    enum wf_tpl_op op;
    uint32_t line;
    enum wf_tpl_operator code;
    struct wf_tpl_value value;
    struct wf_tpl_node *a, *b, *c, *d;
    struct wf_tpl_node *list; /* first of a list of nodes */
    struct wf_tpl_node *next; /* the next node of the list that this node is in */
};

struct wf_template {
    struct wf_tpl_arena arena; /* owns the tree and the source */
    const char *name;
    struct wf_tpl_node *body; /* first statement */
    bool marks_generation;
};

/* -- parsing ------------------------------------------------------------------------------- */

enum wf_tpl_token_kind {
    WF_TPL_TOKEN_NAME,
    WF_TPL_TOKEN_STRING,
    WF_TPL_TOKEN_INT,
    WF_TPL_TOKEN_FLOAT,
    WF_TPL_TOKEN_OPERATOR,
    WF_TPL_TOKEN_END, /* of the tag */
};

struct wf_tpl_token {
    enum wf_tpl_token_kind kind;
    struct wf_tpl_string text; /* as written; of a string, its value */
    struct wf_tpl_value value; /* of numbers */
    uint32_t line;
};

struct wf_tpl_parser {
    struct wf_template *t;
    const char *at, *end; /* unread source */
    uint32_t line;
    bool in_block;      /* the current tag is {% ... %} and not {{ ... }} */
    bool line_starting; /* the last tag ended with a newline */
    size_t brackets;    /* open brackets of the current tag */
    size_t depth;
    size_t n_loops; /* loops around the current statement */
    struct wf_tpl_token token;
    struct wf_tpl_node spare; /* returned if there is no memory */
    enum weft_status status;
    struct weft_error *err;
};

/* Records an error at a line, unless there is one. */
void wf_tpl_fail(struct wf_tpl_parser *p, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns a new node of the current line. */
struct wf_tpl_node *wf_tpl_node_new(struct wf_tpl_parser *p, enum wf_tpl_op op);

/* Reads text up to the next tag.  Returns false at the end of the source.  *tag is '{', '%' or
 * '#', and 0 at the end. */
void wf_tpl_read_text(struct wf_tpl_parser *p, struct wf_tpl_string *text, char *tag);
/* Reads the next token of a tag into p->token. */
void wf_tpl_next(struct wf_tpl_parser *p);
/* Skips a comment, after its beginning. */
void wf_tpl_skip_comment(struct wf_tpl_parser *p);

/* Returns true if the current token is this name or operator. */
bool wf_tpl_token_is(const struct wf_tpl_parser *p, const char *text);
/* Reads the next token if the current one is this name or operator. */
bool wf_tpl_accept(struct wf_tpl_parser *p, const char *text);
/* Reads the next token, or records an error if the current one is another one. */
void wf_tpl_expect(struct wf_tpl_parser *p, const char *text);

/* Parses an expression.  `with_choice` allows "a if b else c". */
struct wf_tpl_node *wf_tpl_parse_expression(struct wf_tpl_parser *p, bool with_choice);
/* Parses an expression or several that are separated by commas, which form a list. */
struct wf_tpl_node *wf_tpl_parse_tuple(struct wf_tpl_parser *p, bool with_choice);
/* Parses a name as a node of kind `op`. */
struct wf_tpl_node *wf_tpl_parse_name(struct wf_tpl_parser *p, enum wf_tpl_op op);
/* Parses the targets of an assignment: names, or one name with an attribute. */
struct wf_tpl_node *wf_tpl_parse_target(struct wf_tpl_parser *p, bool with_attribute);

/* -- running ------------------------------------------------------------------------------- */

struct wf_tpl_scope {
    struct wf_tpl_scope *parent;
    struct wf_tpl_dict names;
};

struct wf_tpl_run {
    const struct wf_template *t;
    struct wf_tpl_arena arena;
    struct wf_tpl_scope *scope;
    struct wf_tpl_scope *globals;
    struct wf_text *out; /* borrowed: current output */
    struct wf_template_output *output;
    size_t depth, steps, loop_depth;
    bool in_macro; /* output is that of a macro or a block */
    enum { WF_TPL_GO, WF_TPL_BROKEN, WF_TPL_CONTINUED } jump;
    enum weft_status status;
    struct weft_error *err;
};

struct wf_tpl_args {
    struct wf_tpl_value at[WF_TPL_MAX_ARGS];
    struct wf_tpl_string names[WF_TPL_MAX_ARGS]; /* len 0: a positional argument */
    size_t n;
};

/* Records an error of a run, unless there is one, and returns an undefined value. */
struct wf_tpl_value wf_tpl_raise(struct wf_tpl_run *r, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

struct wf_tpl_value wf_tpl_eval(struct wf_tpl_run *r, const struct wf_tpl_node *node);
void wf_tpl_exec(struct wf_tpl_run *r, const struct wf_tpl_node *list);
/* Calls a macro. */
struct wf_tpl_value wf_tpl_call_macro(struct wf_tpl_run *r, const struct wf_tpl_node *macro,
                                      const struct wf_tpl_args *args, uint32_t line);
/* Assigns a value to the target of set or for. */
void wf_tpl_assign(struct wf_tpl_run *r, const struct wf_tpl_node *target,
                   struct wf_tpl_value value);

struct wf_tpl_value wf_tpl_apply_filter(struct wf_tpl_run *r, struct wf_tpl_string name,
                                        struct wf_tpl_value x, const struct wf_tpl_args *args,
                                        uint32_t line);
bool wf_tpl_apply_test(struct wf_tpl_run *r, struct wf_tpl_string name, struct wf_tpl_value x,
                       const struct wf_tpl_args *args, uint32_t line);
bool wf_tpl_has_filter(struct wf_tpl_string name);
bool wf_tpl_has_test(struct wf_tpl_string name);
bool wf_tpl_has_function(struct wf_tpl_string name);
bool wf_tpl_has_method(enum wf_tpl_kind kind, struct wf_tpl_string name);
struct wf_tpl_value wf_tpl_call_method(struct wf_tpl_run *r, struct wf_tpl_value method,
                                       const struct wf_tpl_args *args, uint32_t line);
struct wf_tpl_value wf_tpl_call_function(struct wf_tpl_run *r, struct wf_tpl_string name,
                                         const struct wf_tpl_args *args, uint32_t line);

/* -- values: functions --------------------------------------------------------------------- */

struct wf_tpl_value wf_tpl_string(const char *at, size_t len);
struct wf_tpl_value wf_tpl_int(int64_t i);
struct wf_tpl_value wf_tpl_bool(bool b);
struct wf_tpl_value wf_tpl_none(void);
struct wf_tpl_value wf_tpl_undefined(struct wf_tpl_string name);
/* Returns a copy of a string; the memory is the arena's. */
struct wf_tpl_value wf_tpl_copy(struct wf_tpl_run *r, const char *at, size_t len);
struct wf_tpl_value wf_tpl_new_list(struct wf_tpl_run *r);
struct wf_tpl_value wf_tpl_new_dict(struct wf_tpl_run *r);
void wf_tpl_push(struct wf_tpl_run *r, struct wf_tpl_list *list, struct wf_tpl_value v);
void wf_tpl_put(struct wf_tpl_run *r, struct wf_tpl_dict *d, struct wf_tpl_value key,
                struct wf_tpl_value v);
/* Returns the value of a key, or NULL. */
struct wf_tpl_value *wf_tpl_get(const struct wf_tpl_dict *d, struct wf_tpl_value key);
struct wf_tpl_value wf_tpl_from_json(struct wf_tpl_run *r, json_t *j);

bool wf_tpl_is(struct wf_tpl_string s, const char *text);
bool wf_tpl_truth(struct wf_tpl_value v);
bool wf_tpl_equal(struct wf_tpl_value a, struct wf_tpl_value b);
/* Compares numbers or strings; records an error for other values. */
int wf_tpl_compare(struct wf_tpl_run *r, struct wf_tpl_value a, struct wf_tpl_value b,
                   uint32_t line);
bool wf_tpl_is_number(struct wf_tpl_value v);
double wf_tpl_number(struct wf_tpl_value v);
/* Returns the name of a value's type in errors. */
const char *wf_tpl_type(struct wf_tpl_value v);
/* Appends the value as Python's str() writes it; strings within lists are quoted. */
void wf_tpl_print(struct wf_tpl_run *r, struct wf_text *out, struct wf_tpl_value v);
/* Appends the value as JSON.  `indent` is negative for one line. */
void wf_tpl_print_json(struct wf_tpl_run *r, struct wf_text *out, struct wf_tpl_value v,
                       int64_t indent, int64_t level, uint32_t line);
/* Moves a text into the arena as a value. */
struct wf_tpl_value wf_tpl_take_text(struct wf_tpl_run *r, struct wf_text *text);
/* Returns the items of a value as a list: characters, elements or keys. */
struct wf_tpl_list *wf_tpl_items(struct wf_tpl_run *r, struct wf_tpl_value v, uint32_t line);
/* Returns the string of a value as str() writes it. */
struct wf_tpl_value wf_tpl_str(struct wf_tpl_run *r, struct wf_tpl_value v);
/* Returns the number of characters of a string. */
size_t wf_tpl_n_chars(struct wf_tpl_string s);
/* Returns the bytes of a character that begins with this byte. */
size_t wf_tpl_char_bytes(const char *at, size_t left);
/* Returns the attribute or element `key` of a value. */
struct wf_tpl_value wf_tpl_attribute(struct wf_tpl_run *r, struct wf_tpl_value v,
                                     struct wf_tpl_string key, uint32_t line);
struct wf_tpl_value wf_tpl_element(struct wf_tpl_run *r, struct wf_tpl_value v,
                                   struct wf_tpl_value key, uint32_t line);
/* Removes characters of `set` (NULL: white space) from the start and the end of a string. */
struct wf_tpl_value wf_tpl_strip(struct wf_tpl_string s, const struct wf_tpl_string *set,
                                 bool left, bool right);
/* Returns the position of `part` in `s` from `from` on, or SIZE_MAX. */
size_t wf_tpl_find(struct wf_tpl_string s, struct wf_tpl_string part, size_t from);
struct wf_tpl_value wf_tpl_replace(struct wf_tpl_run *r, struct wf_tpl_string s,
                                   struct wf_tpl_string from, struct wf_tpl_string to,
                                   int64_t count, uint32_t line);
struct wf_tpl_value wf_tpl_change_case(struct wf_tpl_run *r, struct wf_tpl_string s, char how);
/* Returns argument `i`, or the one with this name; UNDEFINED if there is none. */
struct wf_tpl_value wf_tpl_arg(const struct wf_tpl_args *args, size_t i, const char *name);

#endif
