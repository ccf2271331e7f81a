/*
 * rank.h - the rank as the agent knows it: its number, the agent's welcome, its control page.
 */
#ifndef BELAY_MPI_LAYER_LOWER_RANK_H
#define BELAY_MPI_LAYER_LOWER_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"
#include "common/wire/control.h"

/* An object of System V whose id is not the kernel's any more. */
struct rank_kernel_id {
    uint32_t kind; /* enum share_kind */
    int32_t id, kernel_id;
};

struct rank {
    char job[65];
    uint32_t rank, ranks;
    const char *variable; /* "NAME=value" of the environment that gives `rank`; NULL: there is no launcher */
    uint32_t epoch;
    uint64_t restore_line; /* 0: start from the beginning */
    struct control *control;
    int sock;      /* stays open for life: its end tells the agent of ours */
    int event_fd;  /* written to wake the agent */
    int parcel_fd; /* open files of the line (held.h), -1: none */
    int image_fd;  /* -1 unless restore_line > 0; the restore closes it */
    int undo_fd;   /* the job's undo folder (common/wire/undo.h), O_PATH; -1: there is none */
    uint64_t undo_limit_bytes, undo_total_bytes;
    uint64_t file_limit_bytes; /* of files that travel (travel.h) */
    uint64_t *common_devices;  /* file systems that all hosts have, ascending */
    size_t common_count;
    int streams_fd; /* of the job (common/wire/streams.h) */
    int wake_fd;    /* of their reader */
    bool is_output_forwarded;
    struct rank_kernel_id *kernel_ids;
    size_t kernel_id_count;
};

/*
 * Rank and size as the launcher gave them (Open MPI's mpirun, PMIx, Slurm; 0 of 1 without one), found in
 * the environment since MPI_Init is still to come. Returns 0, or -1 with err if they make no sense.
 */
int rank_from_environment(struct rank *rank, struct belay_error *err);

/* Does the launcher have ranks of the launch on other hosts, too? */
bool rank_has_other_hosts(const struct rank *rank);
/* Of the launch's ranks on this host. True without a launcher. */
bool rank_is_first_here(void);

#define RANK_NAME_BYTES 256
/* The job's name, the same on all ranks: BELAY_NAME, or one that is made of the program's name and the
 * launch. */
void rank_job_name(const char *program, char *name, size_t bytes);

/*
 * Say hello to the agent of this node, which is started if there is none, and map the control page.
 * `program` is the application's executable, belayd the agent's. Returns 0, or -1 with err (also when the
 * agent refuses this rank: other program, other libc, another number of ranks ...).
 */
int rank_hello(struct rank *rank, const char *program, const char *belayd, struct belay_error *err);

#endif
