/* Traces of generated schedules and drawings in memory, for the tests of draw and render. */
#ifndef TESTS_DRAW_DRAWING_H
#define TESTS_DRAW_DRAWING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "weft/draw.h"

static inline struct weft_trace planned(const char *name, uint32_t ranks, uint32_t micros,
                                        uint32_t chunks)
{
    const struct weft_memory_cost memory = {0};
    struct weft_gen_params params = {.ranks = ranks, .micros = micros, .chunks = chunks};
    struct weft_schedule *s = NULL;
    struct weft_metrics m;
    struct weft_trace t;
    struct weft_error err = {0};
    if (weft_schedule_generate(name, &params, &s, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(weft_metrics_init(&m, s, NULL, &memory, NULL), WEFT_OK);
    assert_int_equal(weft_trace_init_plan(&t, s, &m, &memory, NULL), WEFT_OK);
    weft_metrics_release(&m);
    weft_schedule_free(s);
    return t;
}

/* Reads a trace of the test data. */
static inline struct weft_trace stored(const char *file)
{
    enum { MOST = 1 << 20 };
    char path[1024], *text = malloc(MOST);
    struct weft_trace t;
    struct weft_error err = {0};
    snprintf(path, sizeof path, "%s/%s", WEFT_TEST_DATA, file);
    FILE *in = fopen(path, "rb");
    assert_true(in != NULL && text != NULL);
    size_t n = fread(text, 1, MOST, in);
    fclose(in);
    if (weft_trace_parse(text, n, file, &t, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    free(text);
    return t;
}

struct drawing {
    char *at; /* owned; NUL-terminated */
    size_t len;
};

typedef enum weft_status draw_fn(FILE *out, enum weft_draw_format format,
                                 const struct weft_trace *traces, size_t n,
                                 const struct weft_draw_options *options,
                                 struct weft_error *err);

/* Returns the output of `draw` (weft_draw or weft_render). */
static inline struct drawing drawn_by(draw_fn *draw, enum weft_draw_format format,
                                      const struct weft_trace *traces, size_t n,
                                      const struct weft_draw_options *options)
{
    struct drawing d = {0};
    struct weft_error err = {0};
    FILE *out = open_memstream(&d.at, &d.len);
    assert_non_null(out);
    if (draw(out, format, traces, n, options, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    fclose(out);
    return d;
}

static inline struct drawing drawn(enum weft_draw_format format,
                                   const struct weft_trace *traces, size_t n,
                                   const struct weft_draw_options *options)
{
    return drawn_by(weft_draw, format, traces, n, options);
}

#endif
