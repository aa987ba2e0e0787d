/* Checks gradient reduction with scripts of a reference system's server.  If the reference
 * finishes, the reducer gives the same result.  If the reference hangs or crashes, the reducer
 * gives the correct result, or a clear error if the script is invalid.
 *
 * A device is a rank.  The expected result is derived from the script alone: the messages
 * of each rank, in order, form its steps 0, 1, ...; a tensor is reduced over the tensors
 * of all ranks that register it in the step of the same number.  A rank that lists a
 * parameter several times pushes several tensors.  Callbacks report each parameter and
 * each step of a rank once. */
#include "weft/sync.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"

enum {
    MAX_EVENTS = 128,
    MAX_RANKS = 4,
    MAX_PARAMS = 10,
    MAX_ELEMENTS = 4,
    MAX_STEPS = 16,
    MAX_IDS = 8,
};

#define LIMIT_NS INT64_C(60000000000) /* time limit per script: a hang is a failure */

struct event {
    char kind; /* R, T, S */
    uint32_t rank, step;
    uint32_t ids[MAX_IDS];
    size_t n; /* number of ids, or of values */
    float values[MAX_ELEMENTS], reference[MAX_ELEMENTS], expected[MAX_ELEMENTS];
    float grad[MAX_ELEMENTS];   /* input and output of the push */
    bool reported;              /* R, S: its callback was called; T: the result was complete */
    double slack[MAX_ELEMENTS]; /* error of the reference, which adds in fp32 */
};

struct script {
    char family[32], outcome[8];
    uint32_t number, n_ranks;
    enum weft_sync_op op;
    struct event at[MAX_EVENTS];
    size_t n;
    size_t sizes[MAX_PARAMS];
    const char *error[MAX_RANKS]; /* part of the expected error; NULL: the rank is correct */
};

/* -- reading ------------------------------------------------------------------------------- */

static size_t read_floats(const char *text, float *out)
{
    size_t n = 0;
    for (char *end; *text != '\0'; text = *end == ',' ? end + 1 : end) {
        assert_true(n < MAX_ELEMENTS);
        out[n++] = strtof(text, &end);
        assert_true(end != text);
    }
    return n;
}

static void read_event(struct script *s, const char *word)
{
    assert_true(s->n < MAX_EVENTS);
    struct event *e = &s->at[s->n++];
    char *end;
    *e = (struct event){.kind = word[0], .rank = (uint32_t)strtoul(word + 1, &end, 10)};
    assert_true(e->rank < MAX_RANKS);
    if (e->rank >= s->n_ranks)
        s->n_ranks = e->rank + 1;
    if (e->kind == 'T') {
        e->ids[0] = (uint32_t)strtoul(end + 1, &end, 10);
        e->n = read_floats(end + 1, e->values);
        s->sizes[e->ids[0]] = e->n;
    }
    if (e->kind == 'R')
        for (end++; *end != '\0'; end += *end == ',') {
            assert_true(e->n < MAX_IDS);
            e->ids[e->n++] = (uint32_t)strtoul(end, &end, 10);
        }
}

static void read_script(char *line, struct script *s)
{
    char *rest, *word = strtok_r(line, " \n", &rest);
    *s = (struct script){.number = (uint32_t)atoi(word)};
    for (size_t i = 0; i < MAX_PARAMS; i++)
        s->sizes[i] = 1;
    snprintf(s->family, sizeof s->family, "%s", strtok_r(NULL, " ", &rest));
    s->n_ranks = (uint32_t)atoi(strtok_r(NULL, " ", &rest));
    s->op = strcmp(strtok_r(NULL, " ", &rest), "mean") == 0 ? WEFT_SYNC_MEAN : WEFT_SYNC_SUM;
    snprintf(s->outcome, sizeof s->outcome, "%s", strtok_r(NULL, " ", &rest));
    while ((word = strtok_r(NULL, " \n", &rest)) != NULL && word[0] != '|')
        read_event(s, word);
    for (size_t i = 0; i < s->n; i++)
        if (s->at[i].kind == 'T')
            assert_int_equal(read_floats(strtok_r(NULL, " \n", &rest), s->at[i].reference),
                             s->at[i].n);
}

