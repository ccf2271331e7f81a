#include "cmd/hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/hosts_folder.h"
#include "cmd/launcher.h"
#include "cmd/string_list.h"
#include "common/util/array.h"
#include "common/util/clock.h"
#include "common/wire/streams.h"

#define JOIN_MS 30000
#define END_MS 2000 /* that a launcher of a relay gets to end by itself */
#define LOOK_MS 50

/* ---- where the ranks would run ---- */

static int add_rank(struct hosts *hosts, uint32_t rank, const char *name, struct belay_error *err)
{
    uint32_t node = 0;
    while (node < hosts->count && strcmp(hosts->of[node].name, name) != 0)
        node++;
    if (node >= PLACEMENT_NODES_MAX)
        return belay_error_set(err, EINVAL, "a job has agents on %u hosts at most", PLACEMENT_NODES_MAX);
    if (node == hosts->count)
        snprintf(hosts->of[hosts->count++].name, sizeof hosts->of[0].name, "%s", name);
    if (rank >= hosts->ranks) {
        uint32_t *placement = reallocarray(hosts->placement, (size_t)rank + 1, sizeof *placement);
        if (!placement)
            return belay_error_set(err, ENOMEM, "out of memory");
        for (uint32_t i = hosts->ranks; i <= rank; i++)
            placement[i] = PLACEMENT_NODES_MAX;
        hosts->placement = placement;
        hosts->ranks = rank + 1;
    }
    hosts->placement[rank] = node;
    return 0;
}

/* One that is none of a process of ours is somebody's greeting. */
static int take_line(struct hosts *hosts, const char *line, struct belay_error *err)
{
    char name[HOST_NAME_MAX + 1];
    unsigned rank;
    if (sscanf(line, "belay-rank %u %64s", &rank, name) != 2 || rank >= STREAMS_MAX_RANKS ||
        !placement_is_host_name(name))
        return 0;
    return add_rank(hosts, rank, name, err);
}

/* Lines up to the end, or the deadline. */
static int read_lines(struct hosts *hosts, int fd, int64_t until_ms, struct belay_error *err)
{
    char text[HOSTS_LINE_BYTES];
    size_t used = 0;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    for (int64_t left; (left = until_ms - clock_now_ms()) > 0;) {
        if (poll(&ready, 1, (int)left) <= 0)
            continue;
        ssize_t got = read(fd, text + used, sizeof text - 1 - used);
        if (got <= 0)
            return 0;
        text[used += (size_t)got] = '\0';
        char *line = text;
        for (char *end; (end = strchr(line, '\n')); line = end + 1) {
            *end = '\0';
            if (take_line(hosts, line, err) < 0)
                return -1;
        }
        used -= (size_t)(line - text);
        memmove(text, line, used);
        if (used == sizeof text - 1) /* no line of ours is so long */
            used = 0;
    }
    return belay_error_set(err, ETIMEDOUT, "they do not answer within %d s", JOIN_MS / 1000);
}

/* Not by which host has answered first: a restart finds the same numbers. */
static void number_by_rank(struct hosts *hosts)
{
    uint32_t numbers[PLACEMENT_NODES_MAX] = {0}, next = 1; /* by number so far; 0: none yet, or this host */
    struct host of[PLACEMENT_NODES_MAX];
    for (uint32_t rank = 0; rank < hosts->ranks; rank++) {
        uint32_t *number = &numbers[hosts->placement[rank]];
        if (*number == 0 && hosts->placement[rank] > 0)
            *number = next++;
        of[*number] = hosts->of[hosts->placement[rank]];
        hosts->placement[rank] = *number;
    }
    memcpy(hosts->of + 1, of + 1, (next - 1) * sizeof *of);
}

static int check_ranks(struct hosts *hosts, struct belay_error *err)
{
    for (uint32_t rank = 0; rank < hosts->ranks; rank++)
        if (hosts->placement[rank] == PLACEMENT_NODES_MAX)
            return belay_error_set(err, EPROTO, "rank %u does not tell where it is", rank);
    number_by_rank(hosts);
    for (uint32_t rank = 0; rank < hosts->ranks; rank++)
        if (hosts->placement[rank] == 0)
            return 0;
    return belay_error_set(err, EINVAL, "none of them is this host, %s: start belay run on one of them",
                           hosts->of[0].name);
}

