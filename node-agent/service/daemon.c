#include "node-agent/service/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/conf/conf.h"
#include "common/util/log.h"
#include "common/util/private_memory.h"
#include "common/wire/client.h"
#include "common/wire/message.h"
#include "common/wire/rundir.h"
#include "node-agent/capture/tracker.h"
#include "node-agent/job/agent.h"
#include "node-agent/job/capacity.h"
#include "node-agent/job/job.h"
#include "node-agent/launch/jobs.h"
#include "node-agent/launch/record.h"
#include "node-agent/loop/inherited.h"
#include "node-agent/loop/timer.h"

#define GRACE_MS 1000      /* how long an idle agent waits for more work */
#define LOCK_WAIT_MS 10000 /* for another agent that is starting or leaving */
#define LOCK_STEP_MS 5
#define PATIENCE_MS 60000 /* with a client that has not said what it wants; starved ones take seconds */
#define REST_MS 100
#define THREADS 4u /* that copy memory */

struct daemon {
    struct agent agent; /* first: agent callbacks find the daemon by it */
    uv_loop_t loop;
    int lock;     /* -1: not held */
    int listener; /* -1: not listening */
    uv_poll_t listen_watch;
    uv_signal_t terminate, interrupt;
    struct timer *grace;
    struct timer *rest; /* while no client can be accepted */
    int spare;          /* descriptor, given up for a moment when there is none left; -1: none */
    bool has_loop;
    bool is_told_to_end; /* by a signal: what is held is left to the next agent */
};

static int take_lock(struct daemon *daemon, struct belay_error *err);
static int try_lock(struct daemon *daemon);
static bool is_served(const struct daemon *daemon);
static int start_threads(struct daemon *daemon, struct belay_error *err);
static void hide(void);
static int find_keeper(struct daemon *daemon, struct belay_error *err);
static int start_listening(struct daemon *daemon, struct belay_error *err);
static int watch(struct daemon *daemon, struct belay_error *err);
static void on_client(uv_poll_t *handle, int status, int events);
static void turn_away(struct daemon *daemon);
static void listen_again(void *context);
static void on_signal(uv_signal_t *handle, int number);
static void on_settle(struct agent *agent);
static void on_grace_over(void *context);
static void close_handle(uv_handle_t *handle, void *context);
static void remove_file(const struct daemon *daemon, const char *name);
static void path_of(const struct daemon *daemon, const char *name, char path[AGENT_PATH_BYTES + 32]);

struct daemon *daemon_create(const char *rundir, struct belay_error *err)
{
    struct daemon *daemon = calloc(1, sizeof *daemon);
    if (!daemon) {
        belay_error_errno(err, "cannot start");
        return NULL;
    }
    daemon->lock = daemon->listener = -1;
    daemon->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    daemon->agent.loop = &daemon->loop;
    daemon->agent.settle = on_settle;
    if (snprintf(daemon->agent.rundir, AGENT_PATH_BYTES, "%s", rundir) >= AGENT_PATH_BYTES) {
        belay_error_set(err, ENAMETOOLONG, "the run directory's path is too long: %s", rundir);
        goto fail;
    }
    gethostname(daemon->agent.node, sizeof daemon->agent.node - 1);
    if (conf_number(CONF_RECORD_AGE, NULL, &daemon->agent.record_age_ms, err) || take_lock(daemon, err) < 0)
        goto fail;
    int rc = uv_loop_init(&daemon->loop);
    if (rc != 0) {
        belay_error_set(err, -rc, "cannot make an event loop: %s", uv_strerror(rc));
        goto fail;
    }
    daemon->has_loop = true;
    if (!(daemon->grace = timer_new(&daemon->loop, on_grace_over, daemon)) ||
        !(daemon->rest = timer_new(&daemon->loop, listen_again, daemon))) {
        belay_error_set(err, ENOMEM, "cannot make a timer");
        goto fail;
    }
    if (capacity_check(&daemon->agent, NULL, 0, err) < 0 || start_threads(daemon, err) < 0)
        goto fail;
    hide();
    if (find_keeper(daemon, err) < 0 || record_adopt(&daemon->agent, err) < 0 ||
        capacity_check(&daemon->agent, NULL, 0, err) < 0 || start_listening(daemon, err) < 0 ||
        watch(daemon, err) < 0)
        goto fail;
    record_remove_old(&daemon->agent);
    return daemon;
fail:
    daemon->is_told_to_end = true; /* what the keeper holds is for an agent that can do with it */
    daemon_destroy(daemon);
    return NULL;
}

