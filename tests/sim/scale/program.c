#include "tests/sim/scale/program.h"

#include <stdio.h>
#include <stdlib.h>

#define WORLD_PERIOD 8u /* iterations from one collective of all to the next */

enum { STEP_HALO = 0, STEP_NODE, STEP_ROW, STEP_COLUMN, STEP_WORLD, STEPS };

static bool take_step(struct program *program, uint32_t rank);
static bool exchange(struct program *program, uint32_t rank);
static bool enter(struct program *program, uint32_t rank);
static bool may_enter(const struct program *program, uint32_t rank, uint64_t comm, uint64_t seq);
static bool has_arrived(const struct program *program, uint32_t neighbour, uint32_t iteration);
static void go_on(struct program *program, uint32_t rank);
static void wake_members(struct program *program, uint64_t comm);
static uint64_t seq_of(const struct program_rank *self);
static uint64_t clock_of(const struct program *program, uint32_t rank, uint32_t which);
static uint32_t left_of(const struct program *program, uint32_t rank);
static uint32_t right_of(const struct program *program, uint32_t rank);

static void *allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);

    if (!memory) {
        perror("scale");
        exit(2);
    }
    return memory;
}

void program_begin(struct program *program, uint32_t nodes, uint32_t per_node)
{
    program->ranks = nodes * per_node;
    program->per_node = per_node;
    program->side = 1;
    while ((program->side + 1) * (program->side + 1) <= program->ranks)
        program->side++;
    program->comms = 2 + nodes + 2 * (program->ranks / program->side + 1 + program->side);
    program->of = allocate(program->ranks, sizeof(*program->of));
    program->entered = allocate(program->comms, sizeof(*program->entered));
    program->runnable = allocate(program->ranks, sizeof(*program->runnable));
    for (uint32_t rank = 0; rank < program->ranks; rank++)
        program_wake(program, rank);
}

void program_end(struct program *program)
{
    free(program->of);
    free(program->entered);
    free(program->runnable);
}

void program_run(struct program *program, uint64_t steps)
{
    for (uint64_t i = 0; i < steps && program->runnable_count > 0; i++) {
        uint32_t at = rng_range(&program->rng, 0, program->runnable_count - 1);
        uint32_t rank = program->runnable[at];

        program->runnable[at] = program->runnable[--program->runnable_count];
        program->of[rank].is_runnable = false;
        if (take_step(program, rank))
            program_wake(program, rank);
    }
}

void program_turn(struct program *program)
{
    program_run(program, program->runnable_count / 4 + 1);
}

void program_wake(struct program *program, uint32_t rank)
{
    if (program->of[rank].is_runnable)
        return;
    program->of[rank].is_runnable = true;
    program->runnable[program->runnable_count++] = rank;
}

void program_publish(const struct program *program, uint32_t rank, struct rank_report *report)
{
    const struct program_rank *self = &program->of[rank];
    const struct targets *targets = program->targets(program->context, rank);
    uint32_t neighbours[] = {left_of(program, rank), right_of(program, rank)};

    report->peer_count = 0;
    report->clock_count = PROGRAM_COMMS;
    for (uint32_t which = 0; which < PROGRAM_COMMS; which++) {
        report->clocks[which].comm = program_comm(program, rank, which);
        report->clocks[which].size = program_size(program, report->clocks[which].comm);
        report->clocks[which].seq = clock_of(program, rank, which);
        report->clocks[which].target = targets ? targets_find(targets, report->clocks[which].comm) : 0;
    }
    report->state = CONTROL_STATE_RUNNING;
    if (self->is_parked) {
        report->state = CONTROL_STATE_PARKED;
    } else if (self->step == STEP_HALO && self->has_begun) {
        report->state = CONTROL_STATE_WAITING;
        for (uint32_t i = 0; i < 2; i++)
            if (!has_arrived(program, neighbours[i], self->iteration))
                report->peers[report->peer_count++] = (int32_t)neighbours[i];
        if (report->peer_count == 0)
            report->state = CONTROL_STATE_RUNNING;
    } else if (self->has_begun || self->is_held) {
        report->state = self->is_held ? CONTROL_STATE_HELD : CONTROL_STATE_INSIDE;
        report->comm = program_comm(program, rank, self->step - STEP_NODE);
        report->seq = seq_of(self);
    }
}

/* 1: the world; then nodes, rows, columns. */
uint64_t program_comm(const struct program *program, uint32_t rank, uint32_t which)
{
    uint64_t rows = 2 + program->ranks / program->per_node;
    uint64_t columns = rows + program->ranks / program->side + 1;

    switch (which + STEP_NODE) {
    case STEP_NODE:
        return 2 + rank / program->per_node;
    case STEP_ROW:
        return rows + rank / program->side;
    case STEP_COLUMN:
        return columns + rank % program->side;
    default:
        return 1;
    }
}

