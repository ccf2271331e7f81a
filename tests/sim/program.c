#include "tests/sim/program.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define ROOM_FOR_ONE_EVENT 8u /* steps that one event of the schedule adds to a rank at most */

/* State of the generator: how far each communicator's clock is in the schedule. */
struct schedule {
    struct program *program;
    struct rng *rng;
    uint16_t clock[MAX_COMMS];
    uint32_t live_comms; /* communicators that exist at this point */
    uint16_t tags;
};

/* State of an undisturbed run. */
struct native {
    uint16_t clock[MAX_RANKS][MAX_COMMS];
    uint32_t pc[MAX_RANKS];
    bool has_entered[MAX_RANKS];
    bool is_sent[MAX_MSGS], is_received[MAX_MSGS];
    bool has_moved; /* somebody has begun or completed a step since this was cleared */
    uint64_t value[MAX_MSGS];
};

static void make_two_barriers(struct schedule *schedule);
static void make_ibcast_send(struct schedule *schedule);
static void make_random(struct schedule *schedule);
static void make_comms(struct schedule *schedule);
static void add_event(struct schedule *schedule);
static void add_collective(struct schedule *schedule, enum op_kind kind, uint32_t comm, uint32_t new_comm);
static void add_icollective(struct schedule *schedule, uint32_t comm);
static void add_message(struct schedule *schedule);
static void add_wildcards(struct schedule *schedule);
static uint16_t new_message(struct program *program, uint32_t src, uint32_t dst, uint16_t tag, bool is_sync);
static void append(struct program *program, uint32_t rank, struct op op);
static void insert_earlier(struct schedule *schedule, uint32_t rank, struct op op);
static bool has_room(const struct program *program);
static void run_natively(struct program *program);
static bool native_step(struct program *program, struct native *native, uint32_t rank);
static bool native_receive(struct program *program, struct native *native, uint32_t rank, const struct op *op,
                           uint64_t *value);

void program_generate(struct program *program, struct rng *rng, uint64_t seed)
{
    struct schedule schedule = {.program = program, .rng = rng};

    memset(program, 0, sizeof(*program));
    if (seed % 16 == 1)
        make_two_barriers(&schedule);
    else if (seed % 16 == 2)
        make_ibcast_send(&schedule);
    else
        make_random(&schedule);
    for (uint32_t comm = 0; comm < program->comms; comm++)
        while (program->members[program->group[comm]] != program->members[comm])
            program->group[comm]++;
    run_natively(program);
}

uint32_t program_page(const struct op *op, uint32_t pc)
{
    return op->kind == OP_RECV_ANY ? SUM_PAGE : rng_mix(pc + 1) % SUM_PAGE;
}

void program_compute(uint64_t pages[PAGES], const struct op *op, uint32_t pc, uint64_t value)
{
    uint32_t page = program_page(op, pc);

    if (page == SUM_PAGE)
        pages[page] += value;
    else
        pages[page] = rng_mix(pages[page] ^ rng_mix(pages[(page + 1) % SUM_PAGE] + pc) ^ value) | 1;
}

uint64_t program_payload(const uint64_t pages[PAGES], uint32_t msg)
{
    return rng_mix(pages[msg % SUM_PAGE] + 1 + msg) | 1;
}

bool program_may_leave(const struct program *program, const struct op *op, uint32_t rank, uint16_t nth,
                       uint16_t (*clock)(const void *context, uint32_t rank, uint32_t comm),
                       const void *context)
{
    if (op->coll == COLL_BCAST)
        return rank == op->root || clock(context, op->root, op->comm) >= nth;
    if (op->coll == COLL_REDUCE && rank != op->root)
        return true;
    for (uint32_t peer = 0; peer < program->ranks; peer++)
        if ((program->members[op->comm] >> peer & 1) && clock(context, peer, op->comm) < nth)
            return false;
    return true;
}

