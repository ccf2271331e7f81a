/*
 * launch.c - belay-launch: the half of a rank that is never saved.
 *
 *     belay-launch [--native TEXT] [--executed PATH] [--argv0 NAME] -- PROGRAM [args]
 *     belay-launch --transports                      for belay doctor
 *
 * An ordinary MPI program that brings the application into its own address space (upper half), or, when
 * the agent holds a line for this rank, puts the saved upper half back under a fresh MPI library.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/util/escape.h"
#include "common/util/uffd.h"
#include "common/wire/control.h"
#include "mpi-layer/lower/advice.h"
#include "mpi-layer/lower/arguments.h"
#include "mpi-layer/lower/children.h"
#include "mpi-layer/lower/clock.h"
#include "mpi-layer/lower/code_page.h"
#include "mpi-layer/lower/confine.h"
#include "mpi-layer/lower/held.h"
#include "mpi-layer/lower/interpose.h"
#include "mpi-layer/lower/interpose_fd.h"
#include "mpi-layer/lower/interpose_file.h"
#include "mpi-layer/lower/limits.h"
#include "mpi-layer/lower/loader.h"
#include "mpi-layer/lower/mapped.h"
#include "mpi-layer/lower/meeting.h"
#include "mpi-layer/lower/on_demand.h"
#include "mpi-layer/lower/peers.h"
#include "mpi-layer/lower/process.h"
#include "mpi-layer/lower/rank.h"
#include "mpi-layer/lower/reopen.h"
#include "mpi-layer/lower/restore.h"
#include "mpi-layer/lower/settings.h"
#include "mpi-layer/lower/shares.h"
#include "mpi-layer/lower/special.h"
#include "mpi-layer/lower/streams.h"
#include "mpi-layer/lower/thread.h"
#include "mpi-layer/lower/transports.h"
#include "mpi-layer/lower/trap.h"
#include "mpi-layer/lower/travel.h"
#include "mpi-layer/lower/unseen.h"
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_id.h"
#include "mpi-layer/lower/vk_action.h"
#include "mpi-layer/lower/vk_clock.h"
#include "mpi-layer/lower/vk_cut.h"
#include "mpi-layer/lower/vk_exec.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_hold.h"
#include "mpi-layer/lower/vk_lease.h"
#include "mpi-layer/lower/vk_load.h"
#include "mpi-layer/lower/vk_mask.h"
#include "mpi-layer/lower/vk_postponed.h"
#include "mpi-layer/lower/vk_signal.h"
#include "mpi-layer/lower/vk_stream.h"
#include "mpi-layer/lower/vk_thread.h"
#include "mpi-layer/lower/vk_undo.h"
#include "mpi-layer/lower/vk_wait.h"
#include "mpi-layer/lower/windows.h"

#define ANSWER_PATIENCE_MS 5000
#define TRIES_MAX 64 /* to get out of the way of what is restored */

extern char **environ;
extern void vk_trampoline_entry(void);

static struct rank rank; /* this process's; the gate's functions need it */

struct paths { /* what lies beside this program */
    char vdso[PATH_MAX], stand_ins[PATH_MAX], belayd[PATH_MAX], preload[PATH_MAX];
};

struct options {
    const char *native;   /* of confine.h; NULL: started by hand */
    const char *argv0;    /* NULL: the program's path */
    const char *executed; /* the name by which the program was executed; NULL: its path */
    int tries;            /* to start this process so far */
    char **command;       /* the program and its arguments */
};

static void die(const struct belay_error *err) __attribute__((noreturn));

/* One line on standard error, of which a terminal obeys nothing. */
static void gate_say(const char *text)
{
    char line[1024];
    int used = snprintf(line, sizeof line, "belay: rank %u: ", rank.rank);
    used += (int)escape_line(line + used, sizeof line - (size_t)used - 1, text);
    line[used++] = '\n';
    raw3(SYS_write, STDERR_FILENO, line, used);
}

static void die(const struct belay_error *err)
{
    if (err->text[0]) /* else another rank tells */
        gate_say(err->text);
    if (rank.control) {
        rank.control->exit_status = CONTROL_REFUSED_STATUS;
        rank.control->exit_kind = CONTROL_EXIT_REFUSED;
    }
    _exit(CONTROL_REFUSED_STATUS);
}