/* Takes the line over. */
static int run_where(struct hosts *hosts, char **line, const struct hosts_launch *launch,
                     struct belay_error *err)
{
    struct hosts_child child;
    int status = 0;
    int64_t until_ms = clock_now_ms() + JOIN_MS;
    if (hosts_child_start(&child, line, launch, HOSTS_CHILD_SAYS, err) < 0)
        return -1;
    hosts_child_close(&child.in);
    int rc = read_lines(hosts, child.out, until_ms, err);
    while (rc == 0 && !hosts_child_has_ended(&child, &status) && clock_now_ms() < until_ms)
        poll(NULL, 0, LOOK_MS);
    bool has_failed = child.pid != 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    hosts_child_stop(&child);
    if (rc == 0 && has_failed)
        return belay_error_set(err, EHOSTUNREACH,
                               "%s has failed to start %s there, as it tells above: each of them has to be "
                               "reachable, and has to have Belay at the same place",
                               launch->argv[0], launch->relay);
    return rc == 0 ? check_ranks(hosts, err) : -1;
}

static bool has_host(const struct hosts *hosts, const char *name)
{
    for (uint32_t node = 0; node < hosts->count; node++)
        if (strcmp(hosts->of[node].name, name) == 0)
            return true;
    return false;
}

/* Those of `all` that have no ranks, in their order. */
static int take_spares(struct hosts *hosts, const struct hosts *all, uint32_t wanted, struct belay_error *err)
{
    uint32_t count = 0;
    for (uint32_t node = 0; node < all->count && count < wanted; node++) {
        if (has_host(hosts, all->of[node].name))
            continue;
        if (hosts->count == PLACEMENT_NODES_MAX)
            return belay_error_set(err, EINVAL, "a job has agents on %u hosts at most", PLACEMENT_NODES_MAX);
        hosts->of[hosts->count++] = all->of[node];
        count++;
    }
    return count == wanted
               ? 0
               : belay_error_set(err, EINVAL, "--spares %u: the launch leaves %u of them without ranks",
                                 wanted, count);
}

static int find_spares(struct hosts *hosts, const struct hosts_launch *launch, uint32_t wanted,
                       struct belay_error *err)
{
    char *const words[] = {(char *)launch->relay, "where", NULL}; /* only read */
    struct hosts *all = calloc(1, sizeof *all);
    char **line = all ? launch->launcher->spread(launch->argv, launch->environment, words) : NULL;
    if (!line) {
        int code = errno;
        free(all);
        return belay_error_set(
            err, code, code == EINVAL ? "--spares is for a launch line with one program" : "out of memory");
    }
    all->count = 1;
    all->of[0] = hosts->of[0];
    int rc = run_where(all, line, launch, err);
    if (rc == 0)
        rc = take_spares(hosts, all, wanted, err);
    free(all->placement);
    free(all);
    return rc;
}

int hosts_find(struct hosts *hosts, const struct hosts_launch *launch, uint32_t spares,
               struct belay_error *err)
{
    char *const words[] = {(char *)launch->relay, "where", NULL}; /* only read */
    char names[256];
    if (gethostname(hosts->of[0].name, sizeof hosts->of[0].name) < 0)
        return belay_error_errno(err, "this host has no name");
    hosts->count = 1;
    if (run_where(hosts, launch->launcher->where(launch->argv, words), launch, err) == 0 &&
        (spares == 0 || find_spares(hosts, launch, spares, err) == 0))
        return 0;
    launch->launcher->names(launch->argv, names, sizeof names);
    return belay_error_prefix(err, "the hosts of the launch (%s) cannot be used",
                              names[0] ? names : "as allocated");
}

/* ---- the relays ---- */

static int write_key(struct hosts_child *child, const uint8_t key[HOSTS_KEY_BYTES])
{
    return write(child->in, key, HOSTS_KEY_BYTES) == HOSTS_KEY_BYTES
               ? 0
               : -1; /* a pipe takes so little at once */
}

