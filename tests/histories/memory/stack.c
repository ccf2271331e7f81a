/*
 * stack.c - stacks: deep ones, large frames, jumps, coroutines on stacks of their own, steps of the history
 * inside a frame.
 */
#include <alloca.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/memory/stack.h"
#include "tests/histories/core/world.h"

#define COROUTINES 4
#define COROUTINE_BYTES (128u << 10)
#define FRAME_BYTES 6000
#define DEPTH_MAX 500
#define BIG_BYTES (3u << 20)

static void nap(void)
{
    nanosleep(&(const struct timespec){0, 300000}, NULL);
}

/* ---- deep ---- */

static jmp_buf top;

static uint64_t go_down(int depth, uint64_t number, bool is_jumping)
{
    char frame[FRAME_BYTES];
    fill(frame, sizeof frame, number);
    if (depth == 0)
        nap();
    if (depth == 0 && is_jumping)
        longjmp(top, 7);
    uint64_t below = depth > 0 ? go_down(depth - 1, number + 1, is_jumping) : 0;
    return below * 31 + sum_of(frame, sizeof frame);
}

static void act_deep(void)
{
    int depth = (int)pick(DEPTH_MAX);
    say(" %d %llx", depth, (unsigned long long)go_down(depth, roll(), false));
}

static void act_jump(void)
{
    int depth = (int)pick(DEPTH_MAX);
    uint64_t number = roll();
    int value = setjmp(top);
    if (value == 0)
        go_down(depth, number, true);
    say(" %d", value);
}

static void act_big(void)
{
    size_t bytes = 1 + pick(BIG_BYTES);
    uint64_t number = roll();
    char *memory = alloca(bytes);
    fill(memory, bytes, number);
    nap();
    say_bytes(memory, bytes);
}

/* ---- steps inside a frame ---- */

static long wanted;

static void act_descend(void)
{
    wanted = pick_between(3, 20);
    say(" %ld steps", wanted);
}

void stack_descend(void (*do_steps)(long count))
{
    static int depth;
    char frame[10 * FRAME_BYTES], expected[10 * FRAME_BYTES];
    uint64_t number = (uint64_t)world.step + world.seed;
    long count = wanted;
    wanted = 0;
    if (count == 0 || depth > 20)
        return;
    depth++;
    fill(frame, sizeof frame, number);
    do_steps(count);
    fill(expected, sizeof expected, number);
    if (memcmp(frame, expected, sizeof frame))
        wrong("a frame that steps were done in");
    depth--;
}

/* ---- coroutines ---- */

static struct coroutine {
    ucontext_t here;
    char *stack; /* NULL: it does not exist */
    uint64_t number, told;
    bool is_ending;
} coroutines[COROUTINES];
static ucontext_t caller;

static void live(int place)
{
    struct coroutine *c = &coroutines[place];
    char mine[5000];
    uint64_t count = 0;
    fill(mine, sizeof mine, c->number);
    do {
        c->told = sum_of(mine, sizeof mine) + count;
        mine[count++ % sizeof mine]++;
        swapcontext(&c->here, &caller);
    } while (!c->is_ending);
}

static void begin_coroutine(struct coroutine *c)
{
    c->stack =
        mmap(NULL, COROUTINE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    c->number = roll();
    c->is_ending = false;
    getcontext(&c->here);
    c->here.uc_stack.ss_sp = c->stack;
    c->here.uc_stack.ss_size = COROUTINE_BYTES;
    c->here.uc_link = &caller;
    makecontext(&c->here, (void (*)(void))live, 1, (int)(c - coroutines));
}

static void act_coroutine(void)
{
    struct coroutine *c = &coroutines[pick(COROUTINES)];
    bool is_new = !c->stack;
    say(" %d%s", (int)(c - coroutines), is_new ? " new" : "");
    if (is_new)
        begin_coroutine(c);
    c->is_ending = !is_new && chance(15);
    swapcontext(&caller, &c->here);
    say(" %llx", (unsigned long long)c->told);
    if (c->is_ending) {
        munmap(c->stack, COROUTINE_BYTES);
        c->stack = NULL;
    }
}

static const struct operation operations[] = {
    {"deep", 3, act_deep},       {"jump", 2, act_jump},           {"big", 2, act_big},
    {"descend", 2, act_descend}, {"coroutine", 6, act_coroutine}, {NULL, 0, NULL},
};

const struct kind kind_stack = {.name = "stack", .operations = operations};
