/* Trains a small model on a text file and generates text with it.  Tokens are bytes.
 *
 *     cc train.c -o train $(pkg-config --cflags --libs weft) && ./train book.txt */
#include <stdio.h>
#include <stdlib.h>
#include <weft/generate.h>
#include <weft/train.h>

/* Writes the bytes of a text file as a token shard: docs/formats/shards.md. */
static int write_shard(const char *text, const char *shard)
{
    FILE *in = fopen(text, "rb"), *out = fopen(shard, "wb");
    int32_t header[256] = {20240520, 1, 0};
    if (in == NULL || out == NULL)
        return perror(in == NULL ? text : shard), 0;
    fwrite(header, sizeof header, 1, out);
    for (int byte; (byte = fgetc(in)) != EOF; header[2]++)
        fwrite(&(uint16_t){(uint16_t)byte}, 2, 1, out);
    rewind(out);
    fwrite(header, sizeof header, 1, out);
    fclose(in);
    return fclose(out) == 0;
}

static bool show(const struct weft_train_step *step, void *user)
{
    (void)user;
    if (step->step % 20 == 0)
        printf("step %d: loss %.3f\n", (int)step->step, step->loss);
    return true;
}

int main(int argc, char **argv)
{
    static const char *const values[][2] = {
        {"model.spec", "d1"},        {"model.vocab", "257"}, {"model.ctx", "64"},
        {"data.train", "shard.bin"}, {"data.batch", "8"},    {"parallel.pp", "1"},
        {"parallel.micros", "2"},    {"train.steps", "60"},  {"optim.lr", "3e-3"},
        {"optim.warmup", "5"},       {"log.dir", "run"}};
    struct weft_settings *s = NULL;
    struct weft_error err = {0};
    char *text = NULL;
    if (argc != 2 || !write_shard(argv[1], "shard.bin"))
        return fprintf(stderr, "usage: train TEXT-FILE\n"), 2;
    enum weft_status st = weft_settings_new(&s, &err);
    for (size_t i = 0; st == WEFT_OK && i < sizeof values / sizeof values[0]; i++)
        st = weft_settings_set(s, values[i][0], values[i][1], &err);
    if (st == WEFT_OK)
        st = weft_train(s, show, NULL, &err);
    struct weft_generate_options options = weft_generate_defaults();
    options.prompt = "the ";
    if (st == WEFT_OK)
        st = weft_generate("run/model", &options, &text, NULL, &err);
    puts(st == WEFT_OK ? text : err.msg);
    free(text);
    weft_settings_free(s);
    return weft_status_exit_code(st);
}
