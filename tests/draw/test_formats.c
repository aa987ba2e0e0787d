/* Checks that drawings are well-formed and complete, have the same bytes every time, and escape
 * text. */
#include "draw/drawing.h"

#include <math.h>

#include <jansson.h>

#define NASTY "<script>alert(1)</script> & \"quotes\" 'too' \xc3\xa9 \xff\x01"

static struct form_case {
    const char *name;
    uint32_t ranks, micros, chunks; /* 0 ranks: a stored trace */
} cases[] = {
    {"1f1b", 4, 8, 0},      {"zb-v", 4, 8, 0},
    {"dualpipe", 8, 20, 0}, {"interleaved-1f1b", 8, 32, 4},
    {"zb-h1", 64, 512, 0},  {"trace_measured.trace", 0, 0, 0},
};

static struct weft_trace trace_of(const struct form_case *c)
{
    return c->ranks == 0 ? stored(c->name) : planned(c->name, c->ranks, c->micros, c->chunks);
}

/* -- markup -------------------------------------------------------------------------------- */

/* Reads one tag, starting at '<'.  Attributes are name="value" without '<' or a bare '&'. */
static const char *read_tag(const char *at, char name[32], bool *closing, bool *empty)
{
    size_t n = 0;
    *closing = at[1] == '/';
    at += *closing ? 2 : 1;

    for (; (*at >= 'a' && *at <= 'z') && n < 31; at++)
        name[n++] = *at;
    name[n] = '\0';
    assert_true(n > 0);

    while (*at == ' ') {
        at++;
        size_t word = strcspn(at, "=<>\" ");
        assert_true(word > 0 && at[word] == '=' && at[word + 1] == '"');
        at += word + 2;
        size_t value = strcspn(at, "\"<&");
        assert_true(at[value] == '"');
        at += value + 1;
    }

    *empty = *at == '/';
    at += *empty;
    assert_true(*at == '>');
    return at + 1;
}

static void check_entity(const char *at)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t i = 0; i < WEFT_LEN(known); i++)
        if (strncmp(at, known[i], strlen(known[i])) == 0)
            return;
    fail_msg("a bare '&' at '%.20s'", at);
}

/* Checks that every tag is closed, in order.  Returns the number of tags with
 * the name `counted`. */
static size_t check_markup(const char *text, const char *counted)
{
    char open[16][32], name[32];
    size_t depth = 0, n = 0;
    bool closing, empty;

    for (const char *at = text; *at != '\0';) {
        if (*at == '&')
            check_entity(at);
        assert_true(*at == '\n' || (unsigned char)*at >= ' ');
        if (*at != '<') {
            at++;
            continue;
        }

        at = read_tag(at, name, &closing, &empty);
        n += !closing && strcmp(name, counted) == 0;
        if (closing) {
            assert_true(depth > 0);
            assert_string_equal(open[--depth], name);
        } else if (!empty) {
            assert_true(depth < 16);
            strcpy(open[depth++], name);
        }
    }

    assert_int_equal(depth, 0);
    return n;
}

static void svg(void **state)
{
    struct weft_trace t = trace_of(*state);
    const struct weft_draw_options options = {.title = NASTY, .lanes = true};
    struct drawing d = drawn(WEFT_DRAW_FORMAT_SVG, &t, 1, &options);
    assert_int_equal(check_markup(d.at, "svg"), 1);
    assert_int_equal(check_markup(d.at, "script"), 0);
    assert_true(d.len < 6000000);
    assert_non_null(strstr(d.at,
                           "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;quotes&quot; "
                           "&#39;too&#39; \xc3\xa9 ??"));
    free(d.at);
    weft_trace_release(&t);
}

static void page(void **state)
{
    struct weft_trace t = trace_of(*state);
    const struct weft_draw_options options = {.title = NASTY};
    struct drawing d = drawn(WEFT_DRAW_FORMAT_HTML, &t, 1, &options);
    size_t scripts = 0;

    for (const char *at = d.at; (at = strstr(at, "<script")) != NULL; at++)
        scripts++;
    assert_int_equal(scripts, 2); /* the data and the program */
    assert_true(d.len < 6000000);
    assert_non_null(strstr(d.at, "default-src 'none'; script-src 'sha256-"));
    assert_null(strstr(d.at, "unsafe-inline"));

    char *data = strstr(d.at, "id=\"data\">");
    assert_non_null(data);
    json_error_t error;
    json_t *j = json_loads(data + 10, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &error);
    if (j == NULL)
        fail_msg("line %d: %s", error.line, error.text);

    const json_t *trace = json_array_get(json_object_get(j, "traces"), 0);
    assert_int_equal(json_array_size(json_object_get(trace, "ranks")), t.n_ranks);
    assert_non_null(strstr(json_string_value(json_object_get(j, "title")), "</script> & \""));

    json_decref(j);
    free(d.at);
    weft_trace_release(&t);
}

/* -- Chrome -------------------------------------------------------------------------------- */

