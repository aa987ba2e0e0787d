/* Blocking sends and receives of single messages. */
#include "runtime/comm/blocking.h"

#include <string.h>

#include "base/error.h"

enum weft_status wf_comm_send_blocking(struct weft_comm *comm, struct weft_message m,
                                       struct weft_error *err)
{
    WEFT_TRY(weft_comm_send(comm, &m, err));
    return weft_comm_wait(comm, &m, err);
}

enum weft_status wf_comm_receive_blocking(struct weft_comm *comm, struct weft_message m,
                                          struct weft_error *err)
{
    void *out = m.data;
    WEFT_TRY(weft_comm_post(comm, &m, err));
    WEFT_TRY(weft_comm_wait(comm, &m, err));
    /* The transport returned the sender's memory: copy the data. */
    if (m.data != out && m.bytes != 0)
        memcpy(out, m.data, m.bytes);
    weft_comm_release(comm, &m);
    return WEFT_OK;
}
