/* Checks the text form: accepted and rejected input, error positions, and that printing and
 * parsing return the same schedule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/text.h"
#include "same.h"
#include "weft/schedule.h"

#define V1 "# weft schedule 1\n"
#define SIZES_1 "# weft ranks 1 stages 1 micros 1\n"
#define BYTES(text) text, sizeof text - 1

/* -- accepted input ------------------------------------------------------------------------ */

static struct good_case {
    const char *name, *text;
    size_t len;
    const char *want; /* the rows in PyTorch's form, with newlines */
} good[] = {
    {"one row", BYTES("0F0,0B0\n"), "0F0,0B0\n"},
    {"no newline at the end", BYTES("0F0,0B0"), "0F0,0B0\n"},
    {"two rows", BYTES("0F0,0B0\n1F0,1B0\n"), "0F0,0B0\n1F0,1B0\n"},
    {"CRLF", BYTES("0F0,0B0\r\n1F0,1B0\r\n"), "0F0,0B0\n1F0,1B0\n"},
    {"CRLF, none at the end", BYTES("0F0,0B0\r\n1F0,1B0"), "0F0,0B0\n1F0,1B0\n"},
    {"a lone CR at the end", BYTES("0F0,0B0\r"), "0F0,0B0\n"},
    {"both newlines", BYTES("0F0,0B0\r\n1F0,1B0\n"), "0F0,0B0\n1F0,1B0\n"},
    {"blanks around cells", BYTES("  0F0 ,\t0B0\t \n"), "0F0,0B0\n"},
    {"empty cells dropped", BYTES(",0F0,,0B0,,\n"), "0F0,0B0\n"},
    {"a comma at the end dropped", BYTES("0F0,0B0,\n"), "0F0,0B0\n"},
    {"rows of different lengths", BYTES("0F0,0B0\n1F0,1I0,1W0\n"), "0F0,0B0\n1F0,1I0,1W0\n"},
    {"empty lines at the end", BYTES("0F0,0B0\n\n \n\r\n"), "0F0,0B0\n"},
    {"empty lines before the rows", BYTES("\n \n0F0,0B0\n"), "0F0,0B0\n"},
    {"comments", BYTES("# made by hand\n#\n0F0,0B0\n# the end\n"), "0F0,0B0\n"},
    {"any bytes in a comment", BYTES("# \0\xff\xc3(\r\n0F0,0B0\n"), "0F0,0B0\n"},
    {"a comment that starts like a header", BYTES("# wefty schedule 9\n0F0,0B0\n"),
     "0F0,0B0\n"},
    {"every kind",
     BYTES("0UNSHARD,0F0,0SEND_F0,0RECV_B0,0I0,0W0,0REDUCE_GRAD,0RESHARD\n"
           "1RECV_F0,1F0,1B0,1SEND_B0\n"),
     "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0I0,0W0,0REDUCE_GRAD,0RESHARD\n1RECV_F0,1F0,1B0,1SEND_B0\n"},
    {"a pair", BYTES("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n"), "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n"},
    {"a pair the other way round, with I", BYTES("0F0,(0I0;0F1)OVERLAP_F_B,0W0,0B1\n"),
     "0F0,(0I0;0F1)OVERLAP_F_B,0W0,0B1\n"},
    {"leading zeros", BYTES("00F000,0B0\n"), "0F0,0B0\n"},
    {"a full header",
     BYTES(V1 "# weft name x-1\n# weft ranks 2 stages 2 micros 1\n# weft placement 1 0\n"
              "1F0,1B0\n0F0,0B0\n"),
     "1F0,1B0\n0F0,0B0\n"},
    {"a header with CRLF and blanks",
     BYTES("#weft   schedule\t1 \r\n#  weft ranks 1  stages 1\tmicros 1\r\n0F0,0B0\r\n"),
     "0F0,0B0\n"},
    {"a header among comments", BYTES("# a\n" V1 "\n# b\n" SIZES_1 "0F0,0B0\n"), "0F0,0B0\n"},
    {"one placement line per pipe",
     BYTES(V1 "# weft placement 0 1\n# weft placement 1 0\n0F0,0B0,1F1,1B1\n1F0,1B0,0F1,0B1\n"),
     "0F0,0B0,1F1,1B1\n1F0,1B0,0F1,0B1\n"},
    {"a pipe that no micro takes",
     BYTES(V1 "# weft placement 1 0\n# weft placement 0 1\n0F0,0B0\n1F0,1B0\n"),
     "0F0,0B0\n1F0,1B0\n"},
    {"an incorrect schedule is accepted: the parser does not verify", BYTES("0B0,0B0\n"),
     "0B0,0B0\n"},
};

