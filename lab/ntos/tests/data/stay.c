/* The function driver, which stays when its device goes (`STAY`). */
#include "function.c"
