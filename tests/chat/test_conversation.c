/* Tests which part of a conversation is the assistant's, for the shapes of well-known templates,
 * and where the template of a model is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/input.h"
#include "folder.h"
#include "training/chat/chat.h"

static struct wf_chat *open_chat(const char *name)
{
    char path[512], *text = NULL;
    size_t len = 0;
    struct wf_chat *chat = NULL;
    json_t *tokens = json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "</s>");
    snprintf(path, sizeof path, WEFT_TEST_DATA "/chat/%s.jinja", name);
    assert_int_equal(wf_input_read(path, &text, &len, NULL), WEFT_OK);
    assert_int_equal(wf_chat_new(text, len, name, tokens, &chat, NULL), WEFT_OK);
    json_decref(tokens);
    free(text);
    return chat;
}

/* Returns the text with "«" and "»" around each answer. */
static char *mark(const struct wf_chat_text *t)
{
    struct wf_text out = {0};
    size_t at = 0;
    for (size_t i = 0; i < t->n_answers; i++) {
        wf_text_add(&out, t->text.at + at, t->answers[i].begin - at);
        wf_text_adds(&out, "«");
        wf_text_add(&out, t->text.at + t->answers[i].begin,
                    t->answers[i].end - t->answers[i].begin);
        wf_text_adds(&out, "»");
        at = t->answers[i].end;
    }
    wf_text_add(&out, t->text.at + at, t->text.len - at);
    return out.at;
}

#define FOUR                                                                                   \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"                                    \
    "{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"c\"},"        \
    "{\"role\":\"assistant\",\"content\":\"d e\"}]}"

/* The expected marks are written by hand: what the model generates after its prompt, with the
 * mark that ends its turn. */
static struct answer_case {
    const char *template, *record, *want;
} answers[] = {
    {"chatml", FOUR,
     "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n«b<|im_end|>»\n"
     "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n«d e<|im_end|>»\n"},
    {"chatml_generation", FOUR,
     "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n«b<|im_end|>»\n"
     "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n«d e<|im_end|>»\n"},
    {"llama3", FOUR,
     "<s><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\n«b<|eot_id|>»"
     "<|start_header_id|>user<|end_header_id|>\n\nc<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\n«d e<|eot_id|>»"},
    {"mistral", FOUR, "<s>[INST] a [/INST]«b</s>»[INST] c [/INST]«d e</s>»"},
    {"gemma", FOUR,
     "<s><start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\n«b<end_of_turn>»\n"
     "<start_of_turn>user\nc<end_of_turn>\n<start_of_turn>model\n«d e<end_of_turn>»\n"},
    {"zephyr", FOUR,
     "<|user|>\na</s>\n<|assistant|>\n«b</s>»\n<|user|>\nc</s>\n<|assistant|>\n«d e</s>»\n"},
    /* The last answer has an empty reasoning, the first one has none once a question follows. */
    {"qwen3", FOUR,
     "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n«b<|im_end|>»\n"
     "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"
     "«<think>\n\n</think>\n\nd e<|im_end|>»\n"},
    /* The end of the text follows only the last message. */
    {"phi3", FOUR,
     "<|user|>\na<|end|>\n<|assistant|>\n«b<|end|>»\n<|user|>\nc<|end|>\n<|assistant|>\n"
     "«d e<|end|>\n</s>»"},
    {"chatml", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
     "<|im_start|>user\na<|im_end|>\n"},
    {"chatml", "{\"messages\":[{\"role\":\"assistant\",\"content\":\" a \"}]}",
     "«<|im_start|>assistant\n a <|im_end|>»\n"},
};