static void check_good(void **state)
{
    const struct good_case *c = *state;
    struct weft_schedule *s = NULL;
    struct weft_error err = {.msg = ""};
    char *text = NULL;
    size_t len = 0;
    if (weft_schedule_parse(c->text, c->len, "t", &s, &err) != WEFT_OK)
        fail_msg("rejected: %s", err.msg);
    assert_int_equal(weft_schedule_print(s, WEFT_TEXT_FORMAT_PYTORCH, &text, &len, NULL),
                     WEFT_OK);
    assert_string_equal(text, c->want);
    assert_int_equal(len, strlen(c->want));
    assert_true(roundtrips_text(s));
    free(text);
    weft_schedule_free(s);
}

/* -- rejected input ------------------------------------------------------------------------ */

static struct bad_case {
    const char *name, *text;
    size_t len;
    const char *want; /* start of the error message, with line and column */
} bad[] = {
    /* accepted by PyTorch's unanchored pattern */
    {"letters after an action", BYTES("0F0xyz"), "t:1:4: 'xyz' after an action"},
    {"two actions in a cell", BYTES("0F0 1B0"), "t:1:5: '1B0' after an action"},
    {"a fraction", BYTES("0F0.5"), "t:1:4: '.5' after an action"},
    {"a word that starts like a kind", BYTES("0FORWARD0"),
     "t:1:1: '0FORWARD0' is not an action"},
    {"a micro where none belongs", BYTES("0F0,0UNSHARD3"), "t:1:13: '3' after an action"},
    {"a reduction with a micro", BYTES("0F0,0B0,0REDUCE_GRAD0"), "t:1:21: '0' after an action"},
    {"no micro", BYTES("0F0,0B"), "t:1:7: '0B' has no micro; write 0B0"},
    {"no micro, another cell follows", BYTES("0F,0B0"), "t:1:3: '0F' has no micro"},
    {"a compound of another type", BYTES("0F0,(0F1;0B0)F"),
     "t:1:13: an overlapped pair ends in"},
    {"a compound without a type", BYTES("0F0,(0F1;0B0)"), "t:1:13: an overlapped pair ends in"},
    {"letters after a compound", BYTES("0F0,(0F1;0B0)OVERLAP_F_BX"),
     "t:1:25: 'X' after an action"},
    {"a comma in a compound", BYTES("0F0,(0F1,0B0)OVERLAP_F_B"),
     "t:1:9: an overlapped pair is written"},
    {"a compound of one", BYTES("0F0,(0F1)OVERLAP_F_B"),
     "t:1:9: an overlapped pair is written"},
    {"a compound of three", BYTES("(0F1;0B0;0F2)OVERLAP_F_B"),
     "t:1:9: an overlapped pair ends in"},
    {"a compound in a compound", BYTES("((0F1;0B0)OVERLAP_F_B;0F2)OVERLAP_F_B"),
     "t:1:2: '(0F1;0B0)OVERLAP_F_B;0F2' is not an action"},
    {"an empty compound", BYTES("0F0,()OVERLAP_F_B"), "t:1:6: ')OVERLAP_F_B' is not an action"},
    {"a blank in a compound", BYTES("(0F1; 0B0)OVERLAP_F_B"),
     "t:1:6: ' 0B0)OVERLAP_F_B' is no"},
    {"two forwards as a pair", BYTES("(0F1;0F0)OVERLAP_F_B"),
     "t:1:1: an overlapped pair is one F and one B or I"},
    {"a weight gradient in a pair", BYTES("(0F1;0W0)OVERLAP_F_B"),
     "t:1:1: an overlapped pair is one F and one B or I"},
    {"a pair that PyTorch prints but cannot read", BYTES("-1OVERLAP_F_B"),
     "t:1:1: '-1OVERLAP_F_B' is not an action"},
    {"lower case", BYTES("0F0,0b0"), "t:1:5: '0b0' is not an action"},
    {"a negative stage", BYTES("-1F0"), "t:1:1: '-1F0' is not an action"},
    {"a negative micro", BYTES("0F-1"), "t:1:3: '0F-1' has no micro"},
    {"a sign", BYTES("+1F0"), "t:1:1: '+1F0' is not an action"},
    {"a signed micro", BYTES("0F+1"), "t:1:3: '0F+1' has no micro"},
    {"hexadecimal", BYTES("0x1F0"), "t:1:1: '0x1F0' is not an action"},
    {"no stage", BYTES("F0"), "t:1:1: 'F0' is not an action"},
    {"no kind", BYTES("0F0,12"), "t:1:5: '12' is not an action"},
    {"an unknown kind", BYTES("0F0,0SEND_X0"), "t:1:5: '0SEND_X0' is not an action"},
    {"the kind of empty cells has no name", BYTES("0F0,0_0"), "t:1:5: '0_0' is not an action"},
    {"quotes", BYTES("\"0F0\",0B0"), "t:1:1: '\"0F0\"' is not an action"},
    {"semicolons between cells", BYTES("0F0;0B0"), "t:1:4: ';0B0' after an action"},

    /* numbers */
    {"a stage of 2^24", BYTES("16777216F0"), "t:1:1: the stage of '16777216F0' is too large"},
    {"a stage beyond 64 bits", BYTES("99999999999999999999999F0"),
     "t:1:1: the stage of '99999999999999999999999F' is too large"},
    {"a micro of 2^32", BYTES("0F0,0B4294967296"),
     "t:1:7: the micro of '0B4294967296' is too large"},
    {"a micro beyond 64 bits", BYTES("0F99999999999999999999999"), "t:1:3: the micro of '0F99"},
    {"more micros than cells", BYTES("0F0,0B0\n0F4294967294"),
     "t:2:1: 4294967295 micros in a file of 3 cells"},
    {"more stages than cells", BYTES("0F0,0B0\n16777215F0"),
     "t:2:1: 16777216 stages in a file of 3 cells"},

    /* rows */
    {"an empty line between rows", BYTES("0F0,0B0\n\n1F0,1B0\n"), "t:2:1: empty line"},
    {"a row of empty cells", BYTES("0F0,0B0\n,,\n"), "t:2:1: row without actions"},
    {"a row of one empty cell that is not the last", BYTES("0F0,0B0\n \n1F0,1B0\n"),
     "t:2:1: empty line"},
    {"a CR in the middle of a line", BYTES("0F0\r0B0"), "t:1:4: '' after an action"},
    {"other white space", BYTES("0F0,\v0B0"), "t:1:5: '?0B0' is not an action"},
    {"a byte order mark",
     BYTES("\xef\xbb\xbf"
           "0F0,0B0"),
     "t:1:1: the file begins with a byte order mark"},
    {"a no-break space",
     BYTES("0F0,\xc2\xa0"
           "0B0"),
     "t:1:5: '??0B0' is not an action"},

    /* not text */
    {"nothing", BYTES(""), "t: no actions"},
    {"one newline", BYTES("\n"), "t: no actions"},
    {"one NUL", BYTES("\0"), "t:1:1: '?' is not an action"},
    {"one letter", BYTES("F"), "t:1:1: 'F' is not an action"},
    {"one digit", BYTES("0"), "t:1:1: '0' is not an action"},
    {"one comma", BYTES(","), "t:1:1: row without actions"},
    {"one hash", BYTES("#"), "t: no actions"},
    {"one bracket", BYTES("("), "t:1:2: '' is not an action"},
    {"a NUL after an action", BYTES("0F0\0,0B0"), "t:1:4: '?' after an action"},
    {"a NUL in the last row", BYTES("0F0,0B0\n1F0,1B0\0"), "t:2:8: '?' after an action"},
    {"an ELF file",
     BYTES("\x7f"
           "ELF\x02\x01\x01\0\0\0\0"),
     "t:1:1: '?ELF"},
    {"a PNG file", BYTES("\x89PNG\r\n\x1a\n"), "t:1:1: '?PNG' is not an action"},

    /* header lines */
    {"another version", BYTES("# weft schedule 2\n0F0,0B0"), "t:1:17: unsupported version"},
    {"a version that is not a number", BYTES("# weft schedule one\n0F0,0B0"),
     "t:1:17: unsupported version"},
    {"no version", BYTES("# weft schedule\n0F0,0B0"), "t:1:16: unsupported version"},
    {"more after the version", BYTES("# weft schedule 1.5\n0F0,0B0"),
     "t:1:18: unexpected text"},
    {"no blank before the version", BYTES("# weft schedule1\n0F0,0B0"),
     "t:1:8: unknown header 'schedule1'"},
    {"the version twice", BYTES(V1 V1 "0F0,0B0"), "t:2:8: duplicate header 'schedule'"},
    {"sizes without a version", BYTES(SIZES_1 "0F0,0B0"),
     "t:1:8: the first header line must be"},
    {"sizes twice", BYTES(V1 SIZES_1 SIZES_1 "0F0,0B0"), "t:3:8: duplicate header 'ranks'"},
    {"a name twice", BYTES(V1 "# weft name a\n# weft name b\n0F0,0B0"),
     "t:3:8: duplicate header 'name'"},
    {"no name", BYTES(V1 "# weft name\n0F0,0B0"), "t:2:12: a name has 1 to 63"},
    {"two names", BYTES(V1 "# weft name a b\n0F0,0B0"), "t:2:15: unexpected text"},
    {"a long name",
     BYTES(V1
           "# weft name 0123456789012345678901234567890123456789012345678901234567890123\n0F0"),
     "t:2:76: a name has 1 to 63"},
    {"a name with a control character", BYTES(V1 "# weft name a\x01\n0F0,0B0"),
     "t:2:14: a name has 1 to 63"},
    {"an unknown header", BYTES(V1 "# weft costs 1 2\n0F0,0B0"),
     "t:2:8: unknown header 'costs 1 2'"},
    {"a header after the rows", BYTES("0F0,0B0\n" V1),
     "t:2:8: header lines must precede the rows"},
    {"sizes in another order", BYTES(V1 "# weft ranks 1 micros 1 stages 1\n0F0,0B0"),
     "t:2:16: expected: # weft ranks P stages S micros M"},
    {"a size missing", BYTES(V1 "# weft ranks 1 stages 1\n0F0,0B0"), "t:2:24: expected:"},
    {"a size of 0", BYTES(V1 "# weft ranks 1 stages 0 micros 1\n0F0,0B0"),
     "t:2:23: the number of stages is missing, 0 or too large"},
    {"a size too large", BYTES(V1 "# weft ranks 1 stages 1 micros 99999999999\n0F0,0B0"),
     "t:2:32: the number of micros is missing, 0 or too large"},
    {"more after the sizes", BYTES(V1 "# weft ranks 1 stages 1 micros 1 pipes 1\n0F0,0B0"),
     "t:2:34: unexpected text"},
    {"a number of rows other than the number of ranks",
     BYTES(V1 "# weft ranks 2 stages 1 micros 1\n0F0,0B0"),
     "t:2:13: the header declares 2 ranks, but the file has 1 row"},
    {"a stage beyond the header", BYTES(V1 SIZES_1 "0F0,0B0,1F0"),
     "t:3:9: stage 1, but the header declares 1 stage"},
    {"a stage beyond the header, in a pair", BYTES(V1 SIZES_1 "(1F0;0B0)OVERLAP_F_B,0F0"),
     "t:3:2: stage 1, but the header declares 1 stage"},
    {"a micro beyond the header", BYTES(V1 SIZES_1 "0F0,0B1"),
     "t:3:5: micro 1, but the header declares 1 micro"},
    {"far more micros than cells in the header",
     BYTES(V1 "# weft ranks 1 stages 1 micros 4000000000\n0F0,0B0"),
     "t:2:13: 4000000000 micros in a file of 2 cells"},
    {"far more stages than cells in the header",
     BYTES(V1 "# weft ranks 1 stages 4000000000 micros 1\n0F0,0B0"),
     "t:2:13: 4000000000 stages in a file of 2 cells"},
    {"another placement", BYTES(V1 "# weft placement 1 0\n0F0,0B0\n1F0,1B0"),
     "t:2:18: the rows have stage 0 on rank 0"},
    {"another placement further on", BYTES(V1 "# weft placement 0 0\n0F0,0B0\n1F0,1B0"),
     "t:2:20: the rows have stage 1 on rank 1"},
    {"a placement too short", BYTES(V1 "# weft placement 0\n0F0,0B0\n1F0,1B0"),
     "t:2:19: stage 1 needs a rank from 0 to 1"},
    {"a placement too long", BYTES(V1 "# weft placement 0 1 0\n0F0,0B0\n1F0,1B0"),
     "t:2:22: more ranks than stages (expected 2)"},
    {"a placement on no rank", BYTES(V1 "# weft placement 0 2\n0F0,0B0\n1F0,1B0"),
     "t:2:20: stage 1 needs a rank from 0 to 1"},
    {"a placement of words", BYTES(V1 "# weft placement linear\n0F0,0B0\n1F0,1B0"),
     "t:2:18: stage 0 needs a rank from 0 to 1"},
    {"two placements of one pipe",
     BYTES(V1 "# weft placement 0\n# weft placement 0\n0F0,0F1,0B0,0B1"),
     "t:2:1: the rows have 1 pipe; write one placement line per pipe"},
    {"one placement of two pipes",
     BYTES(V1 "# weft placement 0 1\n0F0,0B0,1F1,1B1\n1F0,1B0,0F1,0B1\n"),
     "t:2:1: the rows have 2 pipes; write one placement line per pipe"},
    {"an empty pipe that is not empty",
     BYTES(V1 "# weft placement 0 1\n# weft placement 1 0\n0F0,0B0\n1F0,1B0\n"),
     "t:2:1: the rows have 1 pipe; write one placement line per pipe"},
    {"placements apart", BYTES(V1 "# weft placement 0\n#\n# weft placement 0\n0F0,0B0"),
     "t:4:1: placement lines must be adjacent"},
};

