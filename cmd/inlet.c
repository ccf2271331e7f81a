#include "cmd/inlet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/wire/descriptor.h"
#include "common/wire/streams.h"

#define PIECE_BYTES 65536
#define MOST_AHEAD_BYTES 65536 /* what is read and has not been handed on */
#define LOOK_MS 10             /* while rank 0 has not said where it goes on */

struct inlet {
    int pipe_fd; /* to the launcher */
    int stop_fd; /* eventfd */
    int streams_fd;
    struct streams *head;
    struct outlet_input *input; /* what we have stored; the ranks may write to the head */
    uint32_t epoch;
    bool is_restored;
    uint64_t position; /* handed on so far */
    pthread_t thread;
    bool is_started, has_failed;
    char piece[PIECE_BYTES];
};

bool inlet_is_wanted(void)
{
    struct stat st;
    return fstat(STDIN_FILENO, &st) == 0 &&
           (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || S_ISREG(st.st_mode));
}

struct inlet *inlet_create(int *launcher_fd, struct belay_error *err)
{
    int ends[2];
    struct inlet *inlet = calloc(1, sizeof *inlet);
    if (!inlet || pipe2(ends, O_CLOEXEC)) {
        belay_error_errno(err, "cannot make a pipe for standard input");
        free(inlet);
        return NULL;
    }
    *launcher_fd = ends[0];
    inlet->pipe_fd = ends[1];
    inlet->streams_fd = -1;
    inlet->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (inlet->stop_fd < 0 || fcntl(inlet->pipe_fd, F_SETFL, O_NONBLOCK)) {
        belay_error_errno(err, "cannot prepare standard input");
        close(*launcher_fd);
        inlet_destroy(inlet);
        return NULL;
    }
    return inlet;
}

static bool is_stopped(const struct inlet *inlet, int timeout_ms)
{
    struct pollfd stop = {.fd = inlet->stop_fd, .events = POLLIN};
    return poll(&stop, 1, timeout_ms) > 0;
}

/* False: the launch has ended before rank 0 went on. */
static bool find_position(struct inlet *inlet)
{
    inlet->position = 0;
    while (inlet->is_restored && __atomic_load_n(&inlet->head->input_epoch, __ATOMIC_ACQUIRE) != inlet->epoch)
        if (is_stopped(inlet, LOOK_MS))
            return false;
    uint64_t from = inlet->is_restored ? __atomic_load_n(&inlet->head->input_from, __ATOMIC_RELAXED) : 0;
    const struct outlet_input *input = inlet->input;
    bool is_fresh = input->bytes == 0 && !input->has_ended; /* the memory of it was lost: it is given again */
    uint64_t most = is_fresh ? STREAMS_INPUT_MAX : input->bytes;
    inlet->position = from < most ? from : most;
    return true;
}

/* The program would get less than it was given, and not know it. */
static void give_up(struct inlet *inlet, const char *why)
{
    log_error("standard input cannot be kept for a restart: %s; the job is ended", why);
    inlet->has_failed = true;
    kill(getpid(), SIGTERM); /* as if somebody had asked for it */
}

static void take_in(struct inlet *inlet)
{
    struct outlet_input *input = inlet->input;
    ssize_t got = read(STDIN_FILENO, inlet->piece, PIECE_BYTES);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0)
        inlet->head->input_has_ended = input->has_ended = true;
    else if ((uint64_t)got > STREAMS_INPUT_MAX - input->bytes)
        give_up(inlet, "there is too much of it");
    else if (descriptor_put(inlet->streams_fd, STREAMS_INPUT_OFFSET + input->bytes, inlet->piece,
                            (size_t)got) < 0)
        give_up(inlet, strerror(errno));
    else
        inlet->head->input_bytes = input->bytes += (uint64_t)got;
}

/* False: the launcher does not read any more. */
static bool hand_on(struct inlet *inlet)
{
    uint64_t left = inlet->input->bytes - inlet->position;
    ssize_t got = pread(inlet->streams_fd, inlet->piece, left < PIECE_BYTES ? left : PIECE_BYTES,
                        (off_t)(STREAMS_INPUT_OFFSET + inlet->position));
    ssize_t put = got > 0 ? write(inlet->pipe_fd, inlet->piece, (size_t)got) : -1;
    if (put > 0)
        inlet->position += (uint64_t)put;
    return put > 0 || (got > 0 && (errno == EAGAIN || errno == EINTR));
}

static void *run(void *argument)
{
    struct inlet *inlet = argument;
    const struct outlet_input *input = inlet->input;
    bool is_open = find_position(inlet);
    while (is_open && !(input->has_ended && inlet->position >= input->bytes)) {
        bool is_behind = inlet->position < input->bytes;
        bool has_room = input->bytes < inlet->position + MOST_AHEAD_BYTES;
        struct pollfd fds[] = {
            {.fd = inlet->stop_fd, .events = POLLIN},
            {.fd = has_room && !input->has_ended ? STDIN_FILENO : -1, .events = POLLIN},
            {.fd = inlet->pipe_fd, .events = is_behind ? POLLOUT : 0},
        };
        if (poll(fds, 3, -1) < 0)
            continue;
        if (fds[0].revents || (fds[2].revents & POLLERR))
            break;
        if (fds[1].revents)
            take_in(inlet);
        if (inlet->has_failed)
            return NULL; /* with the pipe open: this is not the end of the input */
        if (fds[2].revents)
            is_open = hand_on(inlet);
    }
    close(inlet->pipe_fd); /* the end of the input */
    inlet->pipe_fd = -1;
    return NULL;
}

int inlet_start(struct inlet *inlet, int streams_fd, struct outlet_input *input, uint32_t epoch,
                bool is_restored, struct belay_error *err)
{
    void *head = mmap(NULL, STREAMS_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, streams_fd, 0);
    if (head == MAP_FAILED)
        return belay_error_errno(err, "cannot map the memory of standard streams");
    inlet->head = head;
    inlet->streams_fd = streams_fd;
    inlet->input = input;
    inlet->epoch = epoch;
    inlet->is_restored = is_restored;
    int code = pthread_create(&inlet->thread, NULL, run, inlet);
    if (code)
        return belay_error_set(err, code, "cannot start a thread: %s", strerror(code));
    inlet->is_started = true;
    return 0;
}

void inlet_destroy(struct inlet *inlet)
{
    int code = errno;
    if (!inlet)
        return;
    if (inlet->is_started) {
        eventfd_write(inlet->stop_fd, 1);
        pthread_join(inlet->thread, NULL);
    }
    if (inlet->head)
        munmap(inlet->head, STREAMS_PAGE_BYTES);
    if (inlet->pipe_fd >= 0)
        close(inlet->pipe_fd);
    if (inlet->stop_fd >= 0)
        close(inlet->stop_fd);
    free(inlet);
    errno = code;
}
