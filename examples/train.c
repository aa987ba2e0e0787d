/* Trains a small model on a text file and generates text with it.  Tokens are bytes.
 *     cc train.c $(pkg-config --cflags --libs weft)
 *     ./a.out book.txt
 *     mpirun -n 2 ./a.out book.txt */
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
    for (int byte; (byte = fgetc(in)) != EOF; header[2]++) {
        uint16_t token = (uint16_t)byte;
        fwrite(&token, sizeof token, 1, out);
    }
    rewind(out); /* the number of tokens is known now */
    fwrite(header, sizeof header, 1, out);
    return (fclose(in) | fclose(out)) == 0;
}

static bool show(const struct weft_train_step *step, void *user)
{
    if (step->step % 20 == 0)
        fprintf((FILE *)user, "step %d: loss %.3f\n", (int)step->step, step->loss);
    return true;
}

int main(int argc, char **argv)
{
    static const char *const values[][2] = {
        {"model.spec", "d1"},        {"model.vocab", "257"},    {"model.ctx", "64"},
        {"data.train", "shard.bin"}, {"data.batch", "8"},       {"train.steps", "60"},
        {"optim.lr", "3e-3"},        {"parallel.auto", "true"}, {"log.dir", "run"}};
    struct weft_settings *s = NULL;
    struct weft_error err = {WEFT_OK, NULL, 0, ""};
    char *text = NULL;
    if (argc != 2 || !write_shard(argv[1], "shard.bin"))
        return fprintf(stderr, "usage: train TEXT-FILE\n"), 2;

    enum weft_status st = weft_settings_new(&s, &err);
    for (size_t i = 0; st == WEFT_OK && i < sizeof values / sizeof values[0]; i++)
        st = weft_settings_set(s, values[i][0], values[i][1], &err);
    if (st == WEFT_OK)
        st = weft_train(s, show, stdout, &err);
    struct weft_generate_options options = weft_generate_defaults();
    options.prompt = "the ";
    if (st == WEFT_OK)
        st = weft_generate("run/model", &options, &text, NULL, &err);
    puts(st == WEFT_OK ? text : err.msg);
    free(text);
    weft_settings_free(s);
    return weft_status_exit_code(st);
}
