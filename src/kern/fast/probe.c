#include "kern/fast/vec.h"
