/* Directory trees: copied, removed and compared. */
#ifndef FAULTS_TREE_H
#define FAULTS_TREE_H

#include <stdbool.h>

enum { TREE_PATH_BYTES = 1024 };

/* Calls `visit` for every entry below `root`, with its path relative to `root`.  A directory comes
 * before its entries.  Stops when `visit` returns false, and returns false then. */
typedef bool (*tree_visit_fn)(const char *relative, bool is_directory, void *context);
bool tree_walk(const char *root, tree_visit_fn visit, void *context);

/* Copies a file, or a directory with everything in it.  Ends the program on an error. */
void tree_copy(const char *from, const char *to);

/* Removes a file, or a directory with everything in it.  A missing one is no error. */
void tree_remove(const char *path);

/* Returns true if both are files with the same bytes, or both are directories.  The number in a path
 * of a worker ("/slot-NN/") is not compared. */
bool tree_same(const char *a, const char *b);

/* Writes "a/b" to `out`, which has TREE_PATH_BYTES.  Ends the program if it is too long. */
void tree_join(char *out, const char *a, const char *b);

#endif
