/* unfit.c - see unfit.h. */
#include "mpi-layer/entry/unfit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 32
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* By a function of its run-time: its shadow memory takes nearly all of the address space. */
static const char *sanitizer(void)
{
    static const char *const shadows[][2] = {{"__tsan_init", "-fsanitize=thread"},
                                             {"__msan_init", "-fsanitize=memory"}};
    for (size_t i = 0; i < COUNT(shadows); i++)
        if (dlsym(RTLD_DEFAULT, shadows[i][0]))
            return shadows[i][1];
    return NULL;
}

/* By a library that it preloads: it runs the program itself, until that executes another one. */
static const char *preloading_tool(void)
{
    static const char *const tools[][2] = {{"/vgpreload_", "valgrind"}, {"librrpreload.so", "rr"}};
    const char *list = getenv("LD_PRELOAD");
    for (size_t i = 0; list && i < COUNT(tools); i++)
        if (strstr(list, tools[i][0]))
            return tools[i][1];
    return NULL;
}

static void read_line(const char *path, const char *prefix, char *line, size_t bytes)
{
    bool is_found = false;
    FILE *file = fopen(path, "re");
    while (file && !is_found && fgets(line, (int)bytes, file))
        is_found = !strncmp(line, prefix, strlen(prefix));
    if (file)
        fclose(file);
    line[is_found ? strcspn(line, "\n") : 0] = 0;
}

/* Who traces this process; one that only looks at system calls does not mind. */
static const char *tracer(char name[NAME_BYTES])
{
    char line[128], path[64];
    read_line("/proc/self/status", "TracerPid:", line, sizeof line);
    int pid = line[0] ? atoi(line + strlen("TracerPid:")) : 0;
    if (pid == 0)
        return NULL;
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    read_line(path, "", name, NAME_BYTES);
    return strcmp(name, "strace") ? name : NULL;
}

bool unfit_reason(char *text, size_t bytes)
{
    char name[NAME_BYTES];
    const char *shadow = sanitizer(), *tool = preloading_tool();
    tool = tool ? tool : tracer(name);
    if (shadow)
        snprintf(text, bytes, "is built with %s, whose memory lies where Belay's is: run it without belay",
                 shadow);
    else if (tool)
        snprintf(text, bytes, "runs under %s, which would lose sight of it: run it without belay", tool);
    return shadow || tool;
}