/* ---- functions behind the gate ---- */

static uint64_t gate_now_ns(void)
{
    struct timespec now;
    raw2(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void gate_notify(void)
{
    uint64_t one = 1;
    raw3(SYS_write, rank.event_fd, &one, sizeof one);
}

static void gate_wait_command(uint32_t seen, uint32_t timeout_ms)
{
    struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000l};
    raw4(SYS_futex, &rank.control->command_seq, FUTEX_WAIT, seen, &timeout);
}

static mpi_init_thread_f *next_init_thread;

static int init_thread(int *argc, char ***argv, int level, int *provided)
{
    (void)argc, (void)argv;
    children_init_begins();
    int code = interpose_init_thread(next_init_thread, level, provided);
    children_init_ended();
    meeting_leave();
    return code;
}

static void *gate_symbol(const char *name)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    if (strcmp(name, "MPI_Init_thread") && strcmp(name, "PMPI_Init_thread"))
        return symbol;
    next_init_thread = (mpi_init_thread_f *)symbol;
    return (void *)init_thread;
}

/*
 * Peers of a rank that dies may know before the agent: the library returns an error or takes a message for
 * received, and programs end themselves over that. So the agent is asked to look before this end has an
 * effect on other ranks. It kills those of a launch that has lost one; if it is gone, nobody judges.
 */
static void wait_for_answer(void)
{
    struct control *control = rank.control;
    uint64_t until_ns = gate_now_ns() + ANSWER_PATIENCE_MS * 1000000ull;
    for (;;) {
        uint32_t seen = __atomic_load_n(&control->command_seq, __ATOMIC_ACQUIRE);
        uint32_t answer = __atomic_load_n(&control->exit_answer, __ATOMIC_ACQUIRE);
        if (answer == CONTROL_ANSWER_GO || gate_now_ns() >= until_ns)
            break;
        gate_wait_command(seen, ANSWER_PATIENCE_MS);
    }
    control_answer_exit(control, CONTROL_ANSWER_GO);
}

/* This thread may run with the upper half's FS base. */
static void leave_meeting(void)
{
    uint64_t before;
    __asm__ volatile("rdfsbase %0\n\twrfsbase %1" : "=&r"(before) : "r"(thread_self()->lower_fs) : "memory");
    meeting_leave();
    __asm__ volatile("wrfsbase %0" : : "r"(before) : "memory");
}

static void gate_announce_exit(uint32_t kind, int status)
{
    struct control *control = rank.control;
    if (control->exit_kind != CONTROL_EXIT_NONE)
        return;
    if (kind == CONTROL_EXIT_STATUS)
        leave_meeting();
    control->exit_status = status;
    control->exit_ns = gate_now_ns();
    __atomic_store_n(&control->exit_kind, kind, __ATOMIC_SEQ_CST);
    gate_notify();
    if (control_is_end_of_all(control))
        wait_for_answer();
}

static int gate_fault(const char *point, uint64_t line)
{
    return fault_hit(point, (int)rank.rank, line);
}

/* What a wrapper is about to do; one thread at a time is in a wrapper. */
static struct vk_undo_change undo_change;

static void gate_undo_open(const char *path, long flags)
{
    if (flags & (O_CREAT | O_TRUNC))
        vk_lease_check();
    vk_undo_open(&undo_change, AT_FDCWD, path, flags);
}

static void gate_undo_remove(const char *path)
{
    vk_lease_check();
    vk_undo_remove(&undo_change, AT_FDCWD, path);
}

static void gate_undo_changed(int is_done)
{
    vk_undo_changed(&undo_change, is_done ? 0 : -1);
}

/* Park: descriptors and the like are noted, and files are from now on as they were at this line. */
/* The agent has a copy before there is a line, and is to have the only one: protection ends with the last. */
static void leave_tracking(void)
{
    if (rank.control->tracking_fd)
        vk_fd_close_own(rank.control->tracking_fd);
    if (rank.control->guard_fd)
        vk_fd_close_own(rank.control->guard_fd);
    rank.control->tracking_fd = rank.control->guard_fd = 0;
}

