/*
 * stacks - code on stacks, stacks that grow, and their ends.
 *
 * Nested functions of GNU C and internal procedures of Fortran put code on the stack; here a few bytes of
 * machine code do. Linked with -z execstack (stacks_exec), the main thread and others run it from the first
 * step on; without, a library that has to have executable stacks is loaded at step --value and changes them.
 */
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define KIB 1024ul
#define LIMIT_BYTES (16384 * KIB)
#define DEEP_BYTES (12288 * KIB)
#define GROWING_TOP 0x7b0000000000ul /* nothing is near */

typedef int answer_f(void);

/* A thread that lives as long as the program, and runs code on its stack at each step. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long asked, answered; /* steps */
static int answer;

static sigjmp_buf way_out;
static char *growing; /* the lowest page that has been touched */

/* mov $number, %eax; ret */
static int run_on_stack(int number)
{
    volatile unsigned char code[16] = {0xb8, 0, 0, 0, 0, 0xc3};
    answer_f *function = (answer_f *)(uintptr_t)code;
    for (int i = 0; i < 4; i++)
        code[1 + i] = (unsigned char)((unsigned)number >> (8 * i));
    return function();
}

static void *be_short(void *number)
{
    return (void *)(intptr_t)run_on_stack((int)(intptr_t)number);
}

static void *be_long(void *nothing)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        while (answered == asked)
            pthread_cond_wait(&changed, &lock);
        answer = run_on_stack((int)asked);
        answered = asked;
        pthread_cond_broadcast(&changed);
    }
    return nothing;
}

static int ask_long(long step)
{
    pthread_mutex_lock(&lock);
    asked = step;
    pthread_cond_broadcast(&changed);
    while (answered != asked)
        pthread_cond_wait(&changed, &lock);
    int got = answer;
    pthread_mutex_unlock(&lock);
    return got;
}

static void run_code(struct program *program, long step)
{
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, be_short, (void *)step) || pthread_join(thread, &result))
        fail(program, "no thread");
    int numbers[3] = {run_on_stack((int)step), (int)(intptr_t)result, ask_long(step)};
    for (int i = 0; i < 3; i++)
        if (numbers[i] != (int)step)
            fail(program, "code %d on a stack gave %d", i, numbers[i]);
    digest_add(&program->digest, numbers, sizeof numbers);
}

static uint64_t descend(unsigned long bytes)
{
    volatile char frame[64 * KIB];
    for (unsigned long i = 0; i < sizeof frame; i += 4 * KIB)
        frame[i] = (char)bytes;
    return bytes > sizeof frame ? descend(bytes - sizeof frame) + (uint64_t)frame[0] : (uint64_t)frame[0];
}

static void overflow(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    siglongjmp(way_out, 1);
}

static void prepare(const struct program *program)
{
    static char alternate[64 * KIB];
    struct rlimit limit;
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    struct sigaction action = {.sa_sigaction = overflow, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (getrlimit(RLIMIT_STACK, &limit))
        fail(program, "getrlimit");
    limit.rlim_cur = LIMIT_BYTES;
    if (setrlimit(RLIMIT_STACK, &limit) || sigaltstack(&stack, NULL) || sigaction(SIGSEGV, &action, NULL))
        fail(program, "the limit or the alternate stack");
    growing = mmap((void *)GROWING_TOP, 4 * KIB, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    if (growing == MAP_FAILED)
        fail(program, "MAP_GROWSDOWN");
}

/* Deeper than any limit lets it, and back by the handler on the alternate stack. */
static void run_deep(struct program *program)
{
    digest_add_number(&program->digest, descend(DEEP_BYTES));
    if (sigsetjmp(way_out, 1) == 0) {
        descend(2 * LIMIT_BYTES);
        fail(program, "a stack without end");
    }
    if (sigsetjmp(way_out, 1) != 0)
        fail(program, "memory does not grow any more");
    growing -= 4 * KIB;
    growing[0] = (char)program->digest;
}

/* All of it, as the steps before have left it. */
static void check_growing(struct program *program, long step)
{
    for (long i = 0; i < step; i++)
        digest_add(&program->digest, growing + (unsigned long)i * 4 * KIB, 1);
}

static void load(const struct program *program)
{
    char path[PATH_MAX + 32] = "";
    if (readlink("/proc/self/exe", path, PATH_MAX) < 0)
        fail(program, "no /proc/self/exe");
    strcat(dirname(path), "/libexecstack.so");
    if (!dlopen(path, RTLD_NOW))
        fail(program, "%s", dlerror());
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 20};
    pthread_t thread;
    MPI_Init(&argc, &argv);
    program_begin(&program, basename(argv[0]), argc, argv);
    prepare(&program);
    if (pthread_create(&thread, NULL, be_long, NULL))
        fail(&program, "no thread");
    for (long step = 1; step <= program.steps; step++) {
        if (step == program.value)
            load(&program);
        if (step >= program.value)
            run_code(&program, step);
        run_deep(&program);
        check_growing(&program, step);
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
