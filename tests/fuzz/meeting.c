/*
 * What a rank hears by PMIx, or by the board of tasks of srun, before MPI_Init, and of its arbiter
 * (mpi-layer/lower/meeting.c). The first byte chooses which rank this is; the texts behind it, with a NUL
 * between them, are what the others say. In them,
 * '@' stands for an envelope that is sealed for this rank.
 */
#include "mpi-layer/lower/meeting.h"

#include <errno.h>

#include "common/secure/envelope.h"
#include "common/wire/placement.h"
#include "mpi-layer/lower/errand.h"
#include "mpi-layer/lower/exchange.h"
#include "tests/fuzz/target.h"

#define RANKS 4u
#define HOST "belay.host"
#define WORDS_MAX 64u

static const char *next, *end; /* of the texts */
static struct rank rank;
static bool has_board;                     /* of srun's tasks */
static unsigned here;                      /* ranks of this host, as the launcher tells */
static char own_host[EXCHANGE_TEXT_BYTES]; /* what this rank has said */
static char own_text[EXCHANGE_TEXT_BYTES]; /* ... last, as the first one */
static char plain[2 * ENVELOPE_SECRET_BYTES + 1];

static void take_text(char *text, size_t bytes)
{
    char envelope[ENVELOPE_TEXT_BYTES];
    const char *address = strchr(own_host, ' ');
    bool is_sealed = address && envelope_seal(address + 1, plain, envelope, NULL) == 0;
    size_t used = 0;
    for (; next < end && *next; next++) {
        const char from[2] = {*next, '\0'}, *add = *next == '@' && is_sealed ? envelope : from;
        if (used + strlen(add) < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s", add);
    }
    text[used] = '\0';
    next += next < end;
}

/* ---- stand-ins for PMIx, for programs that are started, and for the launcher ---- */

int exchange_open(uint32_t number, struct belay_error *err)
{
    (void)err;
    must(number == rank.rank);
    return 0;
}

int exchange_put(const char *key, const char *text, struct belay_error *err)
{
    (void)err;
    must(strlen(text) < EXCHANGE_TEXT_BYTES);
    if (!strcmp(key, HOST))
        snprintf(own_host, sizeof own_host, "%s", text);
    else
        snprintf(own_text, sizeof own_text, "%s", text);
    return 0;
}

int exchange_fence(int timeout_ms, struct belay_error *err)
{
    (void)timeout_ms, (void)err;
    return 0;
}

bool exchange_has_board(void)
{
    return has_board;
}

int exchange_get(uint32_t of, const char *key, int timeout_ms, char text[EXCHANGE_TEXT_BYTES],
                 struct belay_error *err)
{
    (void)timeout_ms;
    must(of < rank.ranks);
    if (of == rank.rank)
        snprintf(text, EXCHANGE_TEXT_BYTES, "%s", strcmp(key, HOST) ? own_text : own_host);
    else if (next < end)
        take_text(text, EXCHANGE_TEXT_BYTES);
    else
        return belay_error_set(err, ENODATA, "nothing so far");
    return 0;
}

void exchange_host_of(uint32_t of, char *name, size_t name_bytes)
{
    must(of < rank.ranks);
    snprintf(name, name_bytes, "?");
}

uint32_t exchange_count_here(void)
{
    return here;
}

void exchange_close(void)
{
}

static size_t check_words(char *const argv[])
{
    size_t count = 0;
    while (argv[count])
        must(strlen(argv[count]) < EXCHANGE_TEXT_BYTES && ++count < WORDS_MAX);
    return count;
}

int errand_start_arbiter(struct errand *arbiter, char *const argv[], struct belay_error *err)
{
    char hosts[PLACEMENT_NODES_MAX * 300];
    (void)arbiter, (void)err;
    must(check_words(argv) == 6 && strlen(argv[2]) < sizeof hosts);
    snprintf(hosts, sizeof hosts, "%s", argv[2]);
    char *more = NULL;
    for (char *name = strtok_r(hosts, ",", &more); name; name = strtok_r(NULL, ",", &more))
        must(placement_is_host_name(name));
    return 0;
}

int errand_hear(struct errand *arbiter, char *text, size_t text_bytes, int timeout_ms,
                struct belay_error *err)
{
    (void)arbiter, (void)timeout_ms;
    if (next >= end)
        return belay_error_set(err, ECONNRESET, "it has ended");
    take_text(text, text_bytes);
    return 0;
}

void errand_end(struct errand *arbiter)
{
    (void)arbiter;
}

/* Only who has sealed the key for this rank can have it started. */
int errand_run_relay(char *const argv[], const uint8_t *input, size_t bytes, struct belay_error *err)
{
    (void)err;
    must(check_words(argv) >= 4 && bytes == ENVELOPE_SECRET_BYTES);
    for (size_t i = 0; i < bytes; i++)
        must(input[i] == 0xaa);
    return 0;
}

bool rank_has_other_hosts(const struct rank *of)
{
    return of == &rank;
}

bool rank_is_first_here(void)
{
    return rank.rank < RANKS - 1;
}

void rank_job_name(const char *program, char *name, size_t bytes)
{
    snprintf(name, bytes, "%s", program);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char *const names[] = PLACEMENT_LAUNCH_VARIABLES;
    const struct meeting_place place = {.program = "program", .folder = "/no such folder/"};
    struct belay_error err;
    if (count == 0)
        return 0;
    memset(plain, 'a', sizeof plain - 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    unsetenv("BELAY_MET");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    rank = (struct rank){.rank = bytes[0] % RANKS, .ranks = RANKS};
    here = 1 + bytes[0] / RANKS % RANKS;
    has_board = bytes[0] / (RANKS * RANKS) % 2;
    own_host[0] = own_text[0] = '\0';
    char *texts = target_text(bytes + 1, count - 1);
    next = texts;
    end = texts + count - 1;
    if (meeting_hold(&rank, &place, &err) == 0)
        for (size_t i = 0; i < PLACEMENT_LAUNCH_NEEDED; i++)
            must(getenv(names[i]));
    free(texts);
    return 0;
}