static const char *gate_note_process(void)
{
    leave_tracking();
    shares_begin();
    process_note();
    const char *failure = mapped_note_identities();
    shares_end(rank.control);
    limits_note();
    if (!failure)
        failure = advice_note();
    arguments_note();
    settings_note();
    unseen_note_transports();
    if (!failure)
        vk_undo_begin_line(rank.control->line);
    return failure;
}

/* ---- setting up ---- */

static int find_paths(struct paths *paths, struct belay_error *err)
{
    char self[PATH_MAX - 32];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = length > 0 ? (self[length] = 0, strrchr(self, '/')) : NULL;
    if (!slash)
        return belay_error_errno(err, "cannot find my own path");
    *slash = 0;
    snprintf(paths->vdso, sizeof paths->vdso, "%s/belay-vdso.so", self);
    snprintf(paths->stand_ins, sizeof paths->stand_ins, "%s/", self);
    snprintf(paths->belayd, sizeof paths->belayd, "%s/belayd", self);
    snprintf(paths->preload, sizeof paths->preload, "%s/libbelay.so", self);
    return 0;
}

static int check_machine(struct belay_error *err)
{
    if (!(getauxval(AT_HWCAP2) & (1 << 1)))
        return belay_error_set(err, ENOTSUP,
                               "this kernel or processor has no FSGSBASE, which Belay needs (Linux 5.9)");
    return 0;
}

static int map_gate(struct belay_error *err)
{
    static const char *const names[] = {"__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time",
                                        "__vdso_getcpu", "__vdso_clock_getres"};
    struct layout layout;
    if (windows_find(&layout, err))
        return -1;
    void *at = mmap((void *)GATE_ADDRESS, MAP_PAGE_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != (void *)GATE_ADDRESS)
        return belay_error_errno(err, "cannot map the gate page");
    GATE->layout = layout;
    void *vdso = dlopen("linux-vdso.so.1", RTLD_NOLOAD | RTLD_LAZY);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        GATE->vdso[i] = vdso ? (uint64_t)dlsym(vdso, names[i]) : 0;
        if (!GATE->vdso[i])
            return belay_error_set(err, ENOTSUP, "the kernel's vdso has no %s", names[i]);
    }
    GATE->kernel_clock_gettime = (int (*)(int, int64_t *))GATE->vdso[0];
    GATE->vdso[0] = (uint64_t)vk_clock_gettime;
    GATE->kernel_clock_getres = (int (*)(int, int64_t *))GATE->vdso[4];
    GATE->vdso[4] = (uint64_t)vk_clock_getres;
    return 0;
}

/* Where the kernel lets a process read only its children's memory (Yama), the agent needs leave. */
static void let_agent_read(void)
{
    struct ucred agent;
    socklen_t bytes = sizeof agent;
    if (!getsockopt(rank.sock, SOL_SOCKET, SO_PEERCRED, &agent, &bytes))
        prctl(PR_SET_PTRACER, (unsigned long)agent.pid, 0, 0, 0);
}

