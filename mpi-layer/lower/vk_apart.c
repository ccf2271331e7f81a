/*
 * vk_apart.c - do something with descriptors of its own.
 *
 * When a process closes any descriptor of a file, the kernel drops all locks that this process has set on the
 * file with fcntl(F_SETLK): they belong to its table of descriptors. A file that the application may have
 * locked is therefore opened, read and closed by a child that shares our memory but has a table of its own.
 */
#include <sched.h>
#include <sys/wait.h>

#include "mpi-layer/lower/vk.h"

/* In the child, whose parent stands still until it ends. */
static __attribute__((noreturn, noinline)) void run(void (*function)(void *context), void *context)
{
    function(context);
    for (;;)
        raw1(SYS_exit, 0);
}

/*
 * Parent and child use this frame one after the other: it must hold nothing that the child changes and the
 * parent needs, hence a function of its own.
 */
static __attribute__((noinline)) long start(void (*function)(void *context), void *context)
{
    long pid = raw_syscall(SYS_clone, CLONE_VM | CLONE_VFORK, 0, 0, 0, 0, 0);
    if (pid == 0)
        run(function, context);
    return pid;
}

void vk_apart(void (*function)(void *context), void *context)
{
    long pid = start(function, context);
    if (pid < 0) /* too many processes: at the price of the locks */
        function(context);
    else
        raw4(SYS_wait4, pid, 0, __WALL, 0);
}
