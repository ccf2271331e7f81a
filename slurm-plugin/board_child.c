#include "slurm-plugin/board_child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BOARD_MS 10000 /* for the board to come up, or to answer */

static int spawn_board(const char *folder, const char *ranks, int in, int out, struct belay_error *err)
{
    char path[PATH_MAX + 16];
    char *const argv[] = {path, (char *)(uintptr_t)ranks, NULL}, *const environment[] = {NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid;
    snprintf(path, sizeof path, "%s/belay-board", folder);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
    int code = posix_spawn(&pid, path, &actions, &attributes, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return code == 0 ? 0 : belay_error_set(err, code, "cannot start %s: %s", path, strerror(code));
}

static int read_line(int fd, char *line, size_t bytes, struct belay_error *err)
{
    size_t used = 0;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (used + 1 < bytes && poll(&ready, 1, BOARD_MS) > 0) {
        ssize_t got = read(fd, line + used, bytes - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
        line[used] = '\0';
        char *end = strchr(line, '\n');
        if (end) {
            *end = '\0';
            return 0;
        }
    }
    return belay_error_set(err, EPROTO, "the board of the launch does not answer");
}

/* It ends when this process does: nobody else has the other end of its standard input. */
int board_child_start(struct board_child *board, const char *folder, const char *ranks,
                      char line[BOARD_LINE_BYTES], struct belay_error *err)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) < 0)
        return belay_error_errno(err, "cannot make a pipe");
    if (pipe2(out, O_CLOEXEC) < 0) {
        belay_error_errno(err, "cannot make a pipe");
        close(in[0]);
        close(in[1]);
        return -1;
    }
    int rc = spawn_board(folder, ranks, in[0], out[1], err);
    close(in[0]);
    close(out[1]);
    if (rc == 0)
        rc = read_line(out[0], line, BOARD_LINE_BYTES, err);
    if (rc < 0) {
        close(out[0]);
        close(in[1]);
        return -1;
    }
    *board = (struct board_child){.in = in[1], .out = out[0]};
    return 0;
}

bool board_child_has_lost_node(const struct board_child *board)
{
    char line[16] = "";
    struct belay_error err;
    return write(board->in, "?", 1) == 1 && read_line(board->out, line, sizeof line, &err) == 0 &&
           !strcmp(line, "lost");
}