void daemon_run(struct daemon *daemon)
{
    on_settle(&daemon->agent);
    uv_run(&daemon->loop, UV_RUN_DEFAULT);
}

void daemon_destroy(struct daemon *daemon)
{
    if (!daemon)
        return;
    int code = errno;
    struct job *job, *next;
    if (daemon->listener >= 0) { /* first, so that clients turn to the next agent */
        remove_file(daemon, "agent.sock");
        close(daemon->listener);
    }
    daemon->agent.leaves_jobs = daemon->is_told_to_end;
    if (daemon->is_told_to_end)
        keeper_detach(daemon->agent.keeper);
    HASH_ITER(hh, daemon->agent.jobs, job, next)
    job_forget(job);
    keeper_close(daemon->agent.keeper);
    timer_destroy(daemon->grace);
    timer_destroy(daemon->rest);
    if (daemon->spare >= 0)
        close(daemon->spare);
    if (daemon->has_loop) {
        uv_walk(&daemon->loop, close_handle, NULL);
        uv_run(&daemon->loop, UV_RUN_DEFAULT);
        uv_loop_close(&daemon->loop);
    }
    if (daemon->lock >= 0) {
        remove_file(daemon, "agent.log");
        remove_file(daemon, "agent.lock");
        undo_remove_base(daemon->agent.rundir);
        rundir_remove(daemon->agent.rundir); /* not while records are there, or a job begins */
        close(daemon->lock);
    }
    free(daemon);
    errno = code;
}

/* Only the holder of the lock serves; who comes second either finds an agent or becomes it. */
static int take_lock(struct daemon *daemon, struct belay_error *err)
{
    for (int waited_ms = 0; waited_ms < LOCK_WAIT_MS; waited_ms += LOCK_STEP_MS) {
        if (rundir_make(daemon->agent.rundir, err) < 0)
            return -1;
        if (try_lock(daemon) == 0)
            return 0;
        if (errno != EWOULDBLOCK && errno != ENOENT)
            return belay_error_errno(err, "cannot lock %s/agent.lock", daemon->agent.rundir);
        if (is_served(daemon))
            return belay_error_set(err, EBUSY, "an agent serves %s already", daemon->agent.rundir);
        usleep(LOCK_STEP_MS * 1000);
    }
    return belay_error_set(err, ETIMEDOUT, "another agent holds %s but does not answer",
                           daemon->agent.rundir);
}

/* A lock on a file that its last holder has removed meanwhile is none: the directory's is another. */
static int try_lock(struct daemon *daemon)
{
    char path[AGENT_PATH_BYTES + 32];
    struct stat held, named;
    path_of(daemon, "agent.lock", path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &held) < 0 || stat(path, &named) < 0) {
        int code = errno;
        close(fd);
        errno = code;
        return -1;
    }
    if (held.st_ino != named.st_ino || held.st_dev != named.st_dev) {
        close(fd);
        errno = EWOULDBLOCK;
        return -1;
    }
    daemon->lock = fd;
    return 0;
}

static bool is_served(const struct daemon *daemon)
{
    int sock = agent_connect(daemon->agent.rundir, NULL, NULL);
    if (sock < 0)
        return false;
    close(sock);
    return true;
}

static void do_nothing(uv_work_t *work)
{
    (void)work;
}

static void free_work(uv_work_t *work, int status)
{
    (void)status;
    free(work);
}

/*
 * The pool's threads are there before anything depends on them: libuv makes them with the first work, and
 * aborts the process if it cannot. As many as we say, not as the environment does.
 */
static int start_threads(struct daemon *daemon, struct belay_error *err)
{
    char text[16];
    uv_work_t *first = malloc(sizeof *first);
    snprintf(text, sizeof text, "%u", THREADS);
    if (!first || setenv("UV_THREADPOOL_SIZE", text, 1) < 0) {
        free(first);
        return belay_error_set(err, ENOMEM, "no memory to start threads");
    }
    if (inherited_try_threads(THREADS, err) < 0) {
        free(first);
        return -1;
    }
    uv_queue_work(&daemon->loop, first, do_nothing, free_work); /* cannot fail */
    return 0;
}

/* Images are not for core files, nor for other processes of this user. What reads /proc/self comes before. */
static void hide(void)
{
    tracker_try_all();
    private_memory_begin();
}

static int find_keeper(struct daemon *daemon, struct belay_error *err)
{
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - sizeof "/belay-keeper");
    if (length < 0)
        return belay_error_errno(err, "cannot find my own program");
    program[length] = '\0';
    strcpy(strrchr(program, '/'), "/belay-keeper");
    daemon->agent.keeper = keeper_open(daemon->agent.rundir, program, err);
    return daemon->agent.keeper ? 0 : -1;
}

