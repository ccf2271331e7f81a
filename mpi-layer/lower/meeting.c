/* meeting.c - see meeting.h. */
#include "mpi-layer/lower/meeting.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/wire/board.h"
#include "common/wire/placement.h"
#include "common/secure/envelope.h"
#include "mpi-layer/lower/errand.h"
#include "mpi-layer/lower/exchange.h"

#define JOIN_MS 30000
#define LATER_MS 10000 /* between two that tell who is missing, if the first cannot */
#define OPEN_MS 90000  /* for all hosts to join, and an epoch to be opened */
#define KEY_BYTES 48u  /* of a session of relays */
#define ADDRESSES_MAX 32u

#define KEY_HOST "belay.host"     /* of each rank: the name of its host, and for whom envelopes are to be */
#define KEY_LISTEN "belay.listen" /* of the first: how relays reach the arbiter; "": it has failed */
#define KEY_EPOCH "belay.epoch"   /* of the first: variables for all ranks; "": it has failed */

/* The process that has met; what it executes before MPI_Init finds its connection to PMIx used up. */
#define MET_VARIABLE "BELAY_MET"

/* Where ranks are. */
struct map {
    char names[PLACEMENT_NODES_MAX][HOST_NAME_MAX + 1];          /* of the hosts, by the first rank of each */
    char addresses[PLACEMENT_NODES_MAX][ENVELOPE_ADDRESS_BYTES]; /* of the first rank on each (envelope.h) */
    uint32_t count;
    uint32_t *nodes; /* by rank */
};

static char text[EXCHANGE_TEXT_BYTES]; /* what is heard last */
static char said[EXCHANGE_TEXT_BYTES]; /* made of it */

static int told_elsewhere(struct belay_error *err)
{
    return belay_error_set(err, ECANCELED, "%s", "");
}

/* ---- who is where ---- */

/* address: NULL: the rank is not the first of its host. */
static int add(struct map *map, uint32_t rank, const char *name, const char *address, struct belay_error *err)
{
    uint32_t node = 0;
    while (node < map->count && strcmp(map->names[node], name) != 0)
        node++;
    if (node == PLACEMENT_NODES_MAX)
        return belay_error_set(err, EINVAL, "a job has agents on %u hosts at most", PLACEMENT_NODES_MAX);
    if (node == map->count)
        snprintf(map->names[map->count++], sizeof map->names[0], "%s", name);
    map->nodes[rank] = node;
    if (address)
        snprintf(map->addresses[node], sizeof map->addresses[0], "%s", address);
    return 0;
}

/*
 * Where one rank is without Belay, its own MPI_Init fails at the fence that the others have left, and the
 * launcher sends SIGTERM to all, SIGKILL a second later. Who looks for the missing rank tells before it ends.
 */
static struct sigaction end_before;
static volatile sig_atomic_t has_to_end;

static void note_end(int number)
{
    (void)number;
    has_to_end = 1;
}

static void put_end_off(void)
{
    struct sigaction action = {.sa_handler = note_end, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, &end_before);
}

static void end_if_told(void)
{
    sigaction(SIGTERM, &end_before, NULL);
    if (has_to_end)
        raise(SIGTERM);
}

static int name_missing(uint32_t missing, const struct meeting_place *place, struct belay_error *err)
{
    char name[HOST_NAME_MAX + 1];
    exchange_host_of(missing, name, sizeof name);
    return belay_error_set(
        err, EHOSTUNREACH,
        "rank %u on host %s does not run with Belay: libbelay.so must be preloaded for all ranks "
        "of the launch, and %slibbelay.so must be there",
        missing, name, place->folder);
}

