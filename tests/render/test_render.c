/* Checks that PNG and PDF are well-formed, have the requested size, and the same
 * bytes every time. */
#include "weft/render.h"

#include "draw/drawing.h"

static const struct weft_draw_options options = {.title = "<title> & \xff\x01", .width = 777};

static const char *const stored_trace = "trace_measured.trace";

static struct render_case {
    const char *name;
    uint32_t ranks, micros, chunks;
} cases[] = {
    {"1f1b", 4, 8, 0},
    {"interleaved-1f1b", 8, 32, 4},
    {"zb-h1", 64, 512, 0},
    {"stored trace", 0, 0, 0},
};

static struct weft_trace trace_of(const struct render_case *c)
{
    return c->ranks == 0 ? stored(stored_trace)
                         : planned(c->name, c->ranks, c->micros, c->chunks);
}

static uint32_t big_endian(const char *at)
{
    const unsigned char *c = (const unsigned char *)at;
    return (uint32_t)c[0] << 24 | (uint32_t)c[1] << 16 | (uint32_t)c[2] << 8 | c[3];
}

static void check_render(void **state)
{
    struct weft_trace t = trace_of(*state);

    struct drawing png = drawn_by(weft_render, WEFT_DRAW_FORMAT_PNG, &t, 1, &options);
    assert_true(png.len > 1000);
    assert_memory_equal(png.at, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
    assert_int_equal(big_endian(png.at + 16), 777);
    assert_memory_equal(png.at + png.len - 8, "IEND", 4);
    free(png.at);

    struct drawing pdf = drawn_by(weft_render, WEFT_DRAW_FORMAT_PDF, &t, 1, &options);
    assert_true(pdf.len > 1000 && memcmp(pdf.at, "%PDF-", 5) == 0);
    free(pdf.at);
    weft_trace_release(&t);
}

/* weft_render writes the bytes of weft_draw in the other formats. */
static void check_same_bytes(void **state)
{
    struct weft_trace t = trace_of(*state);
    for (int i = WEFT_DRAW_FORMAT_TEXT; i <= WEFT_DRAW_FORMAT_TRACE; i++) {
        enum weft_draw_format format = (enum weft_draw_format)i;
        bool by_cairo = format == WEFT_DRAW_FORMAT_PNG || format == WEFT_DRAW_FORMAT_PDF;
        struct drawing a = drawn_by(weft_render, format, &t, 1, &options);
        struct drawing b =
            drawn_by(by_cairo ? weft_render : weft_draw, format, &t, 1, &options);
        assert_int_equal(a.len, b.len);
        assert_memory_equal(a.at, b.at, a.len);
        free(a.at);
        free(b.at);
    }
    weft_trace_release(&t);
}

int main(void)
{
    struct CMUnitTest tests[2 * WEFT_LEN(cases)];
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        tests[2 * i] = (struct CMUnitTest){cases[i].name, check_render, NULL, NULL, &cases[i]};
        tests[2 * i + 1] =
            (struct CMUnitTest){cases[i].name, check_same_bytes, NULL, NULL, &cases[i]};
    }
    return cmocka_run_group_tests_name("render", tests, NULL, NULL) != 0;
}