static double number(const json_t *j, const char *key)
{
    const json_t *value = json_object_get(j, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

/* Checks that an arrow ends at a slice of its process and thread. */
static void check_arrow_end(const json_t *events, const json_t *end)
{
    size_t i;
    const json_t *e;
    json_array_foreach(events, i, e)
    {
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X") == 0 &&
            number(e, "pid") == number(end, "pid") && number(e, "tid") == number(end, "tid") &&
            number(e, "ts") <= number(end, "ts") &&
            number(e, "ts") + number(e, "dur") >= number(end, "ts"))
            return;
    }
    fail_msg("an arrow does not end at a slice");
}

static void check_arrows(const json_t *events, size_t n_flows, bool small)
{
    const json_t **from = calloc(n_flows + 1, sizeof *from),
                 **to = calloc(n_flows + 1, sizeof *to);
    size_t i;
    const json_t *e;

    assert_true(from != NULL && to != NULL);
    json_array_foreach(events, i, e)
    {
        char ph = json_string_value(json_object_get(e, "ph"))[0];
        if (ph != 's' && ph != 'f')
            continue;
        size_t id = (size_t)number(e, "id");
        assert_true(id < n_flows && (ph == 's' ? from : to)[id] == NULL);
        (ph == 's' ? from : to)[id] = e;
        if (small)
            check_arrow_end(events, e);
    }

    for (size_t k = 0; k < n_flows; k++) {
        assert_true(from[k] != NULL && to[k] != NULL);
        assert_true(number(from[k], "ts") <= number(to[k], "ts"));
        assert_true(number(from[k], "pid") != number(to[k], "pid"));
    }

    free(from);
    free(to);
}

/* Counts messages between ranks: by the ranks of stages, or by sends. */
static size_t count_messages(const struct weft_trace *t)
{
    struct weft_trace_summary s;
    assert_int_equal(weft_trace_summary_init(&s, t, NULL), WEFT_OK);
    size_t n = s.n_messages;
    weft_trace_summary_release(&s);
    return n;
}

static void chrome(void **state)
{
    const struct form_case *c = *state;
    struct weft_trace t = trace_of(c);
    const struct weft_draw_options options = {.title = NASTY};
    struct drawing d = drawn(WEFT_DRAW_FORMAT_CHROME, &t, 1, &options);

    json_error_t error;
    json_t *j = json_loadb(d.at, d.len, JSON_REJECT_DUPLICATES, &error);
    if (j == NULL)
        fail_msg("line %d: %s", error.line, error.text);

    const json_t *events = json_object_get(j, "traceEvents"), *e;
    size_t i, count[128] = {0};
    double end = 0, scale = t.unit_seconds > 0 ? t.unit_seconds * 1e6 : 1;

    json_array_foreach(events, i, e)
    {
        char ph = json_string_value(json_object_get(e, "ph"))[0];
        count[(int)ph]++;
        assert_true(number(e, "pid") >= 0 && number(e, "pid") < t.n_ranks);
        if (ph == 'X')
            end = fmax(end, number(e, "ts") + number(e, "dur"));
    }

    assert_int_equal(count['X'], t.n_events);
    assert_int_equal(count['C'], t.n_memory);
    assert_int_equal(count['s'], count['f']);
    assert_true(fabs(end - t.makespan * scale) <= 1e-9 * end);

    if (c->ranks == 0)
        assert_int_equal(count['s'], count_messages(&t));
    else if (c->chunks == 0 &&
             strcmp(c->name, "zb-v") != 0) /* one stage per rank, both directions */
        assert_int_equal(count['s'], (size_t)2 * (c->ranks - 1) * c->micros);

    check_arrows(events, count['s'], t.n_events < 500);
    json_decref(j);
    free(d.at);
    weft_trace_release(&t);
}

/* -- all formats --------------------------------------------------------------------------- */

static void same_bytes(void **state)
{
    struct weft_trace t = trace_of(*state);
    const struct weft_draw_options options = {.title = "again", .style = {80, true, true}};
    for (int f = WEFT_DRAW_FORMAT_TEXT; f <= WEFT_DRAW_FORMAT_TRACE; f++) {
        if (f == WEFT_DRAW_FORMAT_PNG || f == WEFT_DRAW_FORMAT_PDF)
            continue; /* tests/render */
        struct drawing a = drawn((enum weft_draw_format)f, &t, 1, &options);
        struct drawing b = drawn((enum weft_draw_format)f, &t, 1, &options);
        assert_int_equal(a.len, b.len);
        assert_memory_equal(a.at, b.at, a.len);
        free(a.at);
        free(b.at);
    }
    weft_trace_release(&t);
}

int main(void)
{
    static const struct {
        const char *name;
        CMUnitTestFunction run;
    } forms[] = {{"svg", svg}, {"page", page}, {"chrome", chrome}, {"same bytes", same_bytes}};
    enum { N = WEFT_LEN(cases) * WEFT_LEN(forms) };
    static char names[N][64];
    struct CMUnitTest tests[N];
    for (size_t i = 0; i < N; i++) {
        const struct form_case *c = &cases[i / WEFT_LEN(forms)];
        snprintf(names[i], sizeof names[i], "%s of %s", forms[i % WEFT_LEN(forms)].name,
                 c->name);
        tests[i] = (struct CMUnitTest){names[i], forms[i % WEFT_LEN(forms)].run, NULL, NULL,
                                       (void *)c};
    }
    return cmocka_run_group_tests_name("forms", tests, NULL, NULL) != 0;
}