static void check_answers(void **state)
{
    const struct answer_case *c = *state;
    struct wf_chat *chat = open_chat(c->template);
    struct wf_chat_text have = {0};
    struct weft_error err = {.msg = ""};
    json_t *record = json_loads(c->record, 0, NULL);
    assert_non_null(record);
    if (wf_chat_write(chat, record, &have, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    char *marked = mark(&have);
    assert_string_equal(marked, c->want);
    free(marked);
    wf_chat_text_release(&have);
    json_decref(record);
    wf_chat_free(chat);
}

static struct bad_case {
    const char *template, *record, *message;
} bad[] = {
    {"{{ messages[0].content }}", "{\"messages\":[]}", "\"messages\" is not a list"},
    {"{{ messages[0].content }}", "{\"messages\":[{\"content\":\"a\"}]}",
     "message 1 has no string \"role\""},
    {"{{ raise_exception('odd') }}", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
     "t:1: the template refuses the conversation: odd"},
    /* The number of all messages is before the first one. */
    {"{{ messages|length }}{% for m in messages %}{{ m.content }}{% endfor %}",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
     "{\"role\":\"assistant\",\"content\":\"b\"}]}",
     "the answer in message 2 cannot be found"},
};

static void check_bad(void **state)
{
    const struct bad_case *c = *state;
    struct wf_chat *chat = NULL;
    struct wf_chat_text have = {0};
    struct weft_error err = {.msg = ""};
    json_t *record = json_loads(c->record, 0, NULL);
    assert_int_equal(wf_chat_new(c->template, strlen(c->template), "t", NULL, &chat, NULL),
                     WEFT_OK);
    assert_int_equal(wf_chat_write(chat, record, &have, &err), WEFT_DATA);
    if (strstr(err.msg, c->message) == NULL)
        fail_msg("'%s' lacks '%s'", err.msg, c->message);
    wf_chat_text_release(&have);
    json_decref(record);
    wf_chat_free(chat);
}

static void put(const struct folder *f, const char *name, const char *text)
{
    FILE *out = fopen(folder_in(f, name), "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void assert_rendered(const char *path, const char *file, const char *want)
{
    struct wf_chat *chat = NULL;
    struct wf_text have = {0};
    struct weft_error err = {.msg = ""};
    json_t *record =
        json_loads("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", 0, NULL);
    if (wf_chat_open(path, file, &chat, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    if (want == NULL) {
        assert_null(chat);
    } else {
        assert_int_equal(wf_chat_render(chat, record, false, &have, NULL), WEFT_OK);
        assert_string_equal(have.at, want);
    }
    wf_text_release(&have);
    json_decref(record);
    wf_chat_free(chat);
}

/* The order of places, special tokens as strings and as objects, and lists of templates. */
static void templates_are_found(void **state)
{
    (void)state;
    struct folder f = folder_new();
    struct wf_chat *chat = NULL;
    struct weft_error err = {.msg = ""};
    assert_rendered(f.path, NULL, NULL);
    put(&f, "tokenizer_config.json", "{\"bos_token\": \"<s>\"}");
    assert_rendered(f.path, NULL, NULL);
    put(&f, "tokenizer_config.json",
        "{\"bos_token\": {\"content\": \"<b>\"}, \"chat_template\": [{\"name\": \"tool_use\", "
        "\"template\": \"x\"}, {\"name\": \"default\", \"template\": \"{{ bos_token }}1\"}]}");
    assert_rendered(f.path, NULL, "<b>1");
    put(&f, "tokenizer.json", "{}");
    assert_rendered(folder_in(&f, "tokenizer.json"), NULL, "<b>1");
    put(&f, "chat_template.jinja", "{{ bos_token }}2");
    assert_rendered(f.path, NULL, "<b>2");
    put(&f, "other.jinja", "{{ bos_token }}3");
    assert_rendered(f.path, folder_in(&f, "other.jinja"), "<b>3");
    assert_int_equal(wf_chat_open(f.path, folder_in(&f, "none"), &chat, &err), WEFT_DATA);
    put(&f, "chat_template.jinja", "\n{% import 'x' %}");
    assert_int_equal(wf_chat_open(f.path, NULL, &chat, &err), WEFT_DATA);
    assert_non_null(strstr(err.msg, "chat_template.jinja:2: the statement 'import'"));
    folder_remove(&f);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(answers) + WEFT_LEN(bad) + 1];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(answers); i++)
        tests[n++] =
            (struct CMUnitTest){answers[i].template, check_answers, NULL, NULL, &answers[i]};
    for (size_t i = 0; i < WEFT_LEN(bad); i++)
        tests[n++] = (struct CMUnitTest){bad[i].message, check_bad, NULL, NULL, &bad[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(templates_are_found);
    return cmocka_run_group_tests_name("conversation", tests, NULL, NULL) != 0;
}