/* u: Barrier(us)   s: Recv(r) Barrier(us)   r: Barrier(rt) Send(s)   t: compute Barrier(rt); repeated */
static void make_two_barriers(struct schedule *schedule)
{
    enum { U, S, R, T };
    struct program *program = schedule->program;

    program->ranks = 4;
    program->comms = 2;
    program->members[0] = 1 << U | 1 << S;
    program->members[1] = 1 << R | 1 << T;
    for (uint32_t i = 0; i < 24; i++) {
        uint16_t msg = new_message(program, R, S, schedule->tags++, i & 1);

        append(program, T,
               (struct op){.kind = OP_COMPUTE, .duration_us = rng_range(schedule->rng, 100, 4000)});
        add_collective(schedule, OP_COLL, 1, 0);
        append(program, R, (struct op){.kind = i & 1 ? OP_SSEND : OP_SEND, .msg = msg});
        append(program, S, (struct op){.kind = OP_RECV, .msg = msg});
        add_collective(schedule, OP_COLL, 0, 0);
    }
}

/* rank 0: Ibcast Send Wait      rank 1: Recv Ibcast Wait; repeated */
static void make_ibcast_send(struct schedule *schedule)
{
    struct program *program = schedule->program;

    program->ranks = 2;
    program->comms = 1;
    program->members[0] = 3;
    for (uint32_t i = 0; i < 36; i++) {
        uint16_t msg = new_message(program, 0, 1, schedule->tags++, i & 1);
        struct op start = {.kind = OP_ICOLL, .coll = COLL_BCAST, .nth = ++schedule->clock[0]};
        struct op wait = start;

        wait.kind = OP_ICOLL_WAIT;
        append(program, 0,
               (struct op){.kind = OP_COMPUTE, .duration_us = rng_range(schedule->rng, 10, 1500)});
        append(program, 0, start);
        append(program, 0, (struct op){.kind = i & 1 ? OP_SSEND : OP_SEND, .msg = msg});
        append(program, 0, wait);
        append(program, 1, (struct op){.kind = OP_RECV, .msg = msg});
        append(program, 1, start);
        append(program, 1, wait);
    }
}

static void make_random(struct schedule *schedule)
{
    uint32_t events = rng_range(schedule->rng, 10, MAX_EVENTS);

    schedule->program->ranks = rng_range(schedule->rng, 2, MAX_RANKS);
    make_comms(schedule);
    for (uint32_t i = 0; i < events && has_room(schedule->program); i++)
        add_event(schedule);
}

/* Of many ranks now and then about half, now and then a few. */
static uint64_t any_group(struct rng *rng, uint64_t everybody)
{
    uint64_t group;

    if (everybody < UINT32_MAX)
        return rng_range(rng, 1, (uint32_t)everybody);
    group = rng_next(rng) & everybody;
    if (rng_chance(rng, 600))
        group &= rng_next(rng) & rng_next(rng) & rng_next(rng);
    return group;
}

/* Random groups, some of them twice; the later ones come into being while the program runs. */
static void make_comms(struct schedule *schedule)
{
    struct program *program = schedule->program;
    uint64_t everybody = UINT64_MAX >> (64 - program->ranks);

    program->comms = rng_range(schedule->rng, 2, MAX_COMMS - 1);
    for (uint32_t comm = 0; comm < program->comms; comm++) {
        uint64_t members;

        if (comm > 0 && rng_chance(schedule->rng, 350))
            members = program->members[rng_range(schedule->rng, 0, comm - 1)];
        else if (rng_chance(schedule->rng, 200))
            members = everybody;
        else
            do
                members = any_group(schedule->rng, everybody);
            while ((members & (members - 1)) == 0);
        program->members[comm] = members;
    }
    schedule->live_comms = rng_range(schedule->rng, 1, program->comms);
    for (uint32_t comm = schedule->live_comms; comm < program->comms; comm++)
        program->is_created[comm] = true;
}

