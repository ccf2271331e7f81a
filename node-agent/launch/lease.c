#include "node-agent/launch/lease.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/wire/descriptor.h"
#include "node-agent/job/membership.h"
#include "node-agent/launch/epoch_lease.h"
#include "node-agent/launch/job_clock.h"

#define US_PER_MS 1000u
#define NS_PER_US 1000u

struct lease {
    struct job *job;
    struct connection *connection; /* over which it is asked for; NULL: none */
    struct timer *timer;           /* for the machine */
    struct fence *fence;
    int fd; /* of its page */
    char name[KEEPER_NAME_BYTES];
    bool is_kept;           /* by the keeper */
    uint64_t asked_us;      /* when the newest request was made */
    uint64_t heard_ns;      /* when the newest lease was given, by the arbiter's clock; 0: none has come */
    struct job_clock clock; /* the arbiter's */
    lease_done_f *done;
    void *context;
};

static void on_timer(void *context);
static void follow(struct lease *lease);

static int make_page(struct lease *lease, struct belay_error *err)
{
    lease->fd = descriptor_make_memory("belay-fence", FENCE_BYTES, err);
    if (lease->fd < 0)
        return -1;
    void *page = mmap(NULL, FENCE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, lease->fd, 0);
    if (page == MAP_FAILED)
        return belay_error_errno(err, "cannot map the end of a lease");
    lease->job->fence = lease->fence = page;
    return 0;
}

struct lease *lease_create(struct job *job, struct belay_error *err)
{
    struct lease *lease = calloc(1, sizeof *lease);
    if (!lease || !(lease->timer = timer_new(job->agent->loop, on_timer, lease))) {
        free(lease);
        belay_error_set(err, ENOMEM, "no memory for a lease");
        return NULL;
    }
    lease->job = job;
    lease->fd = -1;
    snprintf(lease->name, sizeof lease->name, "%s" KEEPER_FENCE, job->name);
    if (make_page(lease, err) == 0)
        return lease;
    lease_destroy(lease);
    return NULL;
}

void lease_destroy(struct lease *lease)
{
    if (!lease)
        return;
    int code = errno;
    timer_destroy(lease->timer);
    if (lease->is_kept)
        keeper_drop(lease->job->agent->keeper, lease->name, NULL);
    if (lease->fence)
        munmap(lease->fence, FENCE_BYTES);
    if (lease->fd >= 0)
        close(lease->fd);
    free(lease);
    errno = code;
}

void lease_use(struct lease *lease, struct connection *connection)
{
    lease->connection = connection;
}

bool lease_is_of(const struct lease *lease, const struct connection *connection)
{
    return lease->connection == connection;
}

void lease_forget_connection(struct lease *lease, const struct connection *connection)
{
    if (lease->connection == connection)
        lease->connection = NULL;
}

struct fence *lease_map_fence(const struct lease *lease)
{
    void *page = mmap(NULL, FENCE_BYTES, PROT_READ, MAP_SHARED, lease->fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

/* Ranks that are there already have it on their pages; others get it with them. */
static void tell_end(struct lease *lease, uint64_t until_us)
{
    __atomic_store_n(&lease->fence->until_ns, until_us * 1000, __ATOMIC_RELEASE);
    if (lease->job->epoch)
        epoch_tell_lease(lease->job->epoch);
}

int lease_begin(struct lease *lease, uint64_t lease_ms, struct belay_error *err)
{
    struct job *job = lease->job;
    lease->done = NULL;
    lease->heard_ns = 0;
    job->last_leases.lease_ns = lease_ms * US_PER_MS * NS_PER_US;
    membership_set_lease(job->membership, lease_ms * US_PER_MS);
    tell_end(lease, 0);
    if (lease_ms == 0 || lease->is_kept)
        return 0;
    if (keeper_put(job->agent->keeper, lease->name, lease->fd, err) < 0)
        return -1;
    lease->is_kept = true;
    return 0;
}

void lease_ask(struct lease *lease)
{
    struct membership *membership = lease->job->membership;
    membership_clear_stop(membership); /* its ranks were gone before it was entered */
    follow(lease);
}

/* Of an answer to another question, the time would be wrong. */
static void learn_clock(struct lease *lease, uint64_t asked_us, uint64_t given_ns)
{
    if (given_ns == 0 || asked_us == 0 || asked_us != lease->asked_us)
        return;
    job_clock_learn(&lease->clock, asked_us * NS_PER_US, given_ns, fence_now_ns());
    __atomic_store_n(&lease->fence->ahead_ns, job_clock_ahead_ns(&lease->clock), __ATOMIC_RELEASE);
}

void lease_take(struct lease *lease, uint32_t epoch, uint64_t asked_us, uint64_t given_ns)
{
    learn_clock(lease, asked_us, given_ns);
    if (given_ns > lease->heard_ns) {
        lease->heard_ns = given_ns;
        lease->job->last_leases.granted_ns = fence_now_ns();
    }
    membership_clear_stop(lease->job->membership);
    membership_grant(lease->job->membership, epoch, asked_us, fence_now_ns() / 1000);
    follow(lease);
}

void lease_await(struct lease *lease, lease_done_f *done, void *context)
{
    if (membership_may_launch(lease->job->membership)) {
        done(lease->job, context);
        return;
    }
    lease->done = done;
    lease->context = context;
}

static void ask_arbiter(struct lease *lease, const struct membership_wish *wish)
{
    Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
    Belay__Wire__Renewal renewal = BELAY__WIRE__RENEWAL__INIT;
    renewal.epoch = wish->epoch;
    renewal.incarnation = wish->incarnation;
    renewal.heard_ns = lease->heard_ns;
    renewal.asked_us = lease->asked_us = wish->asked_us;
    event.renewal = &renewal;
    if (lease->connection)
        connection_send_event(lease->connection, &event);
}

/* Its ranks count as lost: the program goes on from a line. */
static void stop(struct lease *lease)
{
    struct job *job = lease->job;
    log_warning("job \"%s\": the lease of this node for epoch %" PRIu32 " is over: its ranks are ended",
                job->name, job->epoch_number);
    if (job->epoch)
        epoch_fence(job->epoch);
}

static void wake_in_time(struct lease *lease)
{
    uint64_t wake_us = membership_wake_us(lease->job->membership), now_us = fence_now_ns() / 1000;
    if (wake_us >= UINT64_MAX / 4)
        timer_stop(lease->timer);
    else
        timer_start(lease->timer, wake_us > now_us ? (wake_us - now_us + US_PER_MS - 1) / US_PER_MS : 0, 0);
}

/* Do what the machine has asked for. */
static void follow(struct lease *lease)
{
    struct membership *membership = lease->job->membership;
    const struct membership_wish wish = membership_take_wish(membership);
    if (wish.renews)
        ask_arbiter(lease, &wish);
    if (wish.fence_until_us)
        tell_end(lease, wish.fence_until_us);
    if (wish.stops)
        stop(lease);
    wake_in_time(lease);
    if (lease->done && membership_may_launch(membership)) {
        lease_done_f *done = lease->done;
        lease->done = NULL;
        done(lease->job, lease->context); /* may free the job */
    }
}

static void on_timer(void *context)
{
    struct lease *lease = context;
    membership_clear_stop(lease->job->membership); /* of a promise: its ranks are gone */
    membership_tick(lease->job->membership, fence_now_ns() / 1000);
    follow(lease);
}