/* A line of the gatherer's. Returns 0, or -1 with err: it has ended, or none comes in time. */
static int hear(struct hosts *hosts, char line[HOSTS_LINE_BYTES], int timeout_ms, struct belay_error *err)
{
    struct pollfd ready = {.fd = fileno(hosts->gatherer_out), .events = POLLIN};
    if (poll(&ready, 1, timeout_ms) <= 0)
        return belay_error_set(err, EAGAIN, "the relay of this host is silent");
    if (!fgets(line, HOSTS_LINE_BYTES, hosts->gatherer_out))
        return belay_error_set(err, ECONNRESET, "the relay of this host has ended, as it tells above");
    line[strcspn(line, "\n")] = '\0';
    return 0;
}

/* *words: "PORT ADDRESS..." */
static int start_gatherer(struct hosts *hosts, const struct hosts_launch *launch,
                          const uint8_t key[HOSTS_KEY_BYTES], char line[HOSTS_LINE_BYTES], const char **words,
                          struct belay_error *err)
{
    static const char greeting[] = "listen ";
    char *const argv[] = {(char *)launch->relay, "gather", hosts->folder, NULL}; /* only read */
    struct hosts_child child;
    int folder = hosts_folder_take(hosts->folder, sizeof hosts->folder, launch->rundir, err);
    if (folder < 0)
        return -1;
    fcntl(folder, F_SETFD, 0); /* it is the gatherer's */
    int rc = hosts_child_start(&child, string_list_copy(argv, 3), launch, HOSTS_CHILD_SAYS, err);
    close(folder);
    if (rc < 0)
        return -1;
    hosts->gatherer = child.pid;
    hosts->gatherer_in = child.in;
    hosts->gatherer_out = fdopen(child.out, "r");
    if (!hosts->gatherer_out || write_key(&child, key) < 0)
        return belay_error_errno(err, "cannot speak with the relay of this host");
    setvbuf(hosts->gatherer_out, NULL, _IONBF, 0); /* so that poll() sees what has come */
    if (hear(hosts, line, JOIN_MS, err) < 0)
        return -1;
    if (strncmp(line, greeting, sizeof greeting - 1) != 0)
        return belay_error_set(err, EPROTO, "the relay of this host says something else than it should");
    *words = line + sizeof greeting - 1;
    return 0;
}

/* host NODE RUNDIR PORT ADDRESS..., or stay for a relay that does not go to the background */
static char **relay_words(const struct hosts_launch *launch, uint32_t node, const char *listens)
{
    struct string_list list = {0};
    char text[HOSTS_LINE_BYTES];
    snprintf(text, sizeof text, "%s", listens);
    int rc = string_list_add(&list, launch->relay) |
             string_list_add(&list, launch->launcher->has_relays ? "stay" : "host") |
             string_list_addf(&list, "%u", node) | string_list_add(&list, launch->rundir);
    for (char *rest = NULL, *word = strtok_r(text, " ", &rest); rc == 0 && word;
         word = strtok_r(NULL, " ", &rest))
        rc = string_list_add(&list, word);
    if (rc == 0)
        return list.items;
    string_list_free(list.items);
    return NULL;
}

static int start_relay(struct hosts_child *child, const struct hosts *hosts, uint32_t node,
                       const struct hosts_launch *launch, bool is_quiet, struct belay_error *err)
{
    enum hosts_child_errors errors = is_quiet                       ? HOSTS_CHILD_IS_QUIET
                                     : launch->launcher->has_relays ? HOSTS_CHILD_KEEPS
                                                                    : HOSTS_CHILD_SAYS;
    char **words = relay_words(launch, node, hosts->listens);
    char **argv = words ? launch->launcher->start(launch->argv, hosts->of[node].name, words) : NULL;
    string_list_free(words);
    if (hosts_child_start(child, argv, launch, errors, err) < 0)
        return -1;
    int rc = write_key(child, hosts->key);
    hosts_child_close(&child->in);
    return rc == 0 ? 0 : belay_error_errno(err, "the launcher does not take the relay's key");
}