/* -- expected results ---------------------------------------------------------------------- */

/* Returns how often a set lists a parameter. */
static uint32_t times(const struct event *set, uint32_t id)
{
    uint32_t n = 0;
    for (size_t i = 0; set != NULL && i < set->n; i++)
        n += set->ids[i] == id;
    return n;
}

struct progress {
    const struct event *set; /* of the rank's current step; NULL: none */
    uint32_t step, pushed[MAX_PARAMS];
};

static bool is_incomplete(const struct progress *p)
{
    for (size_t i = 0; p->set != NULL && i < p->set->n; i++)
        if (p->pushed[p->set->ids[i]] != times(p->set, p->set->ids[i]))
            return true;
    return false;
}

/* Returns part of the error that this message causes, or NULL.  `strict`: a wait without a set
 * is an error; otherwise it is a step with an empty set, as for a device without parameters. */
static const char *find_error(struct progress *p, const struct event *e, bool strict)
{
    switch (e->kind) {
    case 'R':
        *p = (struct progress){.set = e, .step = p->step};
        return NULL;

    case 'T':
        if (p->set == NULL)
            return "which it has not registered";
        if (times(p->set, e->ids[0]) == 0)
            return "which is not registered";
        if (p->pushed[e->ids[0]] == times(p->set, e->ids[0]))
            return "twice";
        p->pushed[e->ids[0]]++;
        return NULL;

    default:
        if (p->set == NULL && strict)
            return "which it has not registered";
        if (is_incomplete(p))
            return "has not pushed what it registered";
        *p = (struct progress){.step = p->step + 1};
        return NULL;
    }
}

static void classify(struct script *s, bool strict)
{
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        struct progress p = {0};
        s->error[r] = NULL;
        for (size_t i = 0; i < s->n && s->error[r] == NULL; i++)
            if (s->at[i].rank == r) {
                s->at[i].step = p.step;
                s->error[r] = find_error(&p, &s->at[i], strict);
            }
        if (s->error[r] == NULL && is_incomplete(&p))
            s->error[r] = "without pushing what it registered";
    }
}

static bool is_invalid(const struct script *s)
{
    for (uint32_t r = 0; r < s->n_ranks; r++)
        if (s->error[r] != NULL)
            return true;
    return false;
}

/* Computes the expected values.  In a valid script every rank pushes what it registers. */
static void expect(struct script *s)
{
    for (size_t i = 0; i < s->n; i++) {
        struct event *e = &s->at[i];
        for (size_t k = 0; e->kind == 'T' && k < e->n; k++) {
            double sum = 0, size = 0;
            bool coarse = true; /* multiples of 1/4: fp32 adds them without rounding */
            uint32_t n = 0;
            for (size_t j = 0; j < s->n; j++) {
                const struct event *o = &s->at[j];
                if (o->kind != 'T' || o->step != e->step || o->ids[0] != e->ids[0])
                    continue;
                sum += (double)o->values[k];
                size += fabs((double)o->values[k]);
                coarse &= fmod((double)o->values[k], 0.25) == 0;
                n++;
            }
            e->slack[k] = coarse ? 0 : n * 0x1p-24 * size;
            e->expected[k] = (float)(s->op == WEFT_SYNC_MEAN ? sum / n : sum);
        }
    }
}

/* -- playing ------------------------------------------------------------------------------- */

enum mode {
    IN_ORDER, /* messages start in the script's order, as far as possible */
    FREELY,   /* ranks are independent and pause at random */
    STRICTLY, /* as FREELY, but a wait without a set is an error */
};

struct play {
    struct script *script;
    enum mode mode;
    uint64_t seed;
    atomic_size_t turn;
};

static void pause_ns(int64_t ns)
{
    nanosleep(&(struct timespec){0, ns}, NULL);
}

