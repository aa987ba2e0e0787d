/* Tests the findings for small incorrect schedules.  The first group passes the validator of
 * PyTorch's pipelining. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "weft/verify.h"

#define DIRECTION false
#define PAIR true
#define BUFFERED WEFT_CHANNEL_BUFFERED

enum { CORRECT = -1, UNREADABLE = -2 }; /* instead of a rule */
enum { NOWHERE = -1 };                  /* instead of a position */

static struct finding_case {
    const char *name, *text;
    size_t depth;
    bool by_pair;
    int rule, rank, position;
    const char *words;
} cases[] = {
    {"a forward twice", "0F0,0F0,0B0", BUFFERED, DIRECTION, WEFT_RULE_DUPLICATE, 0, 1,
     "0F0 is listed twice"},
    {"a backward twice", "0F0,0F1,0B0,0B1,0B0", BUFFERED, DIRECTION, WEFT_RULE_DUPLICATE, 0, 4,
     "0B0 is listed twice"},
    {"an input gradient twice", "0F0,0I0,0W0,0I0", BUFFERED, DIRECTION, WEFT_RULE_DUPLICATE, 0,
     3, "0I0 is listed twice"},
    {"one micro with B and I and W, another with none", "0F0,0F1,0B0,0I0,0W0", BUFFERED,
     DIRECTION, WEFT_RULE_MIXED, 0, 3, "0I0 mixes a whole backward with a split one"},
    {"the micro without a backward is reported", "0F0,0F1,0B0,0I0,0W0", BUFFERED, DIRECTION,
     WEFT_RULE_MISSING, 0, 1, "stage 0, micro 1: no backward"},
    {"a gap in the micros", "0F0,0F2,0B0,0B2", BUFFERED, DIRECTION, WEFT_RULE_MISSING, 0, 4,
     "stage 0, micro 1: no forward"},
    {"the backward of a missing micro", "0F0,0F2,0B0,0B2", BUFFERED, DIRECTION,
     WEFT_RULE_MISSING, 0, 4, "stage 0, micro 1: no backward"},
    {"micros from 1", "0F1,0F2,0B1,0B2", BUFFERED, DIRECTION, WEFT_RULE_MISSING, 0, 4,
     "stage 0, micro 0: no forward"},
    {"micros differ between stages: 0 is not on stage 1", "0F0,0F1,0B0,0B1\n1F1,1F2,1B1,1B2",
     BUFFERED, DIRECTION, WEFT_RULE_MISSING, 1, 4, "stage 1, micro 0: no forward"},
    {"micros differ between stages: 2 has no source", "0F0,0F1,0B0,0B1\n1F1,1F2,1B1,1B2",
     BUFFERED, DIRECTION, WEFT_RULE_MISSING, 0, 4, "stage 0, micro 2: no forward"},
    {"ranks that wait for each other", "0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1", BUFFERED, DIRECTION,
     WEFT_RULE_DEADLOCK, 0, 1, "0B0 waits for 1B0 of rank 1"},
    {"the other rank of that cycle", "0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1", BUFFERED, DIRECTION,
     WEFT_RULE_DEADLOCK, 1, 0, "1F1 waits for 0F1 of rank 0"},
    {"a stage beyond the others", "0F0,0B0\n5F0,5B0", BUFFERED, DIRECTION, UNREADABLE, 0, 0,
     "t:2:1: 6 stages in a file of 4 cells"},
    {"a stage in the middle missing", "0F0,0B0\n2F0,2B0", BUFFERED, DIRECTION,
     WEFT_RULE_MISSING, 0, 2, "stage 1, micro 0: no forward"},
    {"a stage far beyond the others", "0F0,0F1,0F2,0B0,9B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2",
     BUFFERED, DIRECTION, WEFT_RULE_MISSING, 0, NOWHERE,
     "10 stages x 3 micros need more than 12 actions"},
    {"nothing at all", "", BUFFERED, DIRECTION, UNREADABLE, 0, 0, "t: no actions"},
    {"no micro at all", "0REDUCE_GRAD", BUFFERED, DIRECTION, WEFT_RULE_MISSING, 0, 1,
     "stage 0, micro 0: no forward"},
    {"the last rank of PyTorch's 1F1B table",
     "0F0,0F1,0B0,0F2,0B1,0B2\n1F1,1B0,1F2,1B1,1F3,1B2", BUFFERED, DIRECTION, WEFT_RULE_ORDER,
     1, 1, "1B0 runs before its forward"},
    {"a micro that PyTorch's 1F1B table invents",
     "0F0,0F1,0B0,0F2,0B1,0B2\n1F1,1B0,1F2,1B1,1F3,1B2", BUFFERED, DIRECTION, WEFT_RULE_MISSING,
     0, 6, "stage 0, micro 3: no forward"},
    {"the consequence of an invented micro", "0F0,0F1,0B0,0F2,0B1,0B2\n1F1,1B0,1F2,1B1,1F3,1B2",
     BUFFERED, DIRECTION, WEFT_RULE_MISSING, 1, 4, "stage 1, micro 3: no backward"},
    {"a missing backward is reported at the last action",
     "0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0RECV_B1,0B1\n"
     "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1",
     BUFFERED, DIRECTION, WEFT_RULE_MISSING, 0, 2, "stage 0, micro 0: no backward"},
    {"a stage without actions is reported at the end of the list",
     "0F0,0F1,0B0,0B1\n2F0,2B0,2F1,2B1", BUFFERED, DIRECTION, WEFT_RULE_MISSING, 0, 4,
     "stage 1, micro 1: no backward"},

    /* -- forward-only -- */
    {"a forward-only schedule needs every forward", "0F0,0F1,0F2\n1F0,1F2", BUFFERED, DIRECTION,
     WEFT_RULE_MISSING, 1, 2, "stage 1, micro 1: no forward"},
    {"a forward-only schedule needs its messages", "0F0,0SEND_F0,0F1\n1RECV_F0,1F0,1F1",
     BUFFERED, DIRECTION, WEFT_RULE_MISSING, 0, 2,
     "stage 0, micro 1: the output is not sent (SEND_F)"},
    {"a forward-only schedule may deadlock", "0F0,2F1,0F1,2F0\n1F1,1F0", BUFFERED, DIRECTION,
     WEFT_RULE_DEADLOCK, 0, 1, "2F1 waits for 1F1 of rank 1"},
    {"all backwards but one are missing", "0F0,0F1,0B0\n1F0,1F1", BUFFERED, DIRECTION,
     WEFT_RULE_MISSING, 1, 0, "stage 1, micro 0: no backward"},
    {"a gradient message without a backward", "0F0,0SEND_F0,0RECV_B0\n1RECV_F0,1F0", BUFFERED,
     DIRECTION, WEFT_RULE_MISSING, 0, 2, "stage 0, micro 0: no backward"},
    {"a reduction without a backward", "0F0,0REDUCE_GRAD", BUFFERED, DIRECTION,
     WEFT_RULE_MISSING, 0, 0, "stage 0, micro 0: no backward"},

    /* -- computing -- */
    {"a backward before its forward", "0B0,0F0", BUFFERED, DIRECTION, WEFT_RULE_ORDER, 0, 0,
     "0B0 runs before its forward"},
    {"an input gradient before its forward", "0I0,0F0,0W0", BUFFERED, DIRECTION,
     WEFT_RULE_ORDER, 0, 0, "0I0 runs before its forward"},
    {"a weight gradient before the input gradient", "0F0,0W0,0I0", BUFFERED, DIRECTION,
     WEFT_RULE_ORDER, 0, 1, "0W0 runs before its input gradient"},
    {"a weight gradient alone", "0F0,0W0", BUFFERED, DIRECTION, WEFT_RULE_MISSING, 0, 1,
     "W but no I"},
    {"an input gradient alone", "0F0,0I0", BUFFERED, DIRECTION, WEFT_RULE_MISSING, 0, 1,
     "I but no W"},
    {"a backward on another rank than its forward", "0F0,0B0,1F0\n1B0", BUFFERED, DIRECTION,
     WEFT_RULE_RANK, 1, 0, "1B0 is on another rank than the rest of its stage and micro"},
    {"stages of one rank in the wrong order", "1F0,0F0,1B0,0B0", BUFFERED, DIRECTION,
     WEFT_RULE_DEADLOCK, 0, 0, "1F0 waits for 0F0 of rank 0"},
    {"a pair of a micro with itself", "(0F0;0B0)OVERLAP_F_B", BUFFERED, DIRECTION,
     WEFT_RULE_DEADLOCK, 0, 1, "action 1: 0B0 waits for 0F0 of rank 0"},
    {"a pair whose first half waits", "0F0,0B0,0F1,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1", BUFFERED,
     DIRECTION, WEFT_RULE_DEADLOCK, 1, 1, "action 1: 1F1 waits for 0F1 of rank 0"},
    {"a pair whose second half waits", "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1F1,1B1,1B0",
     BUFFERED, DIRECTION, WEFT_RULE_DEADLOCK, 0, 2, "action 2: 0B0 waits for 1B0 of rank 1"},
    {"a pair whose backward precedes its forward", "(0F1;0B0)OVERLAP_F_B,0F0,0B1", BUFFERED,
     DIRECTION, WEFT_RULE_ORDER, 0, 1, "0B0 runs before its forward"},

    /* -- waits -- */
    {"a send without a wait",
     "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0", BUFFERED, PAIR,
     WEFT_RULE_WAIT, 0, 1, "0SEND_F0 has no wait after it"},
    {"a wait before its send",
     "0F0,0WAIT_SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0",
     BUFFERED, PAIR, WEFT_RULE_WAIT, 0, 1,
     "0WAIT_SEND_F0 waits for a send that is not under way"},
    {"two waits for a send",
     "0F0,0SEND_F0,0WAIT_SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0\n"
     "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0",
     BUFFERED, PAIR, WEFT_RULE_WAIT, 0, 5,
     "0WAIT_SEND_F0 waits for a send that is not under way"},
    {"a wait in front of what the receiver waits for",
     "0F0,0SEND_F0,0WAIT_SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0WAIT_SEND_F1\n"
     "1RECV_F1,1F1,1RECV_F0,1F0,1B0,1SEND_B0,1B1,1SEND_B1,1WAIT_SEND_B0,1WAIT_SEND_B1",
     BUFFERED, PAIR, WEFT_RULE_CHANNEL, 1, 0, "1RECV_F1"},
    {"a wait that deadlocks",
     "0F0,0SEND_F0,0F1,0SEND_F1,0WAIT_SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0WAIT_SEND_F0\n"
     "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1WAIT_SEND_B1",
     BUFFERED, PAIR, WEFT_RULE_DEADLOCK, 0, 4, "0WAIT_SEND_F1 waits for 1RECV_F1 of rank 1"},
    {"two reductions at once", "0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD,1WAIT_REDUCE_GRAD",
     BUFFERED, PAIR, WEFT_RULE_WAIT, 0, 5, "0REDUCE_GRAD starts while another reduction"},
    {"a reduction without a wait",
     "0F0,1F0,1B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,0B0,0REDUCE_GRAD", BUFFERED, PAIR,
     WEFT_RULE_WAIT, 0, 6, "0REDUCE_GRAD has no wait after it"},
    {"a wait for another reduction", "0F0,1F0,1B0,1REDUCE_GRAD,0WAIT_REDUCE_GRAD,0B0", BUFFERED,
     PAIR, WEFT_RULE_MISSING, 0, 5, "0REDUCE_GRAD is missing"},

    /* -- messages -- */
    {"a forward before its receive", "0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0",
     BUFFERED, DIRECTION, WEFT_RULE_ORDER, 1, 0, "1F0 runs before its input is received"},
    {"a backward before its receive", "0F0,0SEND_F0,0B0,0RECV_B0\n1RECV_F0,1F0,1B0,1SEND_B0",
     BUFFERED, DIRECTION, WEFT_RULE_ORDER, 0, 2, "0B0 runs before its gradient is received"},
    {"a receive twice", "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1RECV_F0,1F0,1B0,1SEND_B0",
     BUFFERED, DIRECTION, WEFT_RULE_DUPLICATE, 1, 1, "1RECV_F0 is listed twice"},
    {"a send twice", "0F0,0SEND_F0,0RECV_B0,0B0,0SEND_F0\n1RECV_F0,1F0,1B0,1SEND_B0", BUFFERED,
     DIRECTION, WEFT_RULE_DUPLICATE, 0, 4, "0SEND_F0 is listed twice"},
    {"a send without a receive", "0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", BUFFERED,
     DIRECTION, WEFT_RULE_MISSING, 0, 2,
     "stage 0, micro 0: the gradient is not received (RECV_B)"},
    {"a receive without a send", "0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", BUFFERED,
     DIRECTION, WEFT_RULE_MISSING, 0, 2, "stage 0, micro 0: the output is not sent (SEND_F)"},
    {"a send of data that is not computed",
     "0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", BUFFERED, DIRECTION,
     WEFT_RULE_ORDER, 0, 0, "0SEND_F0 sends data that is not computed yet"},
    {"a send of a gradient that is not computed",
     "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1SEND_B0,1B0", BUFFERED, DIRECTION,
     WEFT_RULE_ORDER, 1, 2, "1SEND_B0 sends data that is not computed yet"},
    {"a send beyond the last stage", "0F0,0SEND_F0,0B0", BUFFERED, DIRECTION, WEFT_RULE_MESSAGE,
     0, 1, "0SEND_F0 has no other rank as its peer"},
    {"a receive before the first stage", "0RECV_F0,0F0,0B0", BUFFERED, DIRECTION,
     WEFT_RULE_MESSAGE, 0, 0, "0RECV_F0 has no other rank as its peer"},
    {"a message between stages of one rank", "0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0", BUFFERED,
     DIRECTION, WEFT_RULE_MESSAGE, 0, 1, "0SEND_F0 has no other rank"},
    {"a receive on a rank without the stage",
     "0F0,0SEND_F0,0RECV_B0,0B0,1RECV_F0\n1F0,1B0,1SEND_B0", BUFFERED, DIRECTION,
     WEFT_RULE_RANK, 0, 4, "1RECV_F0 is on another rank than the rest of its stage and micro"},
    {"a receive before the send that causes it",
     "0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", BUFFERED, DIRECTION,
     WEFT_RULE_DEADLOCK, 0, 1, "0RECV_B0 waits for 1SEND_B0 of rank 1"},

    /* -- reductions -- */
    {"a reduction before any gradient", "0F0,0REDUCE_GRAD,0B0", BUFFERED, DIRECTION,
     WEFT_RULE_ORDER, 0, 1, "0REDUCE_GRAD reduces a gradient that its rank has not computed"},
    {"a reduction before the last gradient", "0F0,0F1,0B0,0REDUCE_GRAD,0B1", BUFFERED,
     DIRECTION, WEFT_RULE_ORDER, 0, 4, "0B1 adds to a gradient that is already reduced"},
    {"a reduction between I and W", "0F0,0F1,0B0,0I1,0REDUCE_GRAD,0W1", BUFFERED, DIRECTION,
     WEFT_RULE_ORDER, 0, 5, "0W1 adds to a gradient that is already reduced"},
    {"a reduction twice", "0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD", BUFFERED, DIRECTION,
     WEFT_RULE_DUPLICATE, 0, 3, "0REDUCE_GRAD is listed twice"},
    {"a reduction of another rank's stage", "0F0,0B0,1REDUCE_GRAD\n1F0,1B0", BUFFERED,
     DIRECTION, WEFT_RULE_ORDER, 0, 2,
     "1REDUCE_GRAD reduces a gradient that its rank has not computed"},

    {"one of two ranks of a stage reduces",
     "0F0,0B0,1F1,1B1,0REDUCE_GRAD,1REDUCE_GRAD\n1F0,1B0,0F1,0B1,1REDUCE_GRAD", BUFFERED,
     DIRECTION, WEFT_RULE_MISSING, 1, 3,
     "rank 1: 0REDUCE_GRAD is missing: either all ranks reduce all of their stages, or none"},
    {"one of two stages of a rank is reduced", "0F0,1F0,1B0,1REDUCE_GRAD,0B0", BUFFERED,
     DIRECTION, WEFT_RULE_MISSING, 0, 4,
     "rank 0: 0REDUCE_GRAD is missing: either all ranks reduce all of their stages, or none"},
    {"one of two ranks reduces", "0F0,0B0,0REDUCE_GRAD\n1F0,1B0", BUFFERED, DIRECTION,
     WEFT_RULE_MISSING, 1, 1,
     "rank 1: 1REDUCE_GRAD is missing: either all ranks reduce all of their stages, or none"},
    {"a missing reduction is reported at the weight gradient",
     "0F0,0I0,0F1,0W0,0I1,0W1,0SEND_F1\n1F0,1I0,1W0,1F1,1I1,1W1,1REDUCE_GRAD", BUFFERED,
     DIRECTION, WEFT_RULE_MISSING, 0, 5, "rank 0: 0REDUCE_GRAD is missing"},
    {"all ranks of all stages reduce",
     "0F0,0B0,1F1,1B1,0REDUCE_GRAD,1REDUCE_GRAD\n1F0,1B0,0F1,0B1,1REDUCE_GRAD,0REDUCE_GRAD",
     BUFFERED, PAIR, CORRECT, 0, 0, ""},
    {"a rank with only forwards of a stage has no gradient to reduce",
     "0F0,0B0,1F0,0REDUCE_GRAD\n1B0,1REDUCE_GRAD", BUFFERED, DIRECTION, WEFT_RULE_RANK, 1, 0,
     "1B0 is on another rank"},
    /* As PyTorch prints it: parameters are gathered first, gradients reduced after the last
     * one. */
    {"PyTorch's table with messages and all reductions",
     "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0RESHARD,0REDUCE_GRAD\n"
     "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1RESHARD,1REDUCE_GRAD",
     BUFFERED, DIRECTION, CORRECT, 0, 0, ""},
    {"PyTorch's table with one of two reductions",
     "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0RESHARD\n"
     "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1RESHARD,1REDUCE_GRAD",
     BUFFERED, DIRECTION, WEFT_RULE_MISSING, 0, 8, "rank 0: 0REDUCE_GRAD is missing"},

    /* -- channels -- */
    {"receives swapped against the sends",
     "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
     "1RECV_F1,1RECV_F0,1F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1",
     BUFFERED, DIRECTION, WEFT_RULE_CHANNEL, 1, 0,
     "1RECV_F1 is receive 0 of the channel from rank 0, but its send is number 1"},
    {"gradients swapped against their sends",
     "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
     "1RECV_F0,1RECV_F1,1F0,1F1,1B1,1SEND_B1,1B0,1SEND_B0",
     BUFFERED, DIRECTION, WEFT_RULE_CHANNEL, 0, 4,
     "0RECV_B0 is receive 0 of the channel from rank 1, but its send is number 1"},
    /* Rank 0 sends F1 of stage 0, then B0 of stage 3; rank 1 receives B0 first, as PyTorch does
     * with defer_pp_recv.  (What agrees by pair always agrees by direction.) */
    {"directions that overtake each other have their own queues",
     "0F0,0SEND_F0,3RECV_F0,3F0,0F1,0SEND_F1,3B0,3SEND_B0,0RECV_B0,0B0,3RECV_F1,3F1,3B1,3SEND_B1,"
     "0RECV_B1,0B1\n"
     "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0,1RECV_F1,1F1,2F1,2SEND_F1,2RECV_B1,2B1,"
     "1B1,1SEND_B1",
     BUFFERED, DIRECTION, CORRECT, 0, 0, ""},
    {"directions that overtake each other in one queue",
     "0F0,0SEND_F0,3RECV_F0,3F0,0F1,0SEND_F1,3B0,3SEND_B0,0RECV_B0,0B0,3RECV_F1,3F1,3B1,3SEND_B1,"
     "0RECV_B1,0B1\n"
     "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0,1RECV_F1,1F1,2F1,2SEND_F1,2RECV_B1,2B1,"
     "1B1,1SEND_B1",
     BUFFERED, PAIR, WEFT_RULE_CHANNEL, 1, 4,
     "2RECV_B0 is receive 1 of the channel from rank 0, but its send is number 2"},

    /* -- transports -- */
    {"two opposite sends, depth 1",
     "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
     "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1",
     1, DIRECTION, CORRECT, 0, 0, ""},
    {"two opposite sends, depth 0",
     "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
     "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1",
     0, DIRECTION, WEFT_RULE_DEADLOCK, 0, 3, "0SEND_F1 waits for 1RECV_F1 of rank 1"},
    {"the other of the two opposite sends",
     "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
     "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1",
     0, DIRECTION, WEFT_RULE_DEADLOCK, 1, 3, "1SEND_B0 waits for 0RECV_B0 of rank 0"},
    {"four sends into a V, depth 2",
     "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0F3,0SEND_F3,3RECV_F0,3F0,3RECV_F1,3F1,3RECV_F2,3F2,"
     "3RECV_F3,3F3,3B0,3SEND_B0,0RECV_B0,0B0,3B1,3SEND_B1,0RECV_B1,0B1,3B2,3SEND_B2,0RECV_B2,0B2,"
     "3B3,3SEND_B3,0RECV_B3,0B3\n"
     "1RECV_F0,1F0,2F0,2SEND_F0,1RECV_F1,1F1,2F1,2SEND_F1,1RECV_F2,1F2,2F2,2SEND_F2,1RECV_F3,1F3,"
     "2F3,2SEND_F3,2RECV_B0,2B0,1B0,1SEND_B0,2RECV_B1,2B1,1B1,1SEND_B1,2RECV_B2,2B2,1B2,1SEND_B2,"
     "2RECV_B3,2B3,1B3,1SEND_B3",
     2, DIRECTION, CORRECT, 0, 0, ""},
    {"four sends into a V, depth 1: the wait names the receive that it needs",
     "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0F3,0SEND_F3,3RECV_F0,3F0,3RECV_F1,3F1,3RECV_F2,3F2,"
     "3RECV_F3,3F3,3B0,3SEND_B0,0RECV_B0,0B0,3B1,3SEND_B1,0RECV_B1,0B1,3B2,3SEND_B2,0RECV_B2,0B2,"
     "3B3,3SEND_B3,0RECV_B3,0B3\n"
     "1RECV_F0,1F0,2F0,2SEND_F0,1RECV_F1,1F1,2F1,2SEND_F1,1RECV_F2,1F2,2F2,2SEND_F2,1RECV_F3,1F3,"
     "2F3,2SEND_F3,2RECV_B0,2B0,1B0,1SEND_B0,2RECV_B1,2B1,1B1,1SEND_B1,2RECV_B2,2B2,1B2,1SEND_B2,"
     "2RECV_B3,2B3,1B3,1SEND_B3",
     1, DIRECTION, WEFT_RULE_DEADLOCK, 0, 7, "0SEND_F3 waits for 1RECV_F2 of rank 1"},
    {"the other rank of that V",
     "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0F3,0SEND_F3,3RECV_F0,3F0,3RECV_F1,3F1,3RECV_F2,3F2,"
     "3RECV_F3,3F3,3B0,3SEND_B0,0RECV_B0,0B0,3B1,3SEND_B1,0RECV_B1,0B1,3B2,3SEND_B2,0RECV_B2,0B2,"
     "3B3,3SEND_B3,0RECV_B3,0B3\n"
     "1RECV_F0,1F0,2F0,2SEND_F0,1RECV_F1,1F1,2F1,2SEND_F1,1RECV_F2,1F2,2F2,2SEND_F2,1RECV_F3,1F3,"
     "2F3,2SEND_F3,2RECV_B0,2B0,1B0,1SEND_B0,2RECV_B1,2B1,1B1,1SEND_B1,2RECV_B2,2B2,1B2,1SEND_B2,"
     "2RECV_B3,2B3,1B3,1SEND_B3",
     1, DIRECTION, WEFT_RULE_DEADLOCK, 1, 7, "2SEND_F1 waits for 3RECV_F0 of rank 0"},

    /* -- correct -- */
    {"the smallest schedule", "0F0,0B0", 0, PAIR, CORRECT, 0, 0, ""},
    {"PyTorch's parameter actions are ignored", "0UNSHARD,0F0,0B0,0RESHARD,0REDUCE_GRAD", 0,
     PAIR, CORRECT, 0, 0, ""},
    {"a stage on two ranks for different micros", "0F0,0B0,1F1,1B1\n1F0,1B0,0F1,0B1", BUFFERED,
     PAIR, CORRECT, 0, 0, ""},
    {"a pair", "0F0,(0F1;0B0)OVERLAP_F_B,0B1", 0, PAIR, CORRECT, 0, 0, ""},
};

