/* belay doctor - what this machine offers, what is missing, how to get it. */
#include <jansson.h>
#include <stdio.h>

#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/options.h"
#include "cmd/probes.h"
#include "cmd/render.h"
#include "common/util/escape.h"

struct check {
    const char *name;
    bool is_required;
    void (*probe)(struct finding *finding);
    const char *advice; /* how to get what is missing */
};

static const struct check checks[] = {
    {"machine", true, probe_machine, "Belay runs on Linux on x86-64 only"},
    {"seccomp", true, probe_seccomp, "a kernel with CONFIG_SECCOMP_FILTER; in a container, allow seccomp(2)"},
    {"fsgsbase", true, probe_fsgsbase,
     "Linux 5.9 or later on a CPU with FSGSBASE, booted without nofsgsbase"},
    {"memory access", true, probe_memory_access,
     "sysctl kernel.yama.ptrace_scope=1 or 0; in a container, allow process_vm_readv(2)"},
    {"memfd", true, probe_memfd, "a kernel with memfd_create(2) (CONFIG_MEMFD_CREATE)"},
    {"mpirun", true, probe_mpirun, "apt-get install openmpi-bin, and have its directory on the PATH"},
    {"libmpi", true, probe_libmpi, "apt-get install libopenmpi3"},
    {"transports", false, probe_transports,
     "start a small job by hand, like mpirun -n 2 hostname: it tells what is wrong"},
    {"installation", true, probe_installation, "make install again, with all parts built"},
    {"run directory", true, probe_rundir, "set BELAY_RUNDIR to a directory of yours (mode 0700)"},
    {"agent", true, probe_agent,
     "look at agent.log in the run directory; end what listens on its agent.sock"},
    {"undo directory", false, probe_undo,
     "set BELAY_UNDO_DIR (--undo-dir) to a directory on the file system of your programs' files"},
    {"Slurm", false, probe_slurm,
     "for srun --checkpoint-interval: 'required LIBDIR/spank_belay.so' in plugstack.conf, PMIxCollFence=ring "
     "in "
     "mpi.conf (docs/slurm.md)"},
    {"Slurm's agents", false, probe_slurm_agents,
     "leave cgroup=none out of plugstack.conf, and have slurmd run as root: then images outlive a step"},
    {"free memory", true, probe_free_memory, "mount /proc"},
    {"huge pages", false, probe_huge_memory,
     "echo advise >/sys/kernel/mm/transparent_hugepage/shmem_enabled: lines that copy much take half the "
     "time"},
    {"membarrier", false, probe_membarrier, "Linux 4.16 or later"},
    {"pidfd", false, probe_pidfd, "Linux 5.3 or later"},
    {"pagemap scan", false, probe_pagemap_scan, "Linux 6.7 or later, with userfaultfd(2) allowed"},
    {"soft-dirty", false, probe_soft_dirty, "a kernel with CONFIG_MEM_SOFT_DIRTY"},
    {"bookkeeping", false, probe_bookkeeping,
     "Linux 5.13 or later; for others than root, sysctl vm.unprivileged_userfaultfd=1 or a readable "
     "/dev/userfaultfd"},
    {"restore on demand", false, probe_demand,
     "Linux 5.14 or later; for others than root, sysctl vm.unprivileged_userfaultfd=1 or a readable "
     "/dev/userfaultfd; without it, --restore demand is as eager"},
};

/* What becomes of the world outside of memory; more in docs/policies.md. */
static const struct {
    const char *thing, *text;
} policies[] = {
    {"files", "as they were at the line, up to --undo-limit of old contents per rank; beyond: a warning"},
    {"node-local files", "the same on the same node; they are not copied to another node"},
    {"shared mappings of files", "the whole file as it was at the line"},
    {"POSIX shared memory, memfds", "as they were at the line, and shared by the ranks again"},
    {"System V shared memory", "as it was at the line, and shared by the ranks again; ids stay"},
    {"System V semaphores, messages", "as they were at the line; ids stay"},
    {"standard streams", "output is neither lost nor repeated, input goes on; see belay-run(1)"},
    {"pipes within a rank", "made again, with their content"},
    {"pipes, eventfds between ranks", "made again, with their content"},
    {"pipes to others, sockets", "closed: their use gives EBADF, their numbers stay taken; named once"},
    {"children",
     "not started again: those that ran have been killed; no line while one is needed (--children)"},
    {"devices, terminals", "opened again, in their present state"},
    {"locks on files", "taken again"},
};

#define POLICY_COUNT (sizeof policies / sizeof policies[0])
#define CHECK_COUNT (sizeof checks / sizeof checks[0])

static const struct argp_option rows[] = {OPTION_JSON, {0}};

static const struct argp argp = {
    .options = rows,
    .parser = tool_options_parser,
    .doc = "Find out what this machine offers Belay, what is missing and how to get it."
           "\vThe exit code is 0 if nothing that Belay needs is missing.",
};

/* Run all probes. True if everything required is there. */
static bool examine(struct finding findings[CHECK_COUNT])
{
    bool is_complete = true;
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        checks[i].probe(&findings[i]);
        is_complete = is_complete && (findings[i].is_good || !checks[i].is_required);
    }
    return is_complete;
}

static const char *word_for(const struct check *check, const struct finding *finding)
{
    if (finding->is_good)
        return "ok";
    return check->is_required ? "missing" : "absent";
}

static json_t *render_json(const struct finding findings[CHECK_COUNT], bool is_complete)
{
    json_t *items = json_array();
    for (size_t i = 0; i < CHECK_COUNT; i++)
        json_array_append_new(items,
                              json_pack("{s:s, s:s, s:b, s:o, s:s}", "name", checks[i].name, "state",
                                        word_for(&checks[i], &findings[i]), "required", checks[i].is_required,
                                        "found", render_text_json(findings[i].text), "advice",
                                        findings[i].is_good ? "" : checks[i].advice));
    json_t *rules = json_object();
    for (size_t i = 0; i < POLICY_COUNT; i++)
        json_object_set_new(rules, policies[i].thing, json_string(policies[i].text));
    return json_pack("{s:b, s:o, s:o}", "complete", is_complete, "checks", items, "policies", rules);
}

static int print_text(const struct finding findings[CHECK_COUNT], bool is_complete)
{
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        printf("%-8s %-14s ", word_for(&checks[i], &findings[i]), checks[i].name);
        escape_print(stdout, findings[i].text);
        putchar('\n');
        if (!findings[i].is_good)
            printf("%-8s %-14s -> %s\n", "", "", checks[i].advice);
    }
    puts("After a restart:");
    for (size_t i = 0; i < POLICY_COUNT; i++)
        printf("         %-30s %s\n", policies[i].thing, policies[i].text);
    puts(is_complete ? "Nothing that Belay needs is missing." : "Something that Belay needs is missing.");
    return fflush(stdout);
}

static int doctor(int argc, char **argv)
{
    struct tool_options options;
    struct finding findings[CHECK_COUNT];
    if (tool_options_parse(&argp, argc, argv, false, &options))
        return EXIT_USAGE;
    bool is_complete = examine(findings);
    int rc = options.is_json ? render_print_json(render_json(findings, is_complete))
                             : print_text(findings, is_complete);
    if (rc)
        return EXIT_INTERNAL;
    return is_complete ? EXIT_OK : EXIT_INCOMPLETE;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "what this machine offers and what is missing",
    .argp = &argp,
    .run = doctor,
};
