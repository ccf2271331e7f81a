#include "tests/sim/fiber.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#define STACK_BYTES (512u << 10)

struct fiber {
    ucontext_t outside, inside;
    void (*run)(void *context);
    void *context;
    bool is_running;
    char stack[STACK_BYTES] __attribute__((aligned(16)));
};

static void begin(uint32_t high, uint32_t low);

struct fiber *fiber_create(void)
{
    struct fiber *fiber = malloc(sizeof(*fiber));

    if (!fiber) {
        perror("sim: fiber");
        exit(2);
    }
    fiber->is_running = false;
    return fiber;
}

void fiber_destroy(struct fiber *fiber)
{
    free(fiber);
}

void fiber_start(struct fiber *fiber, void (*run)(void *context), void *context)
{
    uintptr_t address = (uintptr_t)fiber;

    fiber->run = run;
    fiber->context = context;
    fiber->is_running = true;
    getcontext(&fiber->inside);
    fiber->inside.uc_stack.ss_sp = fiber->stack;
    fiber->inside.uc_stack.ss_size = sizeof(fiber->stack);
    fiber->inside.uc_link = &fiber->outside;
    makecontext(&fiber->inside, (void (*)(void))(uintptr_t)begin, 2, (uint32_t)(address >> 32),
                (uint32_t)address);
    swapcontext(&fiber->outside, &fiber->inside);
}

bool fiber_is_running(const struct fiber *fiber)
{
    return fiber && fiber->is_running;
}

void fiber_resume(struct fiber *fiber)
{
    swapcontext(&fiber->outside, &fiber->inside);
}

void fiber_wait(struct fiber *fiber)
{
    swapcontext(&fiber->inside, &fiber->outside);
}

/* makecontext(3) passes numbers of 32 bits only. */
static void begin(uint32_t high, uint32_t low)
{
    struct fiber *fiber = (struct fiber *)((uintptr_t)high << 32 | low);

    fiber->run(fiber->context);
    fiber->is_running = false;
}