/* Returns whether it tells of a host that has joined. */
static bool take_joined(struct hosts *hosts, const char *line, uint32_t *which)
{
    char name[HOST_NAME_MAX + 1], address[HOSTS_ADDRESS_BYTES], own[HOSTS_ADDRESS_BYTES];
    unsigned node;
    if (sscanf(line, "joined %u %64s %63s %63s", &node, name, address, own) != 4 || node == 0 ||
        node >= hosts->count || strcmp(name, hosts->of[node].name) != 0)
        return false;
    snprintf(hosts->of[node].address, sizeof hosts->of[node].address, "%s", address);
    snprintf(hosts->of[0].address, sizeof hosts->of[0].address, "%s", own);
    *which = node;
    return true;
}

/* The first that has not joined; its number is the count of hosts if all have. */
static uint32_t find_missing(const struct hosts *hosts)
{
    uint32_t node = 1;
    while (node < hosts->count && hosts->of[node].address[0])
        node++;
    return node;
}

/* Nobody hears us any more. */
static bool is_launch_gone(void)
{
    struct pollfd reader = {.fd = STDOUT_FILENO};
    return poll(&reader, 1, 0) > 0 && (reader.revents & (POLLERR | POLLHUP));
}

/* A relay whose launcher has failed does not come any more. children is NULL for a launch that has begun. */
static int look_at_launchers(const struct hosts *hosts, struct hosts_child *children, struct belay_error *err)
{
    int status;
    if (!children)
        return is_launch_gone() ? belay_error_set(err, ECANCELED, "the launch has ended") : 0;
    for (uint32_t node = 1; node < hosts->count; node++)
        if (!hosts->of[node].address[0] && hosts_child_has_ended(&children[node], &status) &&
            !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
            return belay_error_set(err, EHOSTUNREACH, "host %s cannot join, as is told above",
                                   hosts->of[node].name);
    return 0;
}

static int await_hosts(struct hosts *hosts, struct hosts_child *children, struct belay_error *err)
{
    char line[HOSTS_LINE_BYTES];
    uint32_t node;
    for (int64_t until_ms = clock_now_ms() + JOIN_MS; find_missing(hosts) < hosts->count;) {
        if (hear(hosts, line, LOOK_MS, err) == 0)
            take_joined(hosts, line, &node);
        else if (err->code != EAGAIN || look_at_launchers(hosts, children, err) < 0)
            return -1;
        if (clock_now_ms() > until_ms && find_missing(hosts) < hosts->count)
            return belay_error_set(err, EHOSTUNREACH, "host %s has not joined within %d s",
                                   hosts->of[find_missing(hosts)].name, JOIN_MS / 1000);
    }
    return 0;
}

int hosts_join(struct hosts *hosts, const struct hosts_launch *launch, struct belay_error *err)
{
    char line[HOSTS_LINE_BYTES];
    const char *listens;
    struct hosts_child children[PLACEMENT_NODES_MAX];
    for (uint32_t node = 0; node < PLACEMENT_NODES_MAX; node++)
        children[node] = HOSTS_CHILD_NONE;
    if (getrandom(hosts->key, sizeof hosts->key, 0) != sizeof hosts->key)
        return belay_error_errno(err, "no random numbers");
    int rc = start_gatherer(hosts, launch, hosts->key, line, &listens, err);
    if (rc == 0)
        snprintf(hosts->listens, sizeof hosts->listens, "%s", listens);
    for (uint32_t node = 1; rc == 0 && node < hosts->count; node++)
        rc = start_relay(&children[node], hosts, node, launch, false, err);
    if (rc == 0)
        rc = await_hosts(hosts, children, err);
    for (uint32_t node = 1; node < hosts->count; node++) {
        if (rc == 0 && launch->launcher->has_relays) {
            hosts_keep_launcher(hosts, node, &children[node]);
            continue;
        }
        if (rc == 0) /* a relay that has joined leaves it */
            hosts_child_await(&children[node], END_MS);
        else
            hosts_child_tell(&children[node]);
        hosts_child_stop(&children[node]);
    }
    return rc;
}

/* That of a host that was lost waits until Slurm has found that, too, and ends the step then. */
static void drop_launcher(struct hosts *hosts, uint32_t node)
{
    if (hosts->launchers[node].pid)
        hosts_child_kill(&hosts->launchers[node]);
}

void hosts_keep_launcher(struct hosts *hosts, uint32_t node, struct hosts_child *child)
{
    hosts_child_close(&child->in);
    hosts_child_close(&child->out);
    hosts_child_close(&child->said);
    drop_launcher(hosts, node); /* of the relay before */
    hosts->launchers[node] = *child;
    *child = HOSTS_CHILD_NONE;
}

void hosts_add_launcher(struct hosts *hosts, uint32_t node, struct hosts_child *child)
{
    if (hosts->launchers[node].pid &&
        array_reserve(&hosts->former, hosts->former_count + 1, &hosts->former_room) == 0) {
        hosts->former[hosts->former_count++] = hosts->launchers[node];
        hosts->launchers[node] = HOSTS_CHILD_NONE;
    }
    hosts_keep_launcher(hosts, node, child);
}

int hosts_call_back(struct hosts *hosts, uint32_t node, const struct hosts_launch *launch,
                    struct hosts_child *child, struct belay_error *err)
{
    *child = HOSTS_CHILD_NONE;
    if (!hosts->listens[0])
        return belay_error_set(err, ENOTCONN, "the relays of this launch were started by its processes");
    return start_relay(child, hosts, node, launch, true, err);
}

int hosts_hear_joined(struct hosts *hosts, struct belay_error *err)
{
    char line[HOSTS_LINE_BYTES];
    uint32_t node;
    while (hear(hosts, line, 0, err) == 0)
        if (take_joined(hosts, line, &node))
            return (int)node;
    return err->code == EAGAIN ? 0 : -1;
}

static void tell_launch(const struct hosts_launch *launch, const char *listens,
                        const uint8_t key[HOSTS_KEY_BYTES])
{
    for (size_t i = 0; i < HOSTS_KEY_BYTES; i++)
        printf("%02x", key[i]);
    printf("\n%s\n%s\n\n", launch->rundir, listens);
    fflush(stdout);
}

int hosts_await(struct hosts *hosts, const struct hosts_launch *launch, struct belay_error *err)
{
    uint8_t key[HOSTS_KEY_BYTES];
    char line[HOSTS_LINE_BYTES];
    const char *listens;
    if (getrandom(key, sizeof key, 0) != sizeof key)
        return belay_error_errno(err, "no random numbers");
    int rc = start_gatherer(hosts, launch, key, line, &listens, err);
    if (rc == 0)
        tell_launch(launch, listens, key);
    explicit_bzero(key, sizeof key);
    return rc == 0 ? await_hosts(hosts, NULL, err) : -1;
}

void hosts_detach(const struct hosts *hosts)
{
    if (hosts->gatherer == 0)
        return;
    ssize_t ignored = write(hosts->gatherer_in, "", 1);
    (void)ignored;
}

/* The relays end as the gatherer has. */
static void release_launchers(struct hosts *hosts)
{
    int64_t until_ms = clock_now_ms() + END_MS;
    for (uint32_t node = 1; node < hosts->count; node++) {
        int64_t left_ms = until_ms - clock_now_ms();
        if (hosts->launchers[node].pid && left_ms > 0)
            hosts_child_await(&hosts->launchers[node], (int)left_ms);
        drop_launcher(hosts, node);
    }
    for (size_t i = 0; i < hosts->former_count; i++)
        hosts_child_kill(&hosts->former[i]);
    free(hosts->former);
    hosts->former = NULL;
    hosts->former_count = hosts->former_room = 0;
}

void hosts_release(struct hosts *hosts)
{
    free(hosts->placement);
    hosts->placement = NULL;
    explicit_bzero(hosts->key, sizeof hosts->key);
    if (hosts->gatherer == 0)
        return;
    close(hosts->gatherer_in);
    if (hosts->gatherer_out)
        fclose(hosts->gatherer_out);
    waitpid(hosts->gatherer, NULL, 0);
    hosts->gatherer = 0;
    release_launchers(hosts);
}

char *hosts_words(const struct hosts *hosts)
{
    char *words = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&words, &bytes);
    if (!stream)
        return NULL;
    for (uint32_t node = 0; node < hosts->count; node++)
        fprintf(stream, "%s%s", node ? "," : "", hosts->of[node].name);
    if (fclose(stream) == 0)
        return words;
    free(words);
    errno = ENOMEM;
    return NULL;
}