static void add_event(struct schedule *schedule)
{
    struct program *program = schedule->program;
    uint32_t kind = rng_range(schedule->rng, 0, 99);
    uint32_t comm = rng_range(schedule->rng, 0, schedule->live_comms - 1);
    uint32_t next = schedule->live_comms;

    if (kind < 22) {
        add_icollective(schedule, comm);
    } else if (kind < 42) {
        add_collective(schedule, OP_COLL, comm, 0);
    } else if (kind < 50) {
        /* A parent has to contain the new group. */
        if (next < program->comms && (program->members[next] & ~program->members[comm]) == 0) {
            add_collective(schedule, OP_CREATE, comm, next);
            schedule->live_comms++;
        }
    } else if (kind < 78) {
        add_message(schedule);
    } else if (kind < 84) {
        add_wildcards(schedule);
    } else {
        uint32_t longest = rng_chance(schedule->rng, 150) ? 15000 : 800;

        append(program, rng_range(schedule->rng, 0, program->ranks - 1),
               (struct op){.kind = OP_COMPUTE, .duration_us = rng_range(schedule->rng, 1, longest)});
    }
}

static struct op any_collective(struct schedule *schedule, enum op_kind kind, uint32_t comm)
{
    struct op op = {.kind = kind, .comm = (uint8_t)comm, .nth = ++schedule->clock[comm]};

    op.coll = (enum coll_kind)rng_range(schedule->rng, COLL_BARRIER, COLL_REDUCE);
    do
        op.root = (uint8_t)rng_range(schedule->rng, 0, schedule->program->ranks - 1);
    while (!(schedule->program->members[comm] >> op.root & 1));
    return op;
}

static void add_collective(struct schedule *schedule, enum op_kind kind, uint32_t comm, uint32_t new_comm)
{
    struct op op = any_collective(schedule, kind, comm);

    op.new_comm = (uint8_t)new_comm;
    if (kind == OP_CREATE)
        op.coll = COLL_BARRIER; /* the new id is agreed on by all */
    for (uint32_t rank = 0; rank < schedule->program->ranks; rank++)
        if (schedule->program->members[comm] >> rank & 1)
            append(schedule->program, rank, op);
}

/* Initiated somewhat earlier by each member, so in different orders on different communicators. */
static void add_icollective(struct schedule *schedule, uint32_t comm)
{
    struct op op = any_collective(schedule, OP_ICOLL, comm);
    struct op wait = op;

    wait.kind = OP_ICOLL_WAIT;
    for (uint32_t rank = 0; rank < schedule->program->ranks; rank++) {
        if (!(schedule->program->members[comm] >> rank & 1))
            continue;
        insert_earlier(schedule, rank, op);
        append(schedule->program, rank, wait);
    }
}

static void add_message(struct schedule *schedule)
{
    struct program *program = schedule->program;
    uint32_t src = rng_range(schedule->rng, 0, program->ranks - 1);
    uint32_t dst = (src + rng_range(schedule->rng, 1, program->ranks - 1)) % program->ranks;
    bool is_sync = rng_chance(schedule->rng, 500);
    uint16_t msg = new_message(program, src, dst, schedule->tags++, is_sync);

    append(program, src, (struct op){.kind = is_sync ? OP_SSEND : OP_SEND, .msg = msg});
    append(program, dst, (struct op){.kind = OP_RECV, .msg = msg});
}

/* Several senders, and one receiver that takes them as they come. */
static void add_wildcards(struct schedule *schedule)
{
    struct program *program = schedule->program;
    uint32_t dst = rng_range(schedule->rng, 0, program->ranks - 1);
    uint32_t count = rng_range(schedule->rng, 1, 3);
    uint16_t tag = schedule->tags++;
    uint16_t msg = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t src = (dst + rng_range(schedule->rng, 1, program->ranks - 1)) % program->ranks;

        msg = new_message(program, src, dst, tag, false);
        append(program, src, (struct op){.kind = OP_SEND, .msg = msg});
    }
    for (uint32_t i = 0; i < count; i++)
        append(program, dst, (struct op){.kind = OP_RECV_ANY, .msg = msg});
}

static uint16_t new_message(struct program *program, uint32_t src, uint32_t dst, uint16_t tag, bool is_sync)
{
    assert(program->msgs < MAX_MSGS);
    program->msg[program->msgs] =
        (struct msg){.src = (uint8_t)src, .dst = (uint8_t)dst, .tag = tag, .is_sync = is_sync};
    program->msg[program->msgs].is_large = !is_sync && program->msgs % 3 == 0;
    return (uint16_t)program->msgs++;
}