static void check_cycle(const struct weft_verify_result *r)
{
    assert_true(r->n_cycle > 0);
    for (size_t i = 0; i < r->n_cycle; i++) {
        const struct weft_wait *w = &r->cycle[i], *next = &r->cycle[(i + 1) % r->n_cycle];
        assert_int_equal(w->for_rank, next->rank);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(r->cycle[k].rank, w->rank);
    }
}

/* The detail of a finding follows the position with which its text starts, if it starts with
 * one. */
static void check_detail(const struct weft_finding *f)
{
    char action[60], rank[30];
    int n = snprintf(action, sizeof action, "rank %u, action %zu: ", f->rank, f->position);
    int m = snprintf(rank, sizeof rank, "rank %u: ", f->rank);
    bool at_action = f->has_position && strncmp(f->text, action, (size_t)n) == 0;
    bool at_rank = f->has_position && strncmp(f->text, rank, (size_t)m) == 0;
    assert_int_equal(f->detail, at_action ? n : at_rank ? m : 0);
    assert_int_not_equal(strncmp(f->text + f->detail, "rank ", 5), 0);
}

/* Every stored finding has a text, and the expected one is among them. */
static bool has_finding(const struct weft_verify_result *r, const struct finding_case *c)
{
    bool has = false;
    for (size_t i = 0; i < r->n_findings && i < WEFT_MAX_FINDINGS; i++) {
        const struct weft_finding *f = &r->findings[i];
        assert_string_not_equal(weft_rule_name(f->rule), "?");
        assert_true(strlen(f->text) > 10);
        check_detail(f);
        if ((int)f->rule == c->rule && (int)f->rank == c->rank &&
            f->has_position == (c->position != NOWHERE) &&
            (!f->has_position || f->position == (size_t)c->position) &&
            strstr(f->text, c->words) != NULL)
            has = true;
    }
    return has;
}

