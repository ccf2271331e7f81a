/*
 * supervise_claim.c - no two arbiters of one job (docs/hosts.md, "One arbiter at a time"): this process
 * claims the job in the undo folder that all hosts share, and ends when another one has claimed it.
 */
#include "cmd/supervise_state.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cmd/exit_codes.h"
#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/tree.h"
#include "common/wire/claim.h"
#include "common/wire/job_name.h"

#define LOOK_MS 1000  /* at the claim */
#define YIELD_MS 2000 /* in which a former arbiter has looked, and gives no lease any more */

struct supervise_claim {
    char folder[PATH_MAX];
    char job[JOB_NAME_BYTES];
    struct claim own;
};

/* As if it had been killed: nothing is told to agents, which end their ranks, and keep what they hold. */
static void end_if_lost(const struct supervise_claim *claim)
{
    struct claim now;
    if (claim_read(claim->folder, &now) < 0 || now.token == claim->own.token)
        return;
    log_error("%s: 'belay restart' has gone on with it on host %s: this process ends", claim->job, now.host);
    _exit(EXIT_EXHAUSTED);
}

static void *look(void *context)
{
    const struct supervise_claim *claim = context;
    for (;;) {
        usleep(LOOK_MS * 1000);
        end_if_lost(claim);
    }
    return NULL;
}

static int check_former(const struct supervisor *s, const struct claim *former, struct belay_error *err)
{
    const struct epoch_start *record = job_arbiter_record(s->arbiter);
    uint32_t known = record ? record->epoch : 0;
    if (former->epoch <= known)
        return 0;
    return belay_error_set(err, EADDRINUSE,
                           "job \"%s\": epoch %" PRIu32
                           " was begun on host %s, and no host here knows of it: "
                           "restart it there, or with a host that had a part of it",
                           s->name, former->epoch, former->host);
}

static struct supervise_claim *make(const struct supervisor *s, uint32_t epoch, struct belay_error *err)
{
    struct supervise_claim *claim = calloc(1, sizeof *claim);
    if (!claim) {
        belay_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    snprintf(claim->folder, sizeof claim->folder, "%s", s->undo_path);
    snprintf(claim->job, sizeof claim->job, "%s", s->name);
    claim->own.epoch = epoch;
    if (gethostname(claim->own.host, sizeof claim->own.host) == 0 &&
        getrandom(&claim->own.token, sizeof claim->own.token, 0) == sizeof claim->own.token &&
        claim_write(claim->folder, &claim->own, err) == 0)
        return claim;
    free(claim);
    return NULL;
}

/* The threads of this process end with it. */
static int watch_claim(struct supervise_claim *claim, struct belay_error *err)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&thread, NULL, look, claim);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code)
        return belay_error_set(err, code, "the claim of the job cannot be watched: %s", strerror(code));
    pthread_detach(thread);
    return 0;
}

int supervise_claim_job(struct supervisor *s, bool is_restart, struct belay_error *err)
{
    struct claim former = {0};
    if (s->claim || !s->undo_path[0] || !supervise_has_common_undo(s) ||
        (s->hosts.count < 2 && !s->is_elsewhere))
        return 0;
    bool is_claimed = claim_read(s->undo_path, &former) == 0;
    if (is_claimed && is_restart && check_former(s, &former, err) < 0)
        return -1;
    s->claim = make(s, former.epoch, err);
    if (!s->claim || watch_claim(s->claim, err) < 0)
        return -1;
    if (is_claimed && strcmp(former.host, s->claim->own.host) != 0 && !supervise_has_rested(s))
        usleep(YIELD_MS * 1000);
    return 0;
}

void supervise_check_claim(const struct supervisor *s)
{
    if (s->claim)
        end_if_lost(s->claim);
}

/* Without it a host that knows older epochs only is not told apart from one that knows all. */
void supervise_note_epoch(struct supervisor *s)
{
    struct belay_error err;
    struct claim now;
    if (!s->claim || (claim_read(s->claim->folder, &now) == 0 && now.token != s->claim->own.token))
        return;
    s->claim->own.epoch = s->epoch;
    if (claim_write(s->claim->folder, &s->claim->own, &err) < 0)
        log_warning("%s: %s", s->name, err.text);
}

void supervise_remove_claimed(const struct supervisor *s)
{
    if (s->claim)
        tree_remove(s->claim->folder);
}