static void check_bad(void **state)
{
    const struct bad_case *c = *state;
    struct weft_schedule *s = NULL;
    struct weft_error err = {.msg = ""};
    /* A copy of exactly this size, so that a sanitizer detects reads past its end. */
    char *text = malloc(c->len ? c->len : 1);
    assert_non_null(text);
    memcpy(text, c->text, c->len);

    enum weft_status st = weft_schedule_parse(text, c->len, "t", &s, &err);
    free(text);
    assert_int_equal(st, WEFT_SCHEDULE);
    assert_null(s);
    if (strncmp(err.msg, c->want, strlen(c->want)) != 0)
        fail_msg("want \"%s...\", have \"%s\"", c->want, err.msg);
}

/* -- whole schedules ----------------------------------------------------------------------- */

static void check_generators(void **state)
{
    (void)state;
    static const struct weft_gen_params sizes[] = {
        {.ranks = 1, .micros = 1},
        {.ranks = 2, .micros = 1},
        {.ranks = 2, .micros = 4},
        {.ranks = 3, .micros = 7},
        {.ranks = 4, .micros = 3},
        {.ranks = 4, .micros = 8},
        {.ranks = 4, .micros = 3, .pipes = 4},
    };

    size_t n, n_two_way = 0;
    const struct weft_generator *all = weft_generator_list(&n);
    for (size_t g = 0; g < n; g++)
        for (size_t i = 0; i < WEFT_LEN(sizes); i++) {
            struct weft_gen_params p = sizes[i];
            struct weft_schedule *s = NULL;
            if (weft_schedule_generate(all[g].name, &p, &s, NULL) != WEFT_OK)
                continue;
            if (!roundtrips_text(s))
                fail_msg("%s is another one when printed and read: P=%u M=%u", all[g].name,
                         p.ranks, p.micros);
            n_two_way += weft_schedule_placement(s)->n_pipes > 1;
            weft_schedule_free(s);
        }
    assert_true(n_two_way >= 5);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HUGE_MICROS = 125000 };
