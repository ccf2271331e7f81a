/* below.c - see below.h. */
#include "mpi-layer/upper/test/below.h"

#include <asm/prctl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/half.h"

void *lower_fn[F_COUNT];
uint32_t half_receives_to_post;
struct half_inside half_inside;
bool below_is_memory_short;
int below_blocks;

static struct thread thread;
static union {
    struct control control;
    char bytes[sizeof(struct control) + BELOW_CLOCKS * sizeof(struct control_clock)];
} page;
static char real_handles[64];

void half_post_receives(void)
{
    half_receives_to_post = 0;
}

void half_act_on_pending(void)
{
}

void half_look_inside(const char *function)
{
    (void)function;
}

void *arena_alloc(size_t bytes)
{
    void *block = below_is_memory_short ? NULL : calloc(1, bytes);
    below_blocks += block != NULL;
    return block;
}

void arena_free(void *block)
{
    below_blocks -= block != NULL;
    free(block);
}

void *below_real(int number)
{
    return &real_handles[number];
}

/* Both halves have the FS base of this thread. */
int below_start(void **state)
{
    uint64_t fs = 0;
    (void)state;
    void *gate = mmap((void *)GATE_ADDRESS, sizeof(struct gate), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (gate != (void *)GATE_ADDRESS || syscall(SYS_arch_prctl, ARCH_GET_FS, &fs))
        return -1;
    thread.self = &thread;
    thread.lower_fs = thread.upper_fs = fs;
    GATE->control = &page.control;
    return (int)syscall(SYS_arch_prctl, ARCH_SET_GS, &thread);
}