static void fill_gate(void)
{
    struct gate *gate = GATE;
    gate->trampoline_entry = vk_trampoline_entry;
    gate->signal_is_safe = vk_signal_is_safe;
    gate->wait_interrupted = vk_cut_interrupted;
    gate->wait_prepare = vk_wait_prepare;
    gate->wait_ended = vk_wait_ended;
    gate->wait_resume = vk_wait_resume;
    gate->handler_begins = vk_handler_begins;
    gate->handlers_again = vk_postponed_send;
    gate->generation = rank.epoch;
    gate->control = rank.control;
    rank.control->layout = gate->layout;
    gate->notify = gate_notify;
    gate->wait_command = gate_wait_command;
    gate->symbol = gate_symbol;
    gate->note_process = gate_note_process;
    gate->identify_file = reopen_identify;
    gate->is_same_file = reopen_is_same;
    gate->undo_fd = vk_undo_fd;
    gate->undo_path = vk_undo_path;
    gate->undo_open = gate_undo_open;
    gate->undo_remove = gate_undo_remove;
    gate->undo_changed = gate_undo_changed;
    gate->note_mapped_files = mapped_note_files;
    gate->watch_file = interpose_watch;
    gate->unwatch_file = interpose_unwatch;
    gate->set_signal_mask = vk_mask_set;
    gate->note_thread = vk_thread_note;
    gate->park_threads = vk_park_threads;
    gate->release_threads = vk_release_threads;
    gate->announce_exit = gate_announce_exit;
    gate->leave_launcher = leave_meeting;
    gate->fault = gate_fault;
    gate->say = gate_say;
    gate->now_ns = gate_now_ns;
    rank.control->leader_tid = (uint32_t)gettid();
    /* The agent finds out by it what this process writes; without one it copies everything. */
    long tracking_fd = vk_fd_own(uffd_make());
    rank.control->tracking_fd = tracking_fd > 0 ? (int)tracking_fd : 0;
    long guard_fd = rank.control->copying.is_wanted ? vk_fd_own(uffd_make()) : 0;
    rank.control->guard_fd = guard_fd > 0 ? (int)guard_fd : 0;
    vk_hold_begin(rank.sock);
    vk_load_begin(rank.sock, rank.event_fd);
    /* See control.h: the agent's membarrier takes the place of a fence in every collective. */
    rank.control->needs_fence = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) != 0;
}

/* ---- a new application ---- */

static bool is_own_variable(const char *variable)
{
    static const char *const own[] = {"BELAY_UPPER_PRELOAD=", "LD_PRELOAD=", "OMPI_MCA_opal_signal="};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (!strncmp(variable, own[i], strlen(own[i])))
            return true;
    return false;
}

/* The upper half's environment: ours, with the user's own preloads. */
static char **upper_environment(void)
{
    size_t count = 0, used = 0;
    while (environ[count])
        count++;
    char **out = calloc(count + 2, sizeof *out);
    const char *preload = getenv("BELAY_UPPER_PRELOAD");
    for (size_t i = 0; out && i < count; i++)
        if (!is_own_variable(environ[i]))
            out[used++] = environ[i];
    if (out && preload && *preload && asprintf(&out[used], "LD_PRELOAD=%s", preload) < 0)
        return NULL;
    return out;
}

/* The process was another program before, which has written and read something. */
static void take_over(const struct control_carried *carried)
{
    if (!carried->is_set)
        return;
    for (int i = 0; i < STREAMS_PER_RANK; i++)
        VK->outputs[i] = carried->outputs[i];
    VK->input_position = carried->input_position;
}

static void start_program(const struct paths *paths, const char *program, const struct options *options,
                          struct belay_error *err)
{
    struct loaded_elf elf, interpreter = {.bias = 0};
    struct loader_start start = {.name = options->executed ? options->executed : program,
                                 .program = &elf,
                                 .argv = options->command,
                                 .envp = upper_environment()};
    if (!start.envp) {
        belay_error_set(err, ENOMEM, "no memory");
        return;
    }
    snprintf(VK->exe, sizeof VK->exe, "%s", program);
    snprintf(VK->stand_ins, sizeof VK->stand_ins, "%s", paths->stand_ins);
    VK->is_patching = !getenv("BELAY_NO_PATCH");
    if (loader_map(program, &elf, err))
        return;
    if (!elf.interpreter[0] && !elf.is_library) {
        belay_error_set(err, ENOEXEC, "%s is statically linked and cannot be protected; link it dynamically",
                        program);
        return;
    }
    if (elf.interpreter[0] && loader_map(elf.interpreter, &interpreter, err))
        return;
    start.interpreter_base = interpreter.bias;
    uint64_t stack = loader_build_stack(&start, err);
    prctl(PR_SET_NAME, strrchr(program, '/') + 1); /* for ps and top; threads made from here on have it too */
    if (!stack)
        return;
    arguments_show();
    if (!trap_install(err))
        loader_jump(elf.interpreter[0] ? interpreter.entry : elf.entry, stack);
}

/* ---- a restored one ---- */