static void print_findings(const struct weft_verify_result *r)
{
    for (size_t i = 0; i < r->n_findings && i < 8; i++)
        print_error("%s: rank %u, position %zd: %s\n", weft_rule_name(r->findings[i].rule),
                    r->findings[i].rank, (ptrdiff_t)r->findings[i].position,
                    r->findings[i].text);
}

static void check_finding(void **state)
{
    const struct finding_case *c = *state;
    const struct weft_channel_model transport = {c->depth, c->by_pair};
    struct weft_schedule *s = NULL;
    struct weft_error err = {.msg = ""};
    struct weft_verify_result r;
    enum weft_status st = weft_schedule_parse(c->text, strlen(c->text), "t", &s, &err);

    if (c->rule == UNREADABLE) {
        assert_int_equal(st, WEFT_SCHEDULE);
        assert_non_null(strstr(err.msg, c->words));
        return;
    }
    assert_int_equal(st, WEFT_OK);
    assert_int_equal(weft_verify(s, &transport, &r, &err), WEFT_OK);

    if (c->rule == CORRECT ? r.n_findings > 0 : !has_finding(&r, c)) {
        print_findings(&r);
        fail();
    }

    if (c->rule == WEFT_RULE_DEADLOCK)
        check_cycle(&r);
    weft_verify_result_release(&r);
    weft_schedule_free(s);
}

