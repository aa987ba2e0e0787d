/* Parses any bytes as a chat template and renders a conversation with it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "require.h"
#include "training/chat/chat.h"
#include "training/chat/template.h"

static json_t *make_record(void)
{
    return json_loads("{\"messages\":[{\"role\":\"system\",\"content\":\" s \"},"
                      "{\"role\":\"user\",\"content\":\"a\\u00e9\"},"
                      "{\"role\":\"assistant\",\"content\":\"b\",\"n\":[1,-2.5,null,true]},"
                      "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"c\"}]},"
                      "{\"role\":\"assistant\",\"content\":\"d\"}]}",
                      0, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wf_chat *chat = NULL;
    struct weft_error err = {.msg = ""};
    if (size > 4096) /* longer templates only take longer */
        return 0;
    enum weft_status st = wf_chat_new((const char *)data, size, "t", NULL, &chat, &err);
    if (st != WEFT_OK) {
        require(chat == NULL && err.msg[0] != '\0' && err.status == st);
        return 0;
    }

    json_t *record = make_record();
    struct wf_chat_text out = {0};
    st = wf_chat_write(chat, record, &out, &err);
    require(st == WEFT_OK || err.msg[0] != '\0');
    size_t at = 0;
    for (size_t i = 0; st == WEFT_OK && i < out.n_answers; i++) {
        require(out.answers[i].begin < out.answers[i].end);
        require(out.answers[i].end <= out.text.len);
        at = out.answers[i].end;
    }
    require(at <= out.text.len);
    wf_chat_text_release(&out);
    json_decref(record);
    wf_chat_free(chat);
    return 0;
}