static int check_world(struct belay_error *err)
{
    int number = -1, count = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    if ((uint32_t)number != rank.rank || (uint32_t)count != rank.ranks)
        return belay_error_set(err, EINVAL,
                               "the launcher made this rank %d of %d, its environment said %u of %u", number,
                               count, rank.rank, rank.ranks);
    return 0;
}

static int init_mpi(struct belay_error *err)
{
    int provided;
    children_init_begins();
    int code = interpose_init_thread(MPI_Init_thread, VK->mpi_thread_level, &provided);
    children_init_ended();
    if (code != MPI_SUCCESS)
        return belay_error_set(err, EIO, "MPI_Init failed with code %d", code);
    GATE->mpi_init_done_ns = gate_now_ns();
    return check_world(err);
}

/* No rank goes on before all have what they share, and have told the kernel. */
static int meet(struct belay_error *err)
{
    int code = MPI_Barrier(MPI_COMM_WORLD);
    if (code != MPI_SUCCESS)
        return belay_error_set(err, EIO, "MPI_Barrier failed with code %d", code);
    if (peers_meet(err) || (rank.file_limit_bytes > 0 && travel_meet(err) < 0))
        return -1;
    travel_set_times();
    return shares_let_go(err);
}

static void restart_program(struct belay_error *err)
{
    struct restore restore;
    if (restore_open(&restore, rank.image_fd, err) ||
        restore_regions(&restore, VK_ADDRESS, VK_ARENA_END, err))
        return;
    VK->pid = VK->rank_pid = (uint32_t)getpid();
    vk_ids_renew();
    clock_restore();
    if (shares_restore_begin(&rank, err) || reopen_begin(rank.undo_fd, rank.restore_line, err) ||
        process_restore_fds(rank.parcel_fd, err) || init_mpi(err) ||
        restore_regions(&restore, 0, VK_ADDRESS, err) ||
        restore_regions(&restore, VK_ARENA_END, LAYOUT_END, err))
        return;
    gate_fault("rank.load.mapped", rank.restore_line);
    on_demand_ready();
    if (shares_restore_end(err))
        return;
    process_free_numbers();
    held_close();
    if (special_restore_locks(err) || meet(err))
        return;
    process_free_numbers();
    restore_close(&restore);
    vk_fd_close_own(rank.image_fd);
    vk_fd_close_own(rank.parcel_fd);
    advice_restore();
    arguments_show();
    gate_fault("rank.restore", rank.restore_line);
    rank.control->leader_tid = (uint32_t)gettid();
    if (settings_restore(err) || trap_install(err))
        return;
    vk_actions_restore();
    children_restore();
    if (thread_resume_all(err))
        return;
    if (process_restore_timers(err))
        return;
    limits_restore();
    vk_stream_go_on();
    thread_resume_main();
}

/* ---- the program ---- */

static int parse_arguments(int argc, char **argv, struct options *options, struct belay_error *err)
{
    int at = 1;
    *options = (struct options){.native = NULL};
    for (; at + 1 < argc && strcmp(argv[at], "--"); at += 2) {
        if (!strcmp(argv[at], "--argv0"))
            options->argv0 = argv[at + 1];
        else if (!strcmp(argv[at], "--executed"))
            options->executed = argv[at + 1];
        else if (!strcmp(argv[at], "--native"))
            options->native = argv[at + 1];
        else if (!strcmp(argv[at], "--tries"))
            options->tries = atoi(argv[at + 1]);
        else
            break;
    }
    if (at + 1 >= argc || strcmp(argv[at], "--"))
        return belay_error_set(err, EINVAL,
                               "belay-launch is started by libbelay.so; to use it by hand: "
                               "belay-launch [--argv0 NAME] -- PROGRAM [args]");
    options->command = argv + at + 1;
    return 0;
}

