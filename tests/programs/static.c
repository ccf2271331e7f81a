/*
 * static - a statically linked program: no preload reaches it, so it cannot be protected.
 */
#include <stdio.h>

int main(void)
{
    puts("static: ran");
    return 0;
}
