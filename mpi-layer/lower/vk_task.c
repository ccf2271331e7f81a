/*
 * vk_task.c - paths that name a thread of the application: /proc/self/task/TID/..., /proc/PID/task/TID/...
 * and /proc/TID/.... The C library opens such to name a thread.
 */
#include "mpi-layer/lower/vk_task.h"

#include <stddef.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_tid.h"

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

static size_t put_number(char *to, uint32_t number)
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
static bool write_path(char to[], const char *path, const char *number, uint32_t tid, const char *rest)
{
    size_t used = 0;
    for (; path < number && used + 10 < VK_TASK_PATH_BYTES; path++)
        to[used++] = *path;
    if (path < number)
        return false;
    used += put_number(to + used, tid);
    for (; *rest && used + 1 < VK_TASK_PATH_BYTES; rest++)
        to[used++] = *rest;
    to[used] = 0;
    return !*rest;
}

bool vk_task_path(const char *path, char to[])
{
    uint32_t number;
    const char *process = after(path, "/proc/"), *at = process;
    if (!process || !vk_is_rank() || !vk_is_own_process())
        return false;
    const char *rest = after_number(process, &number);
    const char *own = after(process, "self/task/");
    if (rest && number == VK->pid)
        own = after(rest, "/task/");
    if (own) {
        at = own;
        rest = after_number(own, &number);
    }
    if (!rest)
        return false;
    long tid = vk_kernel_tid(number);
    return tid != (long)number && write_path(to, path, at, (uint32_t)tid, rest);
}
