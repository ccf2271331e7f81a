/* mapped.c - see mapped.h. */
#include "mpi-layer/lower/mapped.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/vk_undo.h"

/* The path of a shared writable mapping of the upper half that has one, in a line of maps; else NULL. */
static const char *path_of(char *line)
{
    uint64_t start, end;
    char writable, sharing;
    int path_at = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*c%c%*c%c %*x %*x:%*x %*u %n", &start, &end, &writable,
               &sharing, &path_at) < 4)
        return NULL;
    bool is_upper = layout_is_upper(&GATE->layout, start, end);
    bool is_named = path_at > 0 && line[path_at] == '/' && !strstr(line + path_at, " (deleted)");
    return is_upper && is_named && writable == 'w' && sharing == 's' ? line + path_at : NULL;
}

void mapped_note_files(void)
{
    char *line = NULL;
    size_t bytes = 0;
    FILE *maps = VK->has_shared_files ? fopen("/proc/self/maps", "re") : NULL;
    while (maps && getline(&line, &bytes, maps) > 0) {
        const char *path = path_of(line);
        if (path)
            vk_undo_path(path, 0, VK_UNDO_WHOLE);
    }
    free(line);
    if (maps)
        fclose(maps);
}
