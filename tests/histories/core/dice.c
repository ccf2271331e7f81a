#include "tests/histories/core/dice.h"

#include <string.h>

#include "tests/programs/program.h"

#define BYTES_MAX (1ul << 20)
#define COMMON 0x636f6d6du

static uint64_t state;

void dice_take_own(uint64_t seed, int rank, long step)
{
    state = mix_number(seed, (uint64_t)rank, (uint64_t)step);
}

void dice_take_common(uint64_t seed, long step)
{
    state = mix_number(seed, COMMON, (uint64_t)step);
}

uint64_t roll(void)
{
    return random_next(&state);
}

size_t pick(size_t below)
{
    return (size_t)(roll() % below);
}

long pick_between(long low, long high)
{
    return low + (long)pick((size_t)(high - low) + 1);
}

bool chance(int percent)
{
    return pick(100) < (size_t)percent;
}

size_t pick_length(size_t max)
{
    static const size_t limits[] = {8, 100, 5000, 70000};
    size_t limit = limits[pick(4)];
    return 1 + pick(limit < max ? limit : max);
}

void fill(void *at, size_t bytes, uint64_t number)
{
    uint64_t word;
    for (size_t done = 0; done < bytes; done += sizeof word) {
        word = random_next(&number);
        memcpy((char *)at + done, &word, bytes - done < sizeof word ? bytes - done : sizeof word);
    }
}

const void *some_bytes(size_t bytes)
{
    static char buffer[BYTES_MAX];
    fill(buffer, bytes, roll());
    return buffer;
}
