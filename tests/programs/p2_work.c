#include "tests/programs/p2_work.h"

#include <errno.h>
#include <time.h>

#include "tests/programs/program.h"

void work_ms(double milliseconds)
{
    double end = seconds_now() + milliseconds * 1e-3;
    volatile unsigned value = 1;
    while (seconds_now() < end) {
        for (int i = 0; i < 1000; i++)
            value = value * 3 + 1;
    }
}

void rest_ms(double milliseconds)
{
    long ns = (long)(milliseconds * 1e6);
    struct timespec left = {ns / 1000000000, ns % 1000000000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}