#else
enum { HUGE_MICROS = 1250000 };
#endif

/* Prints and parses 10^7 cells: four ranks with a forward and a backward per micro. */
static void check_huge(void **state)
{
    (void)state;
    const struct weft_gen_params p = {.ranks = 4, .micros = HUGE_MICROS};
    struct weft_schedule *s = NULL;
    assert_int_equal(weft_schedule_generate("1f1b", &p, &s, NULL), WEFT_OK);
    assert_int_equal(weft_schedule_n_actions(s), (size_t)8 * HUGE_MICROS);
    assert_true(roundtrips_text(s));
    assert_true(weft_schedule_bytes(s) <= 16 * weft_schedule_n_actions(s));
    weft_schedule_free(s);
}

/* Checks the printed form of one action and of one row. */
static void check_print(void **state)
{
    (void)state;
    static const struct {
        struct weft_action a;
        const char *want;
    } actions[] = {
        {{.stage = 2, .kind = WEFT_ACT_F}, "2F0"},
        {{.stage = WEFT_MAX_STAGES - 1, .kind = WEFT_ACT_RECV_B, .micro = UINT32_MAX},
         "16777215RECV_B4294967295"},
        {{.stage = 3, .kind = WEFT_ACT_REDUCE_GRAD}, "3REDUCE_GRAD"},
    };

    for (size_t i = 0; i < WEFT_LEN(actions); i++) {
        char out[WEFT_ACTION_TEXT_MAX];
        assert_int_equal(weft_action_print(actions[i].a, out), strlen(actions[i].want));
        assert_string_equal(out, actions[i].want);
    }

    static const char text[] = "0F0,(0F1;0B0)OVERLAP_F_B,0B1";
    struct weft_schedule *s = NULL;
    char *row = NULL;
    assert_int_equal(weft_schedule_parse(text, strlen(text), "t", &s, NULL), WEFT_OK);
    assert_int_equal(weft_schedule_print_rank(s, 0, " | ", &row, NULL), WEFT_OK);
    assert_string_equal(row, "0F0 | (0F1;0B0)OVERLAP_F_B | 0B1");

    free(row);
    weft_schedule_free(s);
}

int main(void)
{
    static struct CMUnitTest tests[WEFT_LEN(good) + WEFT_LEN(bad) + 3];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(good); i++)
        tests[n++] = (struct CMUnitTest){good[i].name, check_good, NULL, NULL, &good[i]};
    for (size_t i = 0; i < WEFT_LEN(bad); i++)
        tests[n++] = (struct CMUnitTest){bad[i].name, check_bad, NULL, NULL, &bad[i]};
    tests[n++] = (struct CMUnitTest){"every generator", check_generators, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"ten million cells", check_huge, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"printing", check_print, NULL, NULL, NULL};
    return cmocka_run_group_tests_name("text", tests, NULL, NULL) != 0;
}