static int find_all(struct map *map, const struct rank *rank, const struct meeting_place *place,
                    struct belay_error *err)
{
    map->nodes = calloc(rank->ranks, sizeof *map->nodes);
    if (!map->nodes)
        return belay_error_set(err, ENOMEM, "no memory for %u ranks", rank->ranks);
    for (uint32_t i = 0; i < rank->ranks; i++) {
        if (exchange_get(i, KEY_HOST, JOIN_MS, text, err) < 0)
            return name_missing(i, place, err);
        char *address = text;
        const char *name = strsep(&address, " ");
        if (!placement_is_host_name(name))
            return belay_error_set(err, EINVAL, "the name of the host of rank %u cannot be used", i);
        if (add(map, i, name, address, err) < 0)
            return -1;
    }
    return 0;
}

/* Two hosts of one name would be taken for one. */
static int check_names(const struct map *map, const struct rank *rank, struct belay_error *err)
{
    uint32_t here = 0;
    for (uint32_t i = 0; i < rank->ranks; i++)
        here += map->nodes[i] == map->nodes[rank->rank];
    if (here == exchange_count_here())
        return 0;
    return belay_error_set(err, EINVAL, "several hosts of the launch have the name %s",
                           map->names[map->nodes[rank->rank]]);
}

/* The first rank of each host says where envelopes for it go. */
static int say_host(struct envelope_pair *pair, struct belay_error *err)
{
    char name[HOST_NAME_MAX + 1], address[ENVELOPE_ADDRESS_BYTES] = "", line[sizeof name + sizeof address];
    bool is_first = rank_is_first_here();
    if (gethostname(name, sizeof name) < 0)
        return belay_error_errno(err, "this host has no name");
    if (is_first && envelope_make_pair(pair, address, err) < 0)
        return -1;
    snprintf(line, sizeof line, "%s%s%s", name, is_first ? " " : "", address);
    return exchange_put(KEY_HOST, line, err);
}

/* ---- the first rank ---- */

static int start_arbiter(const struct rank *rank, const struct meeting_place *place, const struct map *map,
                         struct errand *arbiter, struct belay_error *err)
{
    char path[PATH_MAX], name[RANK_NAME_BYTES], ranks[16], hosts[PLACEMENT_NODES_MAX * (HOST_NAME_MAX + 2)];
    uint32_t numbers[PLACEMENT_NODES_MAX];
    size_t used = 0;
    for (uint32_t node = 0; node < map->count; node++) {
        numbers[node] = node;
        used +=
            (size_t)snprintf(hosts + used, sizeof hosts - used, "%s%s", node ? "," : "", map->names[node]);
    }
    char *words = placement_words(numbers, map->count, map->nodes, rank->ranks);
    if (!words)
        return belay_error_set(err, ENOMEM, "no memory to start an arbiter");
    rank_job_name(place->program, name, sizeof name);
    snprintf(ranks, sizeof ranks, "%u", rank->ranks);
    snprintf(path, sizeof path, "%sbelay-arbiter", place->folder);
    char *const argv[] = {path, name, hosts, ranks, words, (char *)(uintptr_t)place->program, NULL};
    int rc = errand_start_arbiter(arbiter, argv, err);
    free(words);
    return rc;
}

/* The first line is the key, which only relays are to have. */
static int seal_for_hosts(const struct map *map, struct belay_error *err)
{
    char sealed[ENVELOPE_TEXT_BYTES], *rest = text;
    const char *plain = strsep(&rest, "\n");
    FILE *stream = rest ? fmemopen(said, sizeof said - 1, "w") : NULL; /* its last byte stays 0 */
    int rc = stream ? 0 : belay_error_set(err, EPROTO, "the arbiter says something else than it should");
    if (stream)
        fprintf(stream, "%s\n", rest);
    for (uint32_t node = 1; rc == 0 && node < map->count; node++) {
        rc = envelope_seal(map->addresses[node], plain, sealed, err);
        if (rc == 0)
            fprintf(stream, "%u %s\n", node, sealed);
    }
    if (stream && fclose(stream) != 0 && rc == 0)
        rc = belay_error_errno(err, "what the arbiter says is too long");
    memcpy(text, said, sizeof text);
    return rc;
}

