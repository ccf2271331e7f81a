/*
 * vk_exec.c - the application executes another program.
 *
 * In a rank, before MPI_Init, that may be the MPI program itself, once more or at last: a wrapper, or a
 * program that changes its environment. So it gets libbelay.so and Belay's variables again, which the program
 * does not know of, as long as its environment is still that of the launch; what the program has written and
 * read goes on where it is. Otherwise, and in children, nothing is added.
 *
 * The agent is told before, since afterwards nobody could: an end is the other program's then.
 */
#include "mpi-layer/lower/vk_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <signal.h>
#include <stddef.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_action.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_hold.h"
#include "mpi-layer/lower/vk_id.h"
#include "mpi-layer/lower/vk_stream.h"

#define PRELOAD "LD_PRELOAD="
#define OWN "BELAY_"

static struct {
    char *const *variables; /* of the environment that this process was started with */
    const char *preload;    /* path of libbelay.so */
    const char *launched; /* the variable by which the launcher says which rank this is; NULL: it has none */
} start;

/* A call, its arguments in the order of execve(2). */
struct call {
    long nr, folder, flags;
    const char *path;
    char *const *argv, *const *environment;
};

struct block { /* of memory for a new environment */
    char *at;
    uint64_t bytes, used;
};

void vk_exec_start(char *const *variables, const char *preload, const char *launched)
{
    start.variables = variables;
    start.preload = preload;
    start.launched = launched;
}

static uint64_t length_of(const char *text)
{
    uint64_t length = 0;
    while (text[length])
        length++;
    return length;
}

static bool begins_with(const char *text, const char *prefix)
{
    while (*prefix && *text == *prefix)
        text++, prefix++;
    return !*prefix;
}

/* Both are "NAME=value": of one name? */
static bool is_same_name(const char *one, const char *other)
{
    while (*one && *one != '=' && *one == *other)
        one++, other++;
    return *one == '=' && *other == '=';
}

static const char *find(char *const *list, const char *variable)
{
    for (; list && *list; list++)
        if (is_same_name(*list, variable))
            return *list;
    return NULL;
}

static bool is_equal(const char *one, const char *other)
{
    return begins_with(one, other) && length_of(one) == length_of(other);
}

/* Will MPI_Init find in it which rank this is? Without a launcher an environment at all will do. */
static bool is_of_launch(char *const *environment)
{
    const char *kept = start.launched ? find(environment, start.launched) : NULL;
    return start.launched ? kept && is_equal(kept, start.launched) : environment && *environment;
}

static char *add_text(struct block *block, const char *one, const char *two, const char *three)
{
    const char *const parts[] = {one, two, three};
    char *begin = block->at + block->used;
    for (int i = 0; i < 3; i++)
        for (const char *from = parts[i]; *from; from++)
            block->at[block->used++] = *from;
    block->at[block->used++] = 0;
    return begin;
}

static uint64_t count_of(char *const *list)
{
    uint64_t count = 0;
    while (list && list[count])
        count++;
    return count;
}

/* The program's environment and what Belay needs. NULL: no memory. */
static char *const *protect(struct block *block, char *const *environment)
{
    uint64_t slots = count_of(environment) + count_of(start.variables) + 2, used = 0;
    const char *own = find(environment, PRELOAD);
    const char *others = own ? own + length_of(PRELOAD) : "";
    block->used = slots * sizeof(char *);
    block->bytes =
        VK_PAGE_UP(block->used + length_of(PRELOAD) + length_of(start.preload) + length_of(others) + 2);
    long at = raw_syscall(SYS_mmap, 0, (long)block->bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at < 0)
        return NULL;
    block->at = (char *)at;
    const char **list = (const char **)(void *)block->at;
    list[used++] = add_text(block, PRELOAD, start.preload, *others ? ":" : "");
    block->used--; /* the list goes on */
    add_text(block, others, "", "");
    for (char *const *each = environment; each && *each; each++)
        if (*each != own)
            list[used++] = *each;
    for (char *const *each = start.variables; *each; each++)
        if (begins_with(*each, OWN) && !find(environment, *each))
            list[used++] = *each;
    return (char *const *)block->at;
}

