/* Parses the description of a cluster and finds the link between two ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/units.h"
#include "weft/sim.h"

struct cluster_reader {
    const char *text, *at;
    struct weft_error *err;
};

static enum weft_status fail_here(const struct cluster_reader *r, const char *what)
{
    return WEFT_FAIL(r->err, WEFT_USAGE,
                     "cluster, column %zu: %s; write it as 'node:4 rank:2 intra:200GB/s,2us "
                     "inter:25GB/s,8us'",
                     (size_t)(r->at - r->text) + 1, what);
}

static bool take(struct cluster_reader *r, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

static bool at_end(const struct cluster_reader *r)
{
    return *r->at == '\0' || *r->at == ' ';
}

static enum weft_status read_count(struct cluster_reader *r, uint32_t *out)
{
    char *end = NULL;
    unsigned long long n = *r->at >= '0' && *r->at <= '9' ? strtoull(r->at, &end, 10) : 0;
    if (n == 0 || n > 1u << 24)
        return fail_here(r, "expected a number from 1 to 16777216");
    r->at = end;
    *out = (uint32_t)n;
    return WEFT_OK;
}

/* Reads a number with a unit.  An unknown unit fails with the text `expected`. */
static enum weft_status read_amount(struct cluster_reader *r, enum wf_quantity quantity,
                                    const char *expected, double *out)
{
    const char *end = NULL;
    struct wf_amount amount = {0};
    bool digit = (*r->at >= '0' && *r->at <= '9') || *r->at == '.';
    enum wf_amount_result result =
        digit ? wf_amount_read(r->at, quantity, &amount, &end) : WF_AMOUNT_NO_NUMBER;
    if (result == WF_AMOUNT_NO_NUMBER || !isfinite(amount.number) || amount.number < 0)
        return fail_here(r, "expected a number");
    r->at = end;
    if (result == WF_AMOUNT_BAD_UNIT || amount.scale == 0)
        return fail_here(r, expected);
    *out = wf_amount_value(amount, quantity);
    return isfinite(*out) ? WEFT_OK : fail_here(r, "the value is out of range");
}

static enum weft_status read_link(struct cluster_reader *r, struct weft_link *out)
{
    WEFT_TRY(read_amount(r, WF_QUANTITY_BANDWIDTH,
                         "expected a unit of bandwidth such as B/s, GB/s, Gb/s or Gbit/s",
                         &out->bytes_per_second));
    if (out->bytes_per_second == 0)
        return fail_here(r, "the bandwidth is 0");
    if (take(r, ","))
        WEFT_TRY(read_amount(r, WF_QUANTITY_TIME, "expected a unit of latency: s, ms, us or ns",
                             &out->latency_seconds));
    return WEFT_OK;
}

enum weft_status weft_cluster_parse(const char *text, struct weft_cluster *out,
                                    struct weft_error *err)
{
    struct cluster_reader r = {text, text, err};
    struct weft_cluster c = {.nodes = 0};
    bool intra = false, inter = false;

    while (*r.at != '\0') {
        if (take(&r, " "))
            continue;
        if (c.nodes == 0 && take(&r, "node:"))
            WEFT_TRY(read_count(&r, &c.nodes));
        else if (c.ranks_per_node == 0 && take(&r, "rank:"))
            WEFT_TRY(read_count(&r, &c.ranks_per_node));
        else if (!intra && (intra = take(&r, "intra:")))
            WEFT_TRY(read_link(&r, &c.intra));
        else if (!inter && (inter = take(&r, "inter:")))
            WEFT_TRY(read_link(&r, &c.inter));
        else
            return fail_here(&r, "expected node:, rank:, intra: or inter:, each once");
        if (!at_end(&r))
            return fail_here(&r, "expected a blank");
    }

    if (c.ranks_per_node == 0)
        return fail_here(&r, "rank: is missing");
    if (c.nodes == 0)
        c.nodes = 1;
    if (!inter)
        c.inter = c.intra;
    *out = c;
    return WEFT_OK;
}

struct weft_link weft_cluster_link(const struct weft_cluster *c, uint32_t from, uint32_t to)
{
    return from / c->ranks_per_node == to / c->ranks_per_node ? c->intra : c->inter;
}