static void append(struct program *program, uint32_t rank, struct op op)
{
    assert(program->op_count[rank] < MAX_OPS);
    program->ops[rank][program->op_count[rank]++] = op;
}

/* Up to four steps earlier, but not past what orders it: its communicator's collectives and creation. */
static void insert_earlier(struct schedule *schedule, uint32_t rank, struct op op)
{
    struct op *ops = schedule->program->ops[rank];
    uint32_t at = schedule->program->op_count[rank];
    uint32_t distance = rng_range(schedule->rng, 0, 4);

    append(schedule->program, rank, op);
    for (; distance > 0 && at > 0; distance--, at--) {
        const struct op *before = &ops[at - 1];

        if ((before->kind == OP_COLL || before->kind == OP_CREATE || before->kind == OP_ICOLL) &&
            before->comm == op.comm)
            break;
        if (before->kind == OP_CREATE && before->new_comm == op.comm)
            break;
        ops[at] = *before;
        ops[at - 1] = op;
    }
}

static bool has_room(const struct program *program)
{
    for (uint32_t rank = 0; rank < program->ranks; rank++)
        if (program->op_count[rank] + ROOM_FOR_ONE_EVENT > MAX_OPS)
            return false;
    return program->msgs + ROOM_FOR_ONE_EVENT <= MAX_MSGS;
}

static uint16_t native_clock(const void *context, uint32_t rank, uint32_t comm)
{
    return ((const struct native *)context)->clock[rank][comm];
}

/* The result that every simulated run has to reach. */
static void run_natively(struct program *program)
{
    struct native native = {.has_moved = true};

    while (native.has_moved) {
        native.has_moved = false;
        for (uint32_t rank = 0; rank < program->ranks; rank++)
            while (native_step(program, &native, rank))
                native.has_moved = true;
    }
    for (uint32_t rank = 0; rank < program->ranks; rank++)
        assert(native.pc[rank] == program->op_count[rank]); /* the generator makes legal programs */
}

/* Execute one step of rank if it can go on. */
static bool native_step(struct program *program, struct native *native, uint32_t rank)
{
    uint32_t pc = native->pc[rank];
    const struct op *op = &program->ops[rank][pc];
    uint64_t value = 0;

    if (pc == program->op_count[rank])
        return false;
    switch (op->kind) {
    case OP_COLL:
    case OP_CREATE:
    case OP_ICOLL:
        if (!native->has_entered[rank]) {
            native->clock[rank][op->comm]++;
            native->has_moved = true;
        }
        native->has_entered[rank] = op->kind != OP_ICOLL;
        if (op->kind != OP_ICOLL && !program_may_leave(program, op, rank, op->nth, native_clock, native))
            return false;
        native->has_entered[rank] = false;
        break;
    case OP_ICOLL_WAIT:
        if (!program_may_leave(program, op, rank, op->nth, native_clock, native))
            return false;
        break;
    case OP_SEND:
    case OP_SSEND:
        if (!native->is_sent[op->msg]) {
            native->value[op->msg] = program_payload(program->result[rank], op->msg);
            native->is_sent[op->msg] = true;
            native->has_moved = true;
        }
        if (op->kind == OP_SSEND && !native->is_received[op->msg])
            return false;
        break;
    case OP_RECV:
    case OP_RECV_ANY:
        if (!native_receive(program, native, rank, op, &value))
            return false;
        break;
    default:
        break;
    }
    program_compute(program->result[rank], op, pc, value);
    native->pc[rank]++;
    return true;
}

static bool native_receive(struct program *program, struct native *native, uint32_t rank, const struct op *op,
                           uint64_t *value)
{
    for (uint32_t msg = 0; msg < program->msgs; msg++) {
        bool is_match = op->kind == OP_RECV ? msg == op->msg
                                            : program->msg[msg].dst == rank &&
                                                  program->msg[msg].tag == program->msg[op->msg].tag;

        if (is_match && native->is_sent[msg] && !native->is_received[msg]) {
            native->is_received[msg] = true;
            *value = native->value[msg];
            return true;
        }
    }
    return false;
}
