/* Prints the flight record of a rank as one line. */
#include <inttypes.h>
#include <stdio.h>

#include "weft/comm.h"

int main(int argc, char **argv)
{
    static const char *const states[] = {"running", "done", "failed"};
    struct weft_flight f;
    struct weft_error err;
    if (argc != 2 || weft_flight_read(argv[1], &f, &err) != WEFT_OK) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: flight FILE" : err.msg);
        return 1;
    }
    printf("rank %u of %u: %s, step %" PRIu64 ", %s%s%s\n", f.rank, f.n_ranks, states[f.state],
           f.step, f.doing, f.error[0] != '\0' ? ": " : "", f.error);
    return 0;
}
