/* Reads any bytes as the flight records of the ranks of a run, one after the other.  Checks that
 * what is printed about them is one line of printable text per rank, and valid JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"
#include "memory_file.h"
#include "printed.h"
#include "require.h"

enum { MAX_RECORDS = 8, RECORD_BYTES = 8 + sizeof(struct weft_flight), NOW = 1700000000 };

static void check_record(const struct weft_flight *r)
{
    struct printed text;
    printed_begin(&text);
    wf_flight_print(r, text.out);
    require(printed_end(&text) == 1);

    struct wf_inspection v = {.kind = WF_ARTIFACT_FLIGHT, .flight = *r};
    struct printed json;
    printed_begin(&json);
    wf_inspection_write_json(&(struct wf_json){.out = json.out}, &v, "fuzz");
    printed_end_json(&json);
}

static void check_ranks(struct wf_flights *f)
{
    size_t n_lost = 0;
    wf_flights_judge(f, f->at[0].host, NOW, 60);
    require(f->lost == SIZE_MAX || f->lost < f->n);
    for (size_t i = 0; i < f->n; i++) {
        require(wf_flights_ending(f, i)[0] != '\0');
        n_lost += wf_flights_may_be_lost(f, i);
        require(!wf_flights_may_be_lost(f, i) || i != f->lost);
    }

    struct printed text;
    printed_begin(&text);
    wf_flights_print(f, false, text.out);
    require(printed_end(&text) == 1 + f->n + (n_lost > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_flight records[MAX_RECORDS];
    enum wf_fate fates[MAX_RECORDS];
    struct wf_flights f = {.at = records, .fates = fates, .lost = SIZE_MAX};
    for (size_t at = 0; at < size && f.n < MAX_RECORDS; at += RECORD_BYTES) {
        size_t n = size - at < RECORD_BYTES ? size - at : RECORD_BYTES;
        struct weft_error err = {.msg = ""};
        enum weft_status st =
            wf_flights_read_one(memory_file(data + at, n), &records[f.n], &err);
        if (st == WEFT_OK)
            check_record(&records[f.n++]);
        else
            require(st == WEFT_DATA && err.status == st && err.msg[0] != '\0');
    }
    if (f.n > 0) {
        f.n_ranks = records[0].n_ranks;
        check_ranks(&f);
    }
    return 0;
}
