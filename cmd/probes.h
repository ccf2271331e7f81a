/*
 * probes.h - what belay doctor looks at. Each probe finds out by effect where it can, not by version.
 */
#ifndef BELAY_CMD_PROBES_H
#define BELAY_CMD_PROBES_H

#include <stdbool.h>

#define FINDING_BYTES 384

struct finding {
    bool is_good;
    char text[FINDING_BYTES]; /* what was found, one line */
};

/* The kernel's side. */
void probe_machine(struct finding *finding);
void probe_seccomp(struct finding *finding);
void probe_fsgsbase(struct finding *finding);
void probe_memory_access(struct finding *finding);
void probe_memfd(struct finding *finding);
void probe_membarrier(struct finding *finding);
void probe_pidfd(struct finding *finding);
void probe_pagemap_scan(struct finding *finding);
void probe_soft_dirty(struct finding *finding);
void probe_bookkeeping(struct finding *finding);
void probe_demand(struct finding *finding);
void probe_free_memory(struct finding *finding);
void probe_huge_memory(struct finding *finding);

/* What is installed and running. */
void probe_mpirun(struct finding *finding);
void probe_libmpi(struct finding *finding);
void probe_transports(struct finding *finding); /* starts two ranks: about a second */
void probe_installation(struct finding *finding);
void probe_rundir(struct finding *finding);
void probe_agent(struct finding *finding);
void probe_undo(struct finding *finding);
void probe_slurm(struct finding *finding);
void probe_slurm_agents(struct finding *finding); /* inside or outside of jobs */

#endif
