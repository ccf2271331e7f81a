#include "tests/histories/core/start.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/histories/core/choice.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"
#include "tests/programs/program.h"

#define BEFORE 0x6265666f7265u
#define AFTER 0x6166746572u
#define PERCENT 25
#define DONE "HISTORY_EXECUTED"

static bool is_wanted(const char *operation, uint64_t what)
{
    return choice_has("start", operation) && mix_number(world.seed, what, 0) % 100 < PERCENT;
}

void start_before_mpi(char **argv)
{
    if (!is_wanted("exec_before", BEFORE) || getenv(DONE))
        return;
    setenv(DONE, "1", 1);
    execv(argv[0], argv);
    perror("history: exec");
    exit(2);
}

void start_after_mpi(void)
{
    if (!is_wanted("exec_after", AFTER))
        return;
    execlp("sh", "sh", "-c", "echo another program", (char *)NULL);
    perror("history: exec");
    exit(2);
}

static const struct operation operations[] = {
    {"exec_before", 0, NULL},
    {"exec_after", 0, NULL},
    {NULL, 0, NULL},
};

const struct kind kind_start = {.name = "start", .operations = operations};
