/* Decides which files of a Hugging Face directory are companions of its weights. */
#include "training/trainer/companion_list.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/input.h"
#include "planning/spec/hf_config.h"

/* The only subdirectory that transformers reads. */
static const char templates[] = "additional_chat_templates";

static const char *const endings[] = {".json", ".jinja", ".txt",     ".model",
                                      ".py",   ".md",    ".tiktoken"};

static const char *const beginnings[] = {"LICENSE", "LICENCE", "NOTICE", "USE_POLICY"};

static const char *const tokenizer_files[] = {"tokenizer.json",
                                              "tokenizer_config.json",
                                              "special_tokens_map.json",
                                              "added_tokens.json",
                                              "vocab.json",
                                              "merges.txt",
                                              "vocab.txt",
                                              "tokenizer.model",
                                              "spiece.model",
                                              "chat_template.json",
                                              "chat_template.jinja",
                                              "generation_config.json"};

bool wf_companion_is_tokenizer(const char *name)
{
    for (size_t i = 0; i < WEFT_LEN(tokenizer_files); i++)
        if (strcmp(name, tokenizer_files[i]) == 0)
            return true;
    return strncmp(name, templates, sizeof templates - 1) == 0;
}

static bool is_companion_name(const char *name)
{
    if (name[0] == '.' || strcmp(name, "config.json") == 0 ||
        strcmp(name, WF_HF_MODELING_FILE) == 0 || wf_path_ends_in(name, ".index.json"))
        return false;
    for (size_t i = 0; i < WEFT_LEN(endings); i++)
        if (wf_path_ends_in(name, endings[i]))
            return true;
    for (size_t i = 0; i < WEFT_LEN(beginnings); i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

static enum weft_status no_memory(struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of files");
}

/* Adds a file if it is a regular file of moderate size.  `name` is relative to `dir`. */
static enum weft_status add_file(struct wf_companion_list *list, const char *dir,
                                 const char *name, struct weft_error *err)
{
    struct stat info;
    char *path = wf_path_join(dir, name);
    if (path == NULL)
        return no_memory(err);
    bool taken = stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
                 (uint64_t)info.st_size <= WF_COPY_MAX_BYTES;
    free(path);
    if (!taken)
        return WEFT_OK;

    char **larger = realloc(list->names, (list->n + 1) * sizeof *larger);
    if (larger == NULL)
        return no_memory(err);
    list->names = larger;
    list->names[list->n] = strdup(name);
    if (list->names[list->n] == NULL)
        return no_memory(err);
    list->n++;
    return WEFT_OK;
}

/* Adds the files of DIR/SUB, or of DIR if `sub` is NULL. */
static enum weft_status add_directory(struct wf_companion_list *list, const char *dir,
                                      const char *sub, struct weft_error *err)
{
    char *path = sub == NULL ? strdup(dir) : wf_path_join(dir, sub);
    if (path == NULL)
        return no_memory(err);
    DIR *entries = opendir(path);
    enum weft_status st = WEFT_OK;
    for (const struct dirent *e;
         st == WEFT_OK && entries != NULL && (e = readdir(entries)) != NULL;) {
        if (!is_companion_name(e->d_name))
            continue;
        char *name = sub == NULL ? strdup(e->d_name) : wf_path_join(sub, e->d_name);
        st = name == NULL ? no_memory(err) : add_file(list, dir, name, err);
        free(name);
    }
    if (entries != NULL)
        closedir(entries);
    free(path);
    return st;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum weft_status wf_companion_list_init(struct wf_companion_list *list, const char *dir,
                                        struct weft_error *err)
{
    *list = (struct wf_companion_list){0};
    enum weft_status st = add_directory(list, dir, NULL, err);
    if (st == WEFT_OK)
        st = add_directory(list, dir, templates, err);
    if (st != WEFT_OK) {
        wf_companion_list_release(list);
        return st;
    }
    if (list->n > 0)
        qsort(list->names, list->n, sizeof *list->names, compare);
    return WEFT_OK;
}

void wf_companion_list_release(struct wf_companion_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->names[i]);
    free(list->names);
    *list = (struct wf_companion_list){0};
}

bool wf_companion_list_has(const struct wf_companion_list *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->names[i], name) == 0)
            return true;
    return false;
}