/* What the arbiter says next is for all. If it has failed, it has told why. */
static int pass_on(struct errand *arbiter, const char *key, const struct map *map, int timeout_ms,
                   struct belay_error *err)
{
    struct belay_error ignored;
    if (errand_hear(arbiter, text, sizeof text, timeout_ms, err) == 0 &&
        (!map || seal_for_hosts(map, err) == 0))
        return exchange_put(key, text, err);
    exchange_put(key, "", &ignored);
    return -1;
}

/* ---- the first rank of another host ---- */

/* What is sealed for this host, or NULL. */
static const char *find_envelope(char *lines, uint32_t node)
{
    for (char *line; (line = strsep(&lines, "\n"));) {
        char *envelope;
        if (strtoul(line, &envelope, 10) == node && envelope != line && *envelope == ' ')
            return envelope + 1;
    }
    return NULL;
}

/* The run directory, port and addresses, and a line for each host. */
static int start_relay(uint32_t node, const struct meeting_place *place, const struct envelope_pair *pair,
                       struct belay_error *err)
{
    char path[PATH_MAX], number[16], *argv[ADDRESSES_MAX + 5], *rest = text, *more = NULL;
    char *rundir = strsep(&rest, "\n"), *listens = rest ? strsep(&rest, "\n") : NULL;
    const char *envelope = rest ? find_envelope(rest, node) : NULL;
    uint8_t key[ENVELOPE_SECRET_BYTES];
    size_t used = 0;
    if (!envelope)
        return belay_error_set(err, EPROTO, "the arbiter says something else than it should");
    if (envelope_open(pair, envelope, key, err) < 0)
        return -1;
    snprintf(path, sizeof path, "%sbelay-relay", place->folder);
    snprintf(number, sizeof number, "%u", node);
    argv[used++] = path;
    argv[used++] = (char *)(uintptr_t) "host";
    argv[used++] = number;
    argv[used++] = rundir;
    for (char *word = strtok_r(listens, " ", &more); word && used < ADDRESSES_MAX + 4;
         word = strtok_r(NULL, " ", &more))
        argv[used++] = word;
    argv[used] = NULL;
    int rc = errand_run_relay(argv, key, sizeof key, err);
    explicit_bzero(key, sizeof key);
    return rc;
}

/* ---- all ranks ---- */

/* Lines NAME=VALUE. */
static int take_variables(struct belay_error *err)
{
    static const char *const names[] = PLACEMENT_LAUNCH_VARIABLES;
    bool is_found[sizeof names / sizeof *names] = {false};
    size_t found = 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *value = strchr(line, '=');
        for (size_t i = 0; value && i < sizeof names / sizeof *names; i++)
            if (strlen(names[i]) == (size_t)(value - line) && !strncmp(line, names[i], strlen(names[i])))
                is_found[i] = value[1] ? setenv(names[i], value + 1, 1) == 0
                                       : i >= PLACEMENT_LAUNCH_NEEDED && unsetenv(names[i]) == 0;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found += is_found[i];
    return found == sizeof names / sizeof *names
               ? 0
               : belay_error_set(err, EPROTO, "the arbiter says something else than it should");
}

/* What the first rank has said, in `text`. */
static int hear_first(const char *key, struct belay_error *err)
{
    if (exchange_fence(OPEN_MS + JOIN_MS, err) < 0)
        return -1;
    if (exchange_get(0, key, OPEN_MS + JOIN_MS, text, err) <
        0) /* it has ended, and a fence does not wait for ranks that have */
        return told_elsewhere(err);
    return text[0] ? 0 : told_elsewhere(err);
}

/* Of the ranks that are there, one tells which is not: the launch ends over that. */
static int patience_ms(const struct rank *rank)
{
    if (rank->rank == 0)
        return JOIN_MS;
    return rank_is_first_here() ? JOIN_MS + LATER_MS : JOIN_MS + 2 * LATER_MS;
}