uint32_t program_size(const struct program *program, uint64_t comm)
{
    uint64_t rows = 2 + program->ranks / program->per_node;
    uint64_t columns = rows + program->ranks / program->side + 1;
    uint32_t whole = program->ranks / program->side, rest = program->ranks % program->side;

    if (comm == 1)
        return program->ranks;
    if (comm < rows)
        return program->per_node;
    if (comm < columns)
        return comm - rows < whole ? program->side : rest;
    return whole + (comm - columns < rest);
}

/* True: it may take another one. */
static bool take_step(struct program *program, uint32_t rank)
{
    const struct program_rank *self = &program->of[rank];

    if (self->is_parked || program->command(program->context, rank) == CONTROL_STOP)
        return false;
    return self->step == STEP_HALO ? exchange(program, rank) : enter(program, rank);
}

static bool exchange(struct program *program, uint32_t rank)
{
    struct program_rank *self = &program->of[rank];
    uint32_t left = left_of(program, rank), right = right_of(program, rank);

    if (!self->has_begun) {
        self->has_begun = true;
        program_wake(program, left);
        program_wake(program, right);
    }
    if (has_arrived(program, left, self->iteration) && has_arrived(program, right, self->iteration)) {
        go_on(program, rank);
        return true;
    }
    program->changed(program->context, rank);
    return false;
}

static bool enter(struct program *program, uint32_t rank)
{
    struct program_rank *self = &program->of[rank];
    uint64_t comm = program_comm(program, rank, self->step - STEP_NODE), seq = seq_of(self);

    if (!self->has_begun && !may_enter(program, rank, comm, seq)) {
        bool was_held = self->is_held;

        self->is_held = true;
        if (!was_held)
            program->changed(program->context, rank);
        return false;
    }
    if (!self->has_begun) {
        self->has_begun = true;
        self->is_held = false;
        if (++program->entered[comm] == seq * program_size(program, comm))
            wake_members(program, comm);
        else
            program->changed(program->context, rank);
    }
    if (program->entered[comm] < seq * program_size(program, comm))
        return false;
    go_on(program, rank);
    return true;
}

static bool may_enter(const struct program *program, uint32_t rank, uint64_t comm, uint64_t seq)
{
    const struct targets *targets = program->targets(program->context, rank);

    if (program->command(program->context, rank) == CONTROL_RUN)
        return true;
    if (!targets || seq <= targets_find(targets, comm))
        return targets;
    for (uint32_t which = 0; which < PROGRAM_COMMS; which++)
        if (clock_of(program, rank, which) < targets_find(targets, program_comm(program, rank, which)))
            return true;
    return false;
}

static bool has_arrived(const struct program *program, uint32_t neighbour, uint32_t iteration)
{
    const struct program_rank *other = &program->of[neighbour];

    return other->iteration > iteration ||
           (other->iteration == iteration && (other->step > STEP_HALO || other->has_begun));
}

static void go_on(struct program *program, uint32_t rank)
{
    struct program_rank *self = &program->of[rank];

    self->has_begun = false;
    self->step = (uint8_t)((self->step + 1) % STEPS);
    if (self->step == STEP_WORLD && self->iteration % WORLD_PERIOD != WORLD_PERIOD - 1)
        self->step = STEP_HALO;
    self->iteration += self->step == STEP_HALO;
    program->changed(program->context, rank);
}

static void wake_members(struct program *program, uint64_t comm)
{
    uint64_t rows = 2 + program->ranks / program->per_node;
    uint64_t columns = rows + program->ranks / program->side + 1;
    uint64_t first = 0, step = 1, end = program->ranks;

    if (comm >= columns) {
        first = comm - columns;
        step = program->side;
    } else if (comm >= rows) {
        first = (comm - rows) * program->side;
        end = first + program_size(program, comm);
    } else if (comm > 1) {
        first = (comm - 2) * program->per_node;
        end = first + program->per_node;
    }
    for (uint64_t rank = first; rank < end; rank += step)
        program_wake(program, (uint32_t)rank);
}

/* Of the collective that the rank is at. */
static uint64_t seq_of(const struct program_rank *self)
{
    return (self->step == STEP_WORLD ? self->iteration / WORLD_PERIOD : self->iteration) + 1;
}

static uint64_t clock_of(const struct program *program, uint32_t rank, uint32_t which)
{
    const struct program_rank *self = &program->of[rank];
    uint32_t step = which + STEP_NODE;
    uint64_t before = step == STEP_WORLD ? self->iteration / WORLD_PERIOD : self->iteration;

    return before + (self->step > step || (self->step == step && self->has_begun));
}

static uint32_t left_of(const struct program *program, uint32_t rank)
{
    return rank > 0 ? rank - 1 : program->ranks - 1;
}

static uint32_t right_of(const struct program *program, uint32_t rank)
{
    return rank + 1 < program->ranks ? rank + 1 : 0;
}