/* Waits until the messages before i have started, or for 20 ms: the order cannot always be
 * kept, since a rank may wait longer here than in the reference. */
static void wait_for_turn(struct play *p, size_t i, struct weft_comm *comm)
{
    int64_t begin = wf_clock_ns();
    if (p->mode == IN_ORDER) {
        while (atomic_load(&p->turn) < i && wf_clock_ns() - begin < 20000000) {
            (void)weft_comm_progress(comm, NULL);
            pause_ns(20000);
        }
        return;
    }
    uint32_t dice = wf_random_below(p->seed, weft_comm_rank(comm), i, 8);
    if (dice < 3)
        pause_ns(dice * 100000);
}

static void next_turn(struct play *p, size_t i)
{
    if (atomic_load(&p->turn) < i + 1)
        atomic_store(&p->turn, i + 1);
}

/* Registers a set.  A parameter that is listed several times has several gradients. */
static enum weft_status register_set(const struct script *s, const struct event *e,
                                     struct weft_sync *sync, struct weft_error *err)
{
    struct weft_sync_param params[MAX_IDS];
    size_t n = 0;
    for (size_t i = 0; i < e->n; i++) {
        struct event before = {.n = i};
        memcpy(before.ids, e->ids, sizeof before.ids);
        if (times(&before, e->ids[i]) == 0)
            params[n++] = (struct weft_sync_param){
                .id = e->ids[i], .n_grads = times(e, e->ids[i]), .size = s->sizes[e->ids[i]]};
    }
    return weft_sync_register_params(sync, e->step, params, n, err);
}

static enum weft_status play_event(struct play *p, size_t i, struct weft_sync *sync,
                                   bool *in_step, struct weft_error *err)
{
    struct event *e = &p->script->at[i];
    enum weft_status st = WEFT_OK;

    switch (e->kind) {
    case 'R':
        st = register_set(p->script, e, sync, err);
        *in_step = true;
        break;
    case 'T':
        memcpy(e->grad, e->values, sizeof e->grad);
        st = weft_sync_push(sync, e->step, e->ids[0], e->grad, err);
        break;
    default:
        if (!*in_step && p->mode != STRICTLY)
            st = weft_sync_register(sync, e->step, NULL, NULL, 0, err);
        next_turn(p, i);
        *in_step = false;
        return st != WEFT_OK ? st : weft_sync_wait(sync, e->step, err);
    }

    next_turn(p, i);
    return st;
}

struct player {
    struct script *script;
    uint32_t rank;
};

/* Marks the tensors of a complete parameter.  They must contain the result. */
static enum weft_status param_done(void *arg, uint64_t step, uint32_t id,
                                   struct weft_error *err)
{
    const struct player *p = arg;
    for (size_t i = 0; i < p->script->n; i++) {
        struct event *e = &p->script->at[i];
        if (e->kind != 'T' || e->rank != p->rank || e->step != step || e->ids[0] != id)
            continue;
        if (e->reported || memcmp(e->grad, e->expected, e->n * sizeof *e->grad) != 0)
            return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u, parameter %u: reported %s", p->rank,
                             id, e->reported ? "twice" : "without its result");
        e->reported = true;
    }
    return WEFT_OK;
}

/* Marks the messages of a complete step.  All its parameters must be marked. */
static enum weft_status step_done(void *arg, uint64_t step, struct weft_error *err)
{
    const struct player *p = arg;
    for (size_t i = 0; i < p->script->n; i++) {
        struct event *e = &p->script->at[i];
        if (e->rank != p->rank || e->step != step)
            continue;
        if (e->reported != (e->kind == 'T'))
            return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u, message %zu: %s", p->rank, i,
                             e->reported ? "reported twice" : "not reported");
        e->reported = true;
    }
    return WEFT_OK;
}