/* The same once more, put elsewhere by the kernel. Returns if that fails. */
static void start_again(int argc, char **argv, const struct options *options)
{
    char native[CONFINE_TEXT_BYTES], tries[16];
    char **again = calloc((size_t)argc + 9, sizeof *again);
    int used = 0;
    if (!again)
        return;
    confine_begin(native);
    snprintf(tries, sizeof tries, "%d", options->tries + 1);
    again[used++] = argv[0];
    again[used++] = (char *)(uintptr_t) "--native";
    again[used++] = native;
    again[used++] = (char *)(uintptr_t) "--tries";
    again[used++] = tries;
    if (options->executed) {
        again[used++] = (char *)(uintptr_t) "--executed";
        again[used++] = (char *)(uintptr_t)options->executed;
    }
    if (options->argv0) {
        again[used++] = (char *)(uintptr_t) "--argv0";
        again[used++] = (char *)(uintptr_t)options->argv0;
    }
    again[used++] = (char *)(uintptr_t) "--";
    for (char **word = options->command; *word; word++)
        again[used++] = *word;
    execv("/proc/self/exe", again);
    confine_end(native);
    free(again);
}

/* The agent takes no second program of a launch, and has told the user so. Returns if that fails. */
static void run_without_belay(const struct options *options, const char *program, struct belay_error *err)
{
    const char *preload = getenv("BELAY_UPPER_PRELOAD");
    if (preload && *preload)
        setenv("LD_PRELOAD", preload, 1);
    unsetenv("BELAY_UPPER_PRELOAD");
    unsetenv("BELAY_LINKED_TOOLS");
    unsetenv("BELAY_STREAMS");
    if (options->argv0)
        options->command[0] = (char *)(uintptr_t)options->argv0;
    execv(program, options->command);
    belay_error_errno(err, "cannot execute %s without Belay", program);
}

int main(int argc, char **argv)
{
    struct belay_error err = {0};
    struct options options;
    static struct paths paths; /* the virtual kernel keeps some */
    static char program[PATH_MAX];
    if (argc == 2 && !strcmp(argv[1], "--transports"))
        return transports_print();
    if (parse_arguments(argc, argv, &options, &err))
        die(&err);
    if (!options.native || !confine_end(options.native))
        start_again(argc, argv, &options);
    if (!realpath(options.command[0], program)) {
        belay_error_errno(&err, "cannot find %s", options.command[0]);
        die(&err);
    }
    if (check_machine(&err) || find_paths(&paths, &err) || rank_from_environment(&rank, &err))
        die(&err);
    if (map_gate(&err) || code_page_map(paths.vdso, &err))
        die(&err);
    const struct meeting_place place = {.program = program, .folder = paths.stand_ins};
    if (meeting_hold(&rank, &place, &err) || rank_hello(&rank, program, paths.belayd, &err) ||
        streams_start(&rank, &err)) {
        if (err.code == EALREADY)
            run_without_belay(&options, program, &err);
        if (err.code == EXDEV || !err.text[0]) /* it has been said, for all ranks */
            _exit(CONTROL_REFUSED_STATUS);
        die(&err);
    }
    /* The application's crashes are its own: no handler of the library's. */
    setenv("OMPI_MCA_opal_signal", "", 0);
    fill_gate();
    let_agent_read();
    interpose_on_abort(gate_announce_exit);
    vk_exec_start(environ, paths.preload, rank.variable);
    vk_fd_make_spare();
    held_start(rank.undo_fd);
    vk_undo_start(rank.undo_fd, rank.rank, rank.undo_limit_bytes, rank.undo_total_bytes);
    vk_undo_begin_line(rank.restore_line);
    travel_start(rank.file_limit_bytes, rank.common_devices, rank.common_count);
    if (rank.restore_line) {
        vk_pending_drop();
        restart_program(&err);
        if (err.code == EADDRINUSE && options.tries < TRIES_MAX)
            start_again(argc, argv, &options);
    } else if (vk_create() < 0) {
        belay_error_set(&err, ENOMEM, "the address range of the upper half is taken");
    } else if (!thread_adopt_main(&err)) {
        if (options.argv0)
            options.command[0] = (char *)(uintptr_t)options.argv0;
        take_over(&rank.control->carried);
        process_adopt_fds();
        vk_actions_adopt();
        limits_begin();
        settings_begin();
        vk_stream_go_on();
        start_program(&paths, program, &options, &err);
    }
    die(&err);
}
