/*
 * vk_task.c - paths that name a thread or a process by an id that the application knows:
 * /proc/self/task/TID/..., /proc/PID/task/TID/..., /proc/PID/... and /proc/TID/.... The C library opens such
 * to name a thread, psutil to look at a process.
 */
#include "mpi-layer/lower/vk_task.h"

#include <stddef.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_id.h"

static const char *after(const char *text, const char *prefix)
{
    while (text && *prefix)
        text = *text == *prefix++ ? text + 1 : NULL;
    return text;
}

/* Behind the digits of a number. NULL: there are none. */
static const char *after_number(const char *text, uint32_t *number)
{
    const char *digit = text;
    *number = 0;
    for (; digit && *digit >= '0' && *digit <= '9'; digit++)
        *number = 10 * *number + (uint32_t)(*digit - '0');
    return digit != text && (!*digit || *digit == '/') ? digit : NULL;
}

size_t vk_task_put_number(char *to, uint32_t number)
{
    char digits[10];
    size_t count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    for (size_t i = 0; i < count; i++)
        to[i] = digits[count - 1 - i];
    return count;
}

/* False: it is too long. */
static bool write_path(char to[], const char *folder, uint32_t id, const char *rest)
{
    size_t used = 0;
    while (*folder)
        to[used++] = *folder++;
    used += vk_task_put_number(to + used, id);
    for (; *rest && used + 1 < VK_TASK_PATH_BYTES; rest++)
        to[used++] = *rest;
    to[used] = 0;
    return !*rest;
}

/* The threads of a process are known to itself. */
static long kernel_id(uint32_t number)
{
    return vk_is_own_process() ? vk_kernel_tid(number) : vk_id_kernel(number);
}

bool vk_task_path(const char *path, char to[])
{
    uint32_t number, thread;
    const char *process = after(path, "/proc/");
    const char *rest = after_number(process, &number), *tasks = after(process, "self/task/");
    if (rest && vk_is_own_process() && vk_id_kernel(number) == (long)VK->pid)
        tasks = after(rest, "/task/");
    const char *behind = vk_is_own_process() ? after_number(tasks, &thread) : NULL;
    if (behind)
        return vk_kernel_tid(thread) != (long)thread &&
               write_path(to, "/proc/self/task/", (uint32_t)vk_kernel_tid(thread), behind);
    return rest && kernel_id(number) != (long)number &&
           write_path(to, "/proc/", (uint32_t)kernel_id(number), rest);
}

long vk_task_syscall(long nr, long a, long b, long c, long d, long e)
{
    char task[VK_TASK_PATH_BYTES];
    bool has_folder = nr == SYS_newfstatat || nr == SYS_statx || nr == SYS_faccessat ||
                      nr == VK_SYS_faccessat2 || nr == SYS_readlinkat;
    long *path = has_folder ? &b : &a;
    if (vk_task_path((const char *)*path, task))
        *path = (long)task;
    return raw_syscall(nr, a, b, c, d, e, 0);
}