static enum weft_status play_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct play *p = arg;
    struct player player = {p->script, weft_comm_rank(comm)};
    struct weft_sync *sync = NULL;
    bool in_step = false;
    weft_comm_set_timeout(comm, 20);
    WEFT_TRY(weft_sync_new(comm, p->script->op, &sync, err));
    if (!is_invalid(p->script))
        weft_sync_on_complete(sync, param_done, step_done, &player);
    enum weft_status st = WEFT_OK;
    for (size_t i = 0; i < p->script->n && st == WEFT_OK; i++)
        if (p->script->at[i].rank == weft_comm_rank(comm)) {
            wait_for_turn(p, i, comm);
            st = play_event(p, i, sync, &in_step, err);
        }
    weft_sync_free(sync);
    return st;
}

/* Runs a script.  An invalid script must give one of its expected errors; a result
 * must be exact. */
static void check_play(struct script *s, enum mode mode, uint64_t seed)
{
    struct play p = {.script = s, .mode = mode, .seed = seed};
    struct weft_error err = {0};
    int64_t begin = wf_clock_ns();

    for (size_t i = 0; i < s->n; i++)
        s->at[i].reported = false;
    enum weft_status st = weft_comm_run_threads(s->n_ranks, play_rank, &p, &err);
    if (wf_clock_ns() - begin > LIMIT_NS)
        fail_msg("script %u takes too long", s->number);

    if (is_invalid(s)) {
        bool is_expected = false;
        for (uint32_t r = 0; r < s->n_ranks; r++)
            is_expected |= s->error[r] != NULL && strstr(err.msg, s->error[r]) != NULL;
        if (st != WEFT_OK && !is_expected)
            fail_msg("script %u: status %d, %s", s->number, st, err.msg);
        if (st != WEFT_USAGE)
            fail_msg("script %u is invalid, but gives status %d", s->number, st);
        return;
    }

    if (st != WEFT_OK)
        fail_msg("script %u (%s): %s", s->number, s->family, err.msg);
    for (size_t i = 0; i < s->n; i++)
        if (!s->at[i].reported)
            fail_msg("script %u, message %zu: no callback", s->number, i);

    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; s->at[i].kind == 'T' && k < s->at[i].n; k++) {
            const struct event *e = &s->at[i];
            double off = fabs((double)e->grad[k] - (double)e->reference[k]);
            bool agrees = strcmp(s->outcome, "ok") != 0 || off <= e->slack[k];
            if (e->grad[k] != e->expected[k] || !agrees)
                fail_msg("script %u, message %zu, element %zu: %g, expected %g; reference %g",
                         s->number, i, k, (double)e->grad[k], (double)e->expected[k],
                         (double)e->reference[k]);
        }
}

/* -- all scripts --------------------------------------------------------------------------- */

static struct tally {
    const char *family, *outcome; /* of the reference system */
    int want_results, want_errors;
    int results, errors, strict_errors;
} tallies[] = {
    {"barriered", "ok", 87, 0, 0, 0, 0},
    {"free_running", "ok", 15, 0, 0, 0, 0},
    {"free_running", "hang", 58, 0, 0, 0, 0},
    {"subsets", "ok", 29, 0, 0, 0, 0},
    {"subsets", "order", 4, 0, 0, 0, 0},
    {"autodiff_no_register", "ok", 4, 0, 0, 0, 0},
    {"autodiff_no_register", "order", 1, 0, 0, 0, 0},
    {"autodiff_no_register", "hang", 13, 0, 0, 0, 0},
    {"uneven_steps", "hang", 11, 0, 0, 0, 0},
    {"script", "ok", 7, 1, 0, 0, 0}, /* a tensor before its set; see test_late_set() */
    {"script", "order", 2, 0, 0, 0, 0},
    {"script", "hang", 3, 1, 0, 0, 0}, /* an unregistered parameter */
    {"script", "dead", 1, 0, 0, 0, 0},
};

static struct tally *tally_of(const struct script *s)
{
    for (size_t i = 0; i < WEFT_LEN(tallies); i++)
        if (strcmp(tallies[i].family, s->family) == 0 &&
            strcmp(tallies[i].outcome, s->outcome) == 0)
            return &tallies[i];
    fail_msg("script %u: unknown family", s->number);
    return NULL;
}