static long make(const struct call *call)
{
    vk_hold(0, UINT64_MAX);
    if (call->nr == SYS_execve)
        return raw3(SYS_execve, call->path, call->argv, call->environment);
    return raw_syscall(SYS_execveat, call->folder, (long)call->path, (long)call->argv,
                       (long)call->environment, call->flags, 0);
}

/* The new program inherits the mask; this runs in a handler that blocks everything. */
static long make_with_mask(const struct call *call, uint64_t mask)
{
    uint64_t all;
    mask |= vk_actions_leave();
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, &all, 8);
    long result = make(call);
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, 8);
    vk_actions_install();
    return result;
}

/* Most calls that fail are searches in PATH: nobody has to be told of them. */
static bool may_work(const struct call *call)
{
    return raw4(SYS_faccessat, call->nr == SYS_execve ? AT_FDCWD : call->folder, call->path, 1 /* X_OK */,
                0) == 0 ||
           (call->flags & AT_EMPTY_PATH);
}

/* What is on its way to the agent must not kill the new program, which has no handler for it. */
static void ignore_control_signal(bool is_ignored, struct vk_action *handler)
{
    static const struct vk_action ignore = {.handler = 1 /* SIG_IGN */};
    if (is_ignored)
        raw4(SYS_rt_sigaction, CONTROL_SIGNAL, &ignore, handler, 8);
    else
        raw4(SYS_rt_sigaction, CONTROL_SIGNAL, handler, 0, 8);
}

static void carry_over(struct control *control)
{
    for (int i = 0; i < STREAMS_PER_RANK; i++)
        control->carried.outputs[i] = VK->outputs[i];
    control->carried.input_position = VK->input_position;
    control->carried.is_set = 1;
}

static long leave(struct call *call, uint64_t mask)
{
    struct control *control = GATE->control;
    struct vk_action handler;
    struct block block = {.at = NULL};
    bool is_rank_yet = control->state == CONTROL_STATE_NONE && is_of_launch(call->environment);
    char *const *protected = is_rank_yet ? protect(&block, call->environment) : NULL;
    if (protected)
        call->environment = protected;
    vk_stream_flush();
    GATE->leave_launcher();
    carry_over(control);
    ignore_control_signal(control->state != CONTROL_STATE_NONE, &handler);
    __atomic_store_n(&control->exit_kind, CONTROL_EXIT_EXECUTED, __ATOMIC_SEQ_CST);
    long result = make_with_mask(call, mask);
    __atomic_store_n(&control->exit_kind, CONTROL_EXIT_NONE, __ATOMIC_SEQ_CST);
    if (control->state != CONTROL_STATE_NONE)
        ignore_control_signal(false, &handler);
    if (block.at)
        raw2(SYS_munmap, block.at, block.bytes);
    return result;
}

long vk_exec(long nr, const uint64_t *arguments, uint64_t mask)
{
    bool is_at = nr == SYS_execveat;
    const uint64_t *rest = arguments + is_at;
    struct call call = {.nr = nr,
                        .folder = is_at ? (long)arguments[0] : AT_FDCWD,
                        .flags = is_at ? (long)arguments[4] : 0,
                        .path = (const char *)rest[0],
                        .argv = (char *const *)rest[1],
                        .environment = (char *const *)rest[2]};
    if (call.path && vk_is_own_exe(call.path))
        call.path = VK->exe;
    if (vk_is_own_process() && vk_is_rank() && GATE->control->exit_kind == CONTROL_EXIT_NONE &&
        may_work(&call))
        return leave(&call, mask);
    if (!vk_is_own_process())
        vk_fd_note_shared();
    vk_id_look_for_own(call.argv);
    struct thread *self = thread_self();
    uint32_t in_vk = self->in_vk;
    self->in_vk = 0; /* the parent's, if this is a vfork()ed child: nobody comes back to put it right */
    long result = make_with_mask(&call, mask);
    self->in_vk = in_vk;
    return result;
}
