/* The function driver, which says no when it is asked (`REFUSE`). */
#include "function.c"