/* -- channel models ------------------------------------------------------------------------ */

/* 1F1B sends in both directions at the same time in its steady state.  With late receives,
 * two ranks then both block at a send.  With PyTorch's common order of all messages they do
 * not, and a depth of one message is always sufficient. */
static struct transport_case {
    const char *name;
    enum weft_lowering how;
    size_t depth;
    bool right;
} transports[] = {
    {"1f1b, late receives, buffered", WEFT_LOWERING_WEFT, BUFFERED, true},
    {"1f1b, late receives, depth 1", WEFT_LOWERING_WEFT, 1, true},
    {"1f1b, late receives, rendezvous", WEFT_LOWERING_WEFT, 0, false},
    {"1f1b, as PyTorch, buffered", WEFT_LOWERING_TORCH_2_10, BUFFERED, true},
    {"1f1b, as PyTorch, depth 1", WEFT_LOWERING_TORCH_2_10, 1, true},
    {"1f1b, as PyTorch, rendezvous", WEFT_LOWERING_TORCH_2_10, 0, true},
};

static void check_transport(void **state)
{
    const struct transport_case *c = *state;
    const struct weft_gen_params params = {.ranks = 4, .micros = 8};
    const struct weft_channel_model transport = {.depth = c->depth};
    struct weft_schedule *s = NULL, *lowered = NULL;
    struct weft_verify_result r;
    assert_int_equal(weft_schedule_generate("1f1b", &params, &s, NULL), WEFT_OK);
    assert_int_equal(weft_schedule_lower(s, c->how, &lowered, NULL), WEFT_OK);
    assert_int_equal(weft_verify(lowered, &transport, &r, NULL), WEFT_OK);
    assert_int_equal(r.n_findings == 0, c->right);
    assert_int_equal(r.n_messages, 2 * 8 * 3);
    assert_int_equal(r.n_compute, 2 * 8 * 4);
    assert_int_equal(r.n_channels, 2 * 3);
    if (!c->right)
        check_cycle(&r);
    weft_verify_result_release(&r);
    weft_schedule_free(lowered);
    weft_schedule_free(s);
}