static int explain_absence(const struct rank *rank, const struct meeting_place *place,
                           struct belay_error *err)
{
    for (uint32_t i = 0; i < rank->ranks; i++)
        if (i != rank->rank && exchange_get(i, KEY_HOST, JOIN_MS, text, err) < 0)
            return name_missing(i, place, err);
    return belay_error_set(err, ETIMEDOUT, "the ranks of the launch do not meet within %d s", JOIN_MS / 1000);
}

static int hold(const struct rank *rank, const struct meeting_place *place, struct map *map,
                struct errand *arbiter, struct envelope_pair *pair, struct belay_error *err)
{
    bool is_first = rank->rank == 0, is_first_here = rank_is_first_here();
    if (exchange_open(rank->rank, err) < 0 || say_host(pair, err) < 0)
        return -1;
    put_end_off(); /* and if this fails, until it is told */
    if (exchange_fence(patience_ms(rank), err) < 0)
        return err->code == ETIMEDOUT ? explain_absence(rank, place, err) : -1;
    if ((is_first || is_first_here) &&
        (find_all(map, rank, place, err) < 0 || check_names(map, rank, err) < 0))
        return -1;
    end_if_told();
    if (is_first && (start_arbiter(rank, place, map, arbiter, err) < 0 ||
                     pass_on(arbiter, KEY_LISTEN, map, JOIN_MS, err) < 0))
        return -1;
    if (hear_first(KEY_LISTEN, err) < 0)
        return -1;
    if (is_first_here && map->nodes[rank->rank] > 0 &&
        start_relay(map->nodes[rank->rank], place, pair, err) < 0)
        return -1;
    if (is_first && pass_on(arbiter, KEY_EPOCH, NULL, OPEN_MS, err) < 0)
        return -1;
    return hear_first(KEY_EPOCH, err) < 0 ? -1 : take_variables(err);
}

static void note_process(void)
{
    char number[16];
    snprintf(number, sizeof number, "%d", (int)getpid());
    setenv(MET_VARIABLE, number, 1);
}

/* Was this process another program of the launch before? */
static int check_process(struct belay_error *err)
{
    const char *met = getenv(MET_VARIABLE);
    if (!met || strtol(met, NULL, 10) != getpid())
        return 0;
    return belay_error_set(
        err, ENOTSUP,
        "an MPI program that another one executes before MPI_Init runs on several hosts under belay "
        "run only: 'belay run -- mpirun ...'");
}

/* Fences of Slurm's PMIx end before all are there, or fail, as mpi.conf says: ranks need a board to meet. */
static int refuse_launcher(struct belay_error *err)
{
    char name[HOST_NAME_MAX + 1] = "?";
    if (!rank_is_first_here())
        return told_elsewhere(err);
    gethostname(name, sizeof name);
    return belay_error_set(
        err, ENOTSUP,
        "host %s is one of several of this launch, which is not mpirun's: under Slurm, programs on several "
        "hosts are protected by 'srun --checkpoint-interval=T', where Belay's plugin is installed",
        name);
}

int meeting_hold(const struct rank *rank, const struct meeting_place *place, struct belay_error *err)
{
    static struct map map;
    struct errand arbiter = {.out = -1};
    struct envelope_pair pair;
    if (getenv("BELAY_EPOCH") || (!rank_has_other_hosts(rank) && !exchange_has_board()))
        return check_process(err);
    if (!getenv("OMPI_COMM_WORLD_SIZE") && !exchange_has_board())
        return refuse_launcher(err);
    int rc = hold(rank, place, &map, &arbiter, &pair, err);
    if (rc == 0 && !exchange_has_board())
        note_process();
    if (exchange_has_board())
        exchange_close();
    unsetenv(BOARD_VARIABLE);
    errand_end(&arbiter);
    free(map.nodes);
    map.nodes = NULL;
    explicit_bzero(&pair, sizeof pair);
    explicit_bzero(text, sizeof text);
    explicit_bzero(said, sizeof said);
    return rc;
}

void meeting_leave(void)
{
    exchange_close();
}