static int start_listening(struct daemon *daemon, struct belay_error *err)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    char path[AGENT_PATH_BYTES + 32];
    path_of(daemon, "agent.sock", path);
    if (strlen(path) >= sizeof name.sun_path)
        return belay_error_set(err, ENAMETOOLONG, "the run directory's path is too long: %s", path);
    strcpy(name.sun_path, path);
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0)
        return belay_error_errno(err, "cannot make a socket");
    unlink(path);
    mode_t mask = umask(0177);
    int rc = bind(sock, (struct sockaddr *)&name, sizeof name);
    umask(mask);
    if (rc < 0 || listen(sock, 1024) < 0) {
        belay_error_errno(err, "cannot listen on %s", path);
        close(sock);
        return -1;
    }
    daemon->listener = sock;
    return 0;
}

static int watch(struct daemon *daemon, struct belay_error *err)
{
    daemon->listen_watch.data = daemon;
    daemon->terminate.data = daemon;
    daemon->interrupt.data = daemon;
    int rc = uv_poll_init(&daemon->loop, &daemon->listen_watch, daemon->listener);
    if (rc == 0)
        rc = uv_poll_start(&daemon->listen_watch, UV_READABLE, on_client);
    if (rc == 0)
        rc = uv_signal_init(&daemon->loop, &daemon->terminate);
    if (rc == 0)
        rc = uv_signal_start(&daemon->terminate, on_signal, SIGTERM);
    if (rc == 0)
        rc = uv_signal_init(&daemon->loop, &daemon->interrupt);
    if (rc == 0)
        rc = uv_signal_start(&daemon->interrupt, on_signal, SIGINT);
    return rc == 0 ? 0 : belay_error_set(err, -rc, "cannot watch for clients: %s", uv_strerror(rc));
}

static void on_client(uv_poll_t *handle, int status, int events)
{
    struct daemon *daemon = handle->data;
    (void)status, (void)events;
    int sock = accept4(daemon->listener, NULL, NULL, SOCK_CLOEXEC);
    if (sock < 0 && (errno == EMFILE || errno == ENFILE))
        turn_away(daemon);
    if (sock >= 0 &&
        connection_create(&daemon->loop, sock, PATIENCE_MS, &agent_connection_ops, &daemon->agent))
        daemon->agent.connection_count++;
}

/* With the spare descriptor a client learns why it is not served. Left waiting, it would keep the loop busy.
 */
static void turn_away(struct daemon *daemon)
{
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    int code = errno;
    if (daemon->spare >= 0)
        close(daemon->spare);
    int sock = accept4(daemon->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    reply.error =
        "the agent has no descriptor left for another client: raise the hard limit (ulimit -Hn) before "
        "it is started, or end some jobs";
    reply.error_code = (uint32_t)code;
    log_warning("a client is turned away: %s", strerror(code));
    if (sock >= 0) {
        message_send(sock, &reply.base, NULL, 0, NULL);
        close(sock);
    }
    daemon->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (sock < 0) {
        uv_poll_stop(&daemon->listen_watch);
        timer_start(daemon->rest, REST_MS, 0);
    }
}

static void listen_again(void *context)
{
    struct daemon *daemon = context;
    uv_poll_start(&daemon->listen_watch, UV_READABLE, on_client);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;
    log_info("ending on signal %d", number);
    daemon->is_told_to_end = true;
    uv_stop(&daemon->loop);
}

static void on_settle(struct agent *agent)
{
    struct daemon *daemon = (struct daemon *)agent;
    agent->is_cleaned = agent->is_cleaned && !agent->jobs;
    timer_start(daemon->grace, agent->is_cleaned ? 0 : GRACE_MS, 0);
}

static void on_grace_over(void *context)
{
    struct daemon *daemon = context;
    if (daemon->agent.connection_count == 0 && !daemon->agent.jobs)
        uv_stop(&daemon->loop);
}

static void close_handle(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void remove_file(const struct daemon *daemon, const char *name)
{
    char path[AGENT_PATH_BYTES + 32];
    path_of(daemon, name, path);
    unlink(path);
}

static void path_of(const struct daemon *daemon, const char *name, char path[AGENT_PATH_BYTES + 32])
{
    snprintf(path, AGENT_PATH_BYTES + 32, "%s/%s", daemon->agent.rundir, name);
}