/* Findings beyond the maximum are still counted. */
static void check_many(void **state)
{
    (void)state;
    char text[4096] = "";
    size_t n = 0;
    for (int m = 0; m < 100; m++)
        n += (size_t)snprintf(text + n, sizeof text - n, "0F%d,0F%d,", m, m);
    n += (size_t)snprintf(text + n, sizeof text - n, "0B0");
    struct weft_schedule *s = NULL;
    struct weft_verify_result r;
    assert_int_equal(weft_schedule_parse(text, n, "t", &s, NULL), WEFT_OK);
    assert_int_equal(weft_verify(s, NULL, &r, NULL), WEFT_OK);
    assert_int_equal(r.n_findings, 100 + 99); /* each forward twice, one backward only */
    assert_int_equal(r.findings[WEFT_MAX_FINDINGS - 1].rule, WEFT_RULE_DUPLICATE);
    weft_verify_result_release(&r);
    weft_schedule_free(s);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + WEFT_LEN(transports) + 1];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[n++] = (struct CMUnitTest){cases[i].name, check_finding, NULL, NULL, &cases[i]};
    for (size_t i = 0; i < WEFT_LEN(transports); i++)
        tests[n++] = (struct CMUnitTest){transports[i].name, check_transport, NULL, NULL,
                                         &transports[i]};
    tests[n++] =
        (struct CMUnitTest){"more findings than are stored", check_many, NULL, NULL, NULL};
    return cmocka_run_group_tests_name("findings", tests, NULL, NULL) != 0;
}