/* Reads the next script of the file, or the script with this number.  Returns false
 * at the end. */
static bool next_script(FILE *f, uint32_t number, struct script *s)
{
    char line[4096];
    while (fgets(line, sizeof line, f) != NULL)
        if (line[0] != '#' && (number == 0 || (uint32_t)atoi(line) == number)) {
            read_script(line, s);
            return true;
        }
    return false;
}

static FILE *open_scripts(void)
{
    FILE *f = fopen(WEFT_TEST_DATA "/sync/server.txt", "r");
    assert_non_null(f);
    return f;
}

static void test_scripts(void **state)
{
    static struct script s;
    (void)state;

    FILE *f = open_scripts();
    while (next_script(f, 0, &s)) {
        classify(&s, false);
        expect(&s);

        struct tally *t = tally_of(&s);
        *(is_invalid(&s) ? &t->errors : &t->results) += 1;
        check_play(&s, IN_ORDER, 0);
        check_play(&s, FREELY, s.number);

        classify(&s, true);
        if (is_invalid(&s)) {
            t->strict_errors++;
            check_play(&s, STRICTLY, s.number + 1000);
        }
    }

    fclose(f);
    for (size_t i = 0; i < WEFT_LEN(tallies); i++) {
        const struct tally *t = &tallies[i];
        print_message("%-22s %-6s %3d results, %d errors; %d errors if a wait needs a set\n",
                      t->family, t->outcome, t->results, t->errors, t->strict_errors);
        assert_int_equal(t->results, t->want_results);
        assert_int_equal(t->errors, t->want_errors);
    }
}

/* The reference also accepts a tensor and a wait before the set of their step, because other
 * threads of the device may still register.  A rank has one thread: these calls are errors, and
 * the same calls after the registration give the result of the reference. */
static void test_late_set(void **state)
{
    static struct script s;
    (void)state;
    FILE *f = open_scripts();
    assert_true(next_script(f, 359, &s));
    fclose(f);
    assert_int_equal(s.at[2].kind, 'R');
    struct event set = s.at[2];
    memmove(s.at + 1, s.at, 2 * sizeof *s.at);
    s.at[0] = set;
    classify(&s, true);
    assert_false(is_invalid(&s));
    expect(&s);
    check_play(&s, IN_ORDER, 0);
    check_play(&s, FREELY, 1);
}

/* Plays random scripts in which ranks push several tensors of a parameter.  The tensors are
 * multiples of 1/4, so the expected sums and the divisors of the means are exact. */
static void test_counts(void **state)
{
    static struct script s;
    (void)state;

    for (uint32_t k = 0; k < 40; k++) {
        s = (struct script){.number = k,
                            .outcome = "none",
                            .n_ranks = 1 + k % MAX_RANKS,
                            .op = k % 8 < 4 ? WEFT_SYNC_SUM : WEFT_SYNC_MEAN};

        for (uint32_t i = 0; i < 3; i++)
            s.sizes[i] = i + 1;

        for (uint32_t r = 0; r < s.n_ranks; r++) {
            struct event *set = &s.at[s.n++];
            *set = (struct event){.kind = 'R', .rank = r};
            for (size_t i = wf_random_below(k, r, 0, MAX_IDS); i > 0; i--)
                set->ids[set->n++] = wf_random_below(k, r, i, 3);

            for (size_t i = 0; i < set->n; i++) {
                struct event *e = &s.at[s.n++];
                *e = (struct event){.kind = 'T', .rank = r, .n = s.sizes[set->ids[i]]};
                e->ids[0] = set->ids[i];
                for (size_t j = 0; j < e->n; j++)
                    e->values[j] = 0.25F * (float)wf_random_below(k, 100 + r, i * 8 + j, 1000);
            }
            s.at[s.n++] = (struct event){.kind = 'S', .rank = r};
        }

        classify(&s, true);
        assert_false(is_invalid(&s));
        expect(&s);
        check_play(&s, FREELY, k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scripts),
        cmocka_unit_test(test_late_set),
        cmocka_unit_test(test_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
