/*
 * gate.h - what the two halves of a rank know of one another.
 *
 * struct gate    one page at GATE_ADDRESS, written by the lower half at every launch, never saved: the
 *                upper half finds the lower one's entry points and the control page there.
 * struct thread  one per thread of the application, in saved memory; its address is the thread's GS base,
 *                so that it can be found with either FS base. Offsets are used by assembly.
 * struct vk      the virtual kernel's state of the process, in saved memory at VK_ADDRESS.
 *
 * "lower FS" means that the FS base is that of the lower libc. Functions of struct gate marked [any] may
 * be called with either; all others need the lower FS (lower_enter()).
 */
#ifndef BELAY_MPI_LAYER_LOWER_GATE_H
#define BELAY_MPI_LAYER_LOWER_GATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/util/file_id.h"
#include "common/wire/control.h"
#include "common/wire/shares.h"
#include "common/wire/streams.h"
#include "mpi-layer/lower/map.h"

/* Changes whenever the meaning of saved memory changes: images of another version are refused. */
#define LAYER_LAYOUT_VERSION 29
#define VK_NAMED_FILES 64

/* Where a parked thread goes on. Offsets are used by context_save and context_resume. */
struct context {
    uint64_t rbx, rbp, r12, r13, r14, r15, rsp, rip;
    uint32_t mxcsr;
    uint16_t x87_control;
};

/* Handlers of the application that a thread has entered: all, and those without SA_RESTART. */
struct handler_counts {
    uint32_t all, ending;
};

/*
 * A wait in progress, on the stack of its thread (vdso.S makes it; vk_wait.c). Times are struct timespec.
 */
struct wait {
    int64_t args[6], nr;      /* 0, 48: as the application called */
    int64_t call[6], call_nr; /* 56, 104: as the kernel is called */
    uint32_t has_end;         /* 112: its result is for vk_wait_ended() first */
    uint32_t goes_on;         /* 116: the call is to be made (again), as it is set up now */
    const uint32_t *watched;  /* 120: of the thread's counts of handlers, the one that ends this wait ... */
    uint32_t watched_from;    /* 128: ... when it is no longer this; the call is not made then, ... */
    uint32_t is_unmade;       /* 132: ... which is noted here, and has ended with EINTR */
    int64_t result;           /* 136 */
    uint32_t is_over;         /* a handler of the application has met its end */
    uint32_t is_cut;          /* our signal has; the counts of handlers were these then: */
    struct handler_counts handlers;
    uint64_t start_ns; /* the application's CLOCK_MONOTONIC */
    int64_t time[2], remaining[2];
    int64_t deadline[2];    /* as the application counts ... */
    int32_t deadline_clock; /* ... by this clock; -1: there is none */
    uint32_t restarts;      /* the kernel restarts it after a handler with SA_RESTART */
    int64_t socket_us;      /* the timeout of its socket (0: none) ... */
    int32_t socket, socket_option;
    uint32_t is_shortened, is_write; /* ... which has been set to what remained of it; it writes to a file */
    uint64_t mask;
    uint64_t pselect[2]; /* address and size of a mask */
    /* A transfer in parts (vk_transfer.c): bytes or messages done, this part's, all that it waits for. */
    int64_t done, part_bytes, wanted;
    int64_t message_done; /* bytes of a message that was sent in part */
    uint64_t part[2];     /* struct iovec */
    uint64_t message[7];  /* struct msghdr */
    uint64_t hidden_mask; /* the thread's, before a call that changes it */
};

/* Pending signals, siginfo_t as the kernel has it, in their order. */
struct signal_queue {
    uint64_t count, capacity;
    uint8_t (*infos)[128];
};

/* ENDED: the main thread, after pthread_exit(); its block stays, and it waits for the others' end. */
enum thread_life { THREAD_FREE = 0, THREAD_STARTING, THREAD_LIVE, THREAD_ENDED };
enum thread_pending {
    THREAD_PENDING_SIGNAL = 1,   /* the signal came at such a moment: look at the control page */
    THREAD_PENDING_ERROR = 2,    /* an error handler of the application is to be called */
    THREAD_PENDING_HANDLERS = 4, /* signals of the application were postponed (vk_postponed.c) */
};
enum thread_park { THREAD_RUNS = 0, THREAD_SIGNALLED, THREAD_PARKED, THREAD_NOTED };

#define POSTPONED_MAX 16
#define PASSED_BYTES 1088 /* credentials and as many descriptors as a message may have */

/* What a thread may set for itself with the kernel (vk_settings.c). */
struct vk_settings {
    int64_t slack_ns, counter, death_signal, memory_faults, io_priority, memory_policy;
    uint64_t nodes[16];
    uint64_t processors[16];
    uint8_t scheduling[56]; /* struct sched_attr as the kernel has it */
};

struct thread {
    struct thread *self; /* 0 */
    uint64_t lower_fs;   /* 8: this thread's FS base in the lower half (new after a restart) */
    uint64_t upper_fs;   /* 16: ... in the upper half (saved) */
    uint32_t depth;      /* 24: > 0 inside a wrapper of ours or the lower half: not a safe point */
    uint32_t pending;    /* 28: enum thread_pending: what to see to on the way out */
    uint32_t in_vk;      /* 32: > 0 inside the virtual kernel, entered through a patched call site */
    uint32_t pid;        /* 36: of the process that owns this block (a forked child differs) */
    uint32_t tid;        /* 40: the kernel's id (new after a restart) */
    uint32_t vtid;       /* 44: the id that the application knows */
    uint32_t life;       /* enum thread_life */
    uint32_t park;       /* enum thread_park */
    struct thread *next; /* all blocks, in order of creation; blocks are reused, never unlinked */
    uint64_t clear_tid;  /* CLONE_CHILD_CLEARTID / set_tid_address */
    uint64_t robust_list, robust_bytes;
    uint64_t signal_mask; /* 88: a new thread's, or as of parking */
    /* 96: for the start of a new thread: vdso.S */
    uint64_t start_rip, start_rsp;
    uint64_t start_regs[12];
    uint64_t hidden_mask; /* 208: which of our signals the application believes to block */
    /* 216: frame of the last handler that has met the virtual kernel; its alternate stack: start, bytes */
    uint64_t handler_frame, handler_stack[2];
    struct handler_counts handlers; /* 240 */
    uint64_t set_tid_address;       /* CLONE_PARENT_SETTID: where the new id is written before it runs */
    struct context context;
    /* As of parking, for a restart. */
    uint64_t alt_stack[3]; /* stack_t as the kernel has it */
    char name[16];
    int64_t cpu_noted_ns;        /* processor time as the application counts, ... */
    int64_t cpu_offset_ns;       /* ... which is the kernel's plus this */
    struct signal_queue signals; /* pending for this thread */
    /* A write to a standard stream that a line has interrupted: its stack pointer, how far it is. */
    uint64_t written_at, written_bytes;
    struct vk_settings settings;
    /* Where our signal has let the kernel restart a call: its instruction, its stack pointer. */
    uint64_t restart_rip, restart_rsp;
    uint32_t awaits_child; /* the line has met it in a call that waits for a child */
    /* hidden_mask of a vfork()ed child that runs on this block, and which process that is. */
    uint64_t vfork_mask;
    uint32_t vfork_pid;
    /* Signals that have met the virtual kernel, siginfo_t as the kernel has it: they come again behind it. */
    uint32_t postponed_count, postponed_above; /* above: the last ones that came on top of the next one */
    uint8_t postponed[POSTPONED_MAX][128];
    uint64_t passed[PASSED_BYTES / 8]; /* of a message that it sends, with the kernel's ids (vk_sender.c) */
    /* Lower half only, meaningless in an image. */
    void *lower_exit[5]; /* __builtin_setjmp buffer: the way back to the lower thread's function */
    uint32_t started;    /* futex */
};

struct vk_action { /* struct kernel_sigaction as the application gave it */
    uint64_t handler;
    uint64_t flags;
    uint64_t restorer;
    uint64_t mask;
};

enum fd_kind {
    FD_NONE = 0,
    FD_FILE,
    FD_PIPE,
    FD_ENDED_PIPE, /* nobody has its other end any more */
    FD_SOCKET,
    FD_EVENT,
    FD_EPOLL,
    FD_TIMER,
    FD_SIGNAL,
    FD_STREAM,   /* of those that the launch gave the rank */
    FD_TERMINAL, /* a pseudo terminal whose master is in the program */
    FD_OTHER,
    FD_UNBEGUN_PIPE, /* reads from a FIFO that nobody has had open for writing since */
    FD_NOTIFY        /* of inotify */
};

struct fd_record { /* one descriptor of the application, noted when its rank parks */
    int32_t fd;
    int32_t kind;         /* enum fd_kind */
    int32_t status_flags; /* F_GETFL */
    int32_t fd_flags;     /* F_GETFD */
    int32_t same_as;      /* an earlier record's fd with the same open file description, or -1 */
    int32_t stream;       /* which, if it is one of the launch's: 0 to 2 */
    uint32_t is_made;     /* by a call of the program that is served; else it came another way */
    struct file_id id;    /* which file it is */
    int64_t offset;
    int64_t bytes;      /* length of a regular file, capacity of a pipe, else -1 */
    int64_t changed_ns; /* when a file was changed last, since 1970 */
    uint64_t rdev;      /* the number of a device */
    uint32_t links;     /* names that a file has */
    uint32_t held;      /* 1, 2, ...: it is this one in the rank's parcel (held.h); 0: it is not */
    /* What a restart on another host does about the file (travel.h). */
    uint32_t travel;                 /* enum travel */
    uint64_t content, content_bytes; /* CONTENTS: where they are in the memory for that */
    uint64_t token;                  /* TOKEN: of the contents (common/image/file_token.h) */
    int64_t noted_ns;                /* when reading the contents began, since 1970 */
    /* Who gets its signals (struct f_owner_ex) and which, if has_owner. */
    uint32_t has_owner;
    int32_t owner_type, owner, owner_signal;
    /* Where in struct vk's fd_text its path begins, with a NUL, and its details (special.c). */
    uint64_t path, text, text_bytes;
};

struct vk_shared_file { /* a file that the program has mapped shared, noted when its rank parks */
    struct file_id id;
    char path[4096];
};

struct vk_sysv {           /* an object of System V whose id the application knows */
    uint32_t kind;         /* enum share_kind; SHARE_NONE: the entry is free */
    int32_t id, kernel_id; /* as the application knows it; the kernel's may be new after a restart */
    uint32_t undo_count;
    int32_t *undo; /* of semaphores: what is added to each when the process ends (SEM_UNDO); NULL: nothing */
};

struct vk_sigevent { /* struct sigevent as the kernel has it */
    uint64_t value;
    int32_t signal, notify, tid;
    int32_t reserved[11];
};

struct vk_timer {          /* a POSIX timer of the application */
    int32_t id, kernel_id; /* as the application knows it; the kernel's is new after a restart */
    int32_t clock;
    uint32_t is_used, is_absolute;
    struct vk_sigevent event;
    int64_t left[4]; /* struct itimerspec at parking */
};

#define VK_CLOCKS 8
#define VK_LIMITS 16 /* RLIM_NLIMITS */

struct vk_limit { /* struct rlimit as the kernel has it */
    uint64_t soft, hard;
};

enum advice {
    ADVICE_WIPED = 1,    /* MADV_WIPEONFORK */
    ADVICE_LEFT_OUT = 2, /* MADV_DONTFORK */
    ADVICE_GROWS = 4,    /* MAP_GROWSDOWN */
    ADVICE_LOCKED = 8,
    ADVICE_LOCKED_ON_FAULT = 16,
    ADVICE_HUGE = 32, /* pages of page_bytes that were set aside */
    ADVICE_UNRESERVED = 64,
    ADVICE_SEALED = 128, /* mseal */
};

struct vk_advice { /* memory of which the program has told the kernel something: advice.h */
    uint64_t start, end, page_bytes;
    uint32_t flags; /* enum advice */
};

#define VK_SETTINGS 16
#define VK_GROUPS_MAX 1024

struct vk_user {
    uint32_t ids[8]; /* real, effective, saved user; the same of groups; user and group for files */
    uint32_t keeps_capabilities;
    uint32_t group_count, groups[VK_GROUPS_MAX];
    uint32_t capabilities[6]; /* as the kernel has them */
};

enum vk_id_of { VK_ID_SELF, VK_ID_PARENT, VK_ID_GROUP, VK_ID_SESSION, VK_IDS };

struct vk_id { /* of a process, group or session: vk_id.h */
    uint32_t known, kernel;
};

#define VK_MAGIC 0x6b765f79616c6562ull

struct vk {
    uint64_t magic;
    uint64_t layout_version;
    /* The upper half's function for safe points; NULL before its library is there. Upper FS. */
    void (*safepoint)(struct thread *thread); /* 16 */
    struct thread *threads;                   /* 24: the main thread comes first */
    uint32_t pid;          /* of the process that this memory belongs to (a forked child's copy differs) */
    uint32_t threads_lock; /* spin lock over the list of threads */
    uint32_t rank_pid;     /* of the rank (new after a restart): equal to pid in the rank itself */
    uint32_t has_socket_timeouts; /* calls on sockets are waits (trap.h) */
    struct thread *leader;        /* the thread that takes the line in progress, NULL: none does (stop.c) */
    struct thread *mpi_thread;    /* the one that initialised MPI */
    /* 64: what stand-ins of MPI's other libraries call (fortran/bindings.h) */
    const struct bindings *bindings;
    struct vk_action actions[65];
    uint64_t handlers[65]; /* the last one that each signal had */
    uint64_t actions_set;  /* bits of signals whose action the application has set */
    uint64_t own_calls[2]; /* text outside of the upper range that makes system calls itself; 0 0: none */
    uint64_t brk, brk_start, brk_end;        /* where it is, and may be */
    uint64_t next_anon, next_file, next_low; /* where the search for free addresses goes on ... */
    uint64_t next_wide, next_high, next_deep;
    uint64_t trampoline_next, trampoline_end;
    uint64_t arena_next, arena_end;
    uint32_t live_threads;
    uint32_t park_wanted;  /* 1: threads are being parked */
    uint32_t park_events;  /* futex: bumped when a thread parks, starts or ends */
    uint32_t park_release; /* futex: odd: parked threads note themselves; the next even number lets them go */
    int32_t mpi_thread_level; /* -1: MPI_Init had not been called */
    uint32_t is_patching;     /* 0: call sites are left alone (BELAY_NO_PATCH) */
    struct fd_record *fds;    /* noted by the lower half at parking */
    uint64_t fd_count, fd_capacity;
    char *fd_text;
    uint64_t fd_text_bytes, fd_text_capacity;
    int64_t itimers[3][4];    /* struct itimerval of ITIMER_REAL, VIRTUAL, PROF at parking */
    struct vk_timer **timers; /* by their ids; blocks are reused, never freed */
    uint32_t timer_count, timer_capacity;
    uint32_t timer_from, reserved;      /* all ids below are in use */
    struct signal_queue signals;        /* pending for the process, at parking */
    uint32_t has_shared_files;          /* it has mapped a file shared */
    uint32_t has_late_writers;          /* ... which it may make writable later (vk_mprotect) */
    uint32_t has_changed_folders;       /* permissions of folders: files in them may be out of reach */
    int64_t clock_offset_ns[VK_CLOCKS]; /* by clock id: the application's clock is the kernel's plus this */
    int64_t clock_noted_ns[VK_CLOCKS];  /* the application's clocks at parking */
    char clock_identity[96];            /* boot and time namespace that they belong to */
    struct stream_end outputs[STREAMS_PER_RANK]; /* how far the application is in its output */
    uint64_t input_position;                     /* bytes read from standard input */
    struct vk_limit limits_at_start[VK_LIMITS], limits[VK_LIMITS]; /* by RLIMIT_*; at parking */
    struct vk_advice *advice;                                      /* at parking */
    uint64_t advice_count, advice_capacity;
    uint64_t has_advice;                 /* some was given at some time */
    uint32_t lock_future, lock_all;      /* mlockall's flags; all: whatever is mapped is locked */
    struct vk_shared_file *shared_files; /* at parking */
    uint64_t shared_count, shared_capacity;
    struct vk_sysv *sysv;
    uint64_t sysv_count, sysv_capacity;
    uint64_t may_share;        /* the process has had shared memory, or objects of System V */
    struct share_note *shares; /* at parking: common/wire/shares.h */
    uint64_t shares_count, shares_capacity;
    /* Numbers below 1024 of the first launch's MPI library: they stay taken. A bit each. */
    uint64_t library_fds[16];
    char exe[4096]; /* what /proc/self/exe is for the application */
    char cwd[4096]; /* at parking */
    struct file_id cwd_id;
    uint32_t held_cwd;  /* ... if no path leads there: in the parcel, as in struct fd_record */
    uint32_t noted_pid; /* of the process, at parking */
    struct vk_id ids[VK_IDS];
    uint64_t ids_host;   /* where they are valid, at parking (common/util/mounts.h) */
    struct vk_id *peers; /* after a restart: ranks that were on this process's host */
    uint64_t peer_count, peer_capacity;
    uint32_t has_new_ids;      /* one of these ids is not the kernel's any more */
    struct vk_child *children; /* at parking; after a restart none of them is there (vk_child.h) */
    uint64_t child_count, child_capacity;
    struct vk_watch *watches; /* files that inotify watches (vk_watch.h) */
    uint64_t watch_count, watch_capacity;
    uint32_t unkept_told;        /* bits, by enum vk_unkept */
    uint64_t travel_bytes;       /* of the memory for contents of files (travel.h) */
    uint64_t travel_host;        /* the host at parking (common/util/mounts.h); 0: nothing travels */
    uint64_t held_journal_bytes; /* of the journal in the parcel, at parking (vk_held.h) */
    uint32_t named_file_count;   /* the newest of these are noted, one in the place of the oldest */
    struct file_id named_files[VK_NAMED_FILES]; /* made without a name, given one (vk_undo_link.c) */
    char stand_ins[4096];                       /* the folder of our libraries that stand in for MPI's */
    /* Folders of the installed ones that the program has asked for (vk_stand_in.c). */
    char stood_for[3][4096];
    /* Where the strings of argv and environ, and the auxiliary vector, began and ended. */
    uint64_t arguments[2], variables[2], auxiliary[2];
    uint32_t umask;
    int64_t settings_at_start[VK_SETTINGS], settings[VK_SETTINGS]; /* settings.c; at parking */
    struct vk_user user_at_start, user;
    struct vk_settings thread_settings_at_start;
};

#define VK ((struct vk *)VK_ADDRESS)

struct gate {
    uint64_t vdso[8]; /* 0: vk_clock_gettime; the kernel's gettimeofday, time, getcpu, clock_getres */
    void (*trampoline_entry)(void); /* 64: system calls of patched sites */
    /* 72: [any] the signal may have cut a timed wait short; the counts are those when it came */
    void (*wait_interrupted)(void *ucontext, struct handler_counts counts);
    /*
     * Is this a moment for a safe point? [any] 1 yes, 0 deferred; else the application's signal that it is.
     */
    int (*signal_is_safe)(int signal, void *info, void *ucontext); /* 80 */
    /* A wait begins / has a result / begins as the rest of a call that our signal has cut short. [any] */
    void (*wait_prepare)(struct wait *wait);             /* 88 */
    long (*wait_ended)(struct wait *wait, long result);  /* 96 */
    long (*wait_resume)(struct wait *wait, long result); /* 104 */
    /* A signal of the application has come: the handler to call, 0: none, it is postponed. [any] */
    uint64_t (*handler_begins)(int signal, void *info, void *ucontext, uint32_t was_in_vk); /* 112 */
    uint64_t transfer_entry; /* 120: where patched calls that send or receive go on, in the page of code */
    /* Send what was postponed again. All signals are blocked then, *mask is what was before. [any] */
    void (*handlers_again)(uint64_t *mask);                /* 128 */
    int (*kernel_clock_gettime)(int clock, int64_t *time); /* of the kernel's vdso */
    int (*kernel_clock_getres)(int clock, int64_t *time);
    uint64_t generation; /* 1, 2, ...: the epoch */
    struct control *control;
    /* Tell the agent that the control page has something new. [any] */
    void (*notify)(void);
    /* FUTEX_WAIT on control->command_seq while it is `seen`, for timeout_ms at most. [any] */
    void (*wait_command)(uint32_t seen, uint32_t timeout_ms);
    /* The lower half's symbol `name` (of libmpi and what it needs), NULL if there is none. */
    void *(*symbol)(const char *name);
    /* Note descriptors, timers, clocks for the image. NULL, or why that cannot be done. */
    const char *(*note_process)(void);
    /* Set the kernel's mask of the calling thread, but for SIGSYS; the one before. [any] */
    uint64_t (*set_signal_mask)(uint64_t mask);
    /* Note what the kernel knows of the calling thread; all its signals are blocked. The same returns. [any]
     */
    const char *(*note_thread)(void);
    /*
     * Park every other thread of the application / let them go. park_threads() returns 0 if another thread
     * has become the leader meanwhile. [any]
     */
    int (*park_threads)(void);
    void (*release_threads)(void);
    /* The rank has announced how it ends. [any] */
    void (*announce_exit)(uint32_t kind, int status);
    /* The application is about to execute another program, which may be a rank in its place. Any FS base. */
    void (*leave_launcher)(void);
    /* Fault points (common/fault), of this rank. 1: the step is to fail. */
    int (*fault)(const char *point, uint64_t line);
    /* A line on the launcher's standard error: "belay: rank N: text". */
    void (*say)(const char *text);
    /* CLOCK_MONOTONIC in ns. [any] */
    uint64_t (*now_ns)(void);
    /* Before files are changed for the application, but not by its own system calls: vk_undo.h. [any] */
    void (*undo_fd)(long fd, uint64_t offset, uint64_t bytes);
    void (*undo_path)(const char *path, uint64_t offset, uint64_t bytes);
    void (*undo_open)(const char *path, long flags);
    void (*undo_remove)(const char *path);
    /* ... and after undo_open or undo_remove: has it happened? */
    void (*undo_changed)(int is_done);
    /* The rank goes on from a line: shared mappings of files are noted (mapped.h). */
    void (*note_mapped_files)(void);
    /* Files that the MPI library has open for the application: interpose_file.h. */
    void *(*watch_file)(const char *path);
    void (*unwatch_file)(void *watch);
    /* Which file is at a path / is it still that one, or the one that took its place: reopen.h. */
    void (*identify_file)(const char *path, struct file_id *id);
    int (*is_same_file)(const char *path, const struct file_id *id);
    /* A restart's times: end of MPI_Init. */
    uint64_t mpi_init_done_ns;
    struct layout layout; /* which addresses are the lower half's; as in the control page */
};

#define GATE ((struct gate *)GATE_ADDRESS)

_Static_assert(offsetof(struct gate, trampoline_entry) == 64, "vdso.S, trampolines");
_Static_assert(offsetof(struct gate, wait_interrupted) == 72, "vdso.S");
_Static_assert(offsetof(struct gate, signal_is_safe) == 80, "vdso.S");
_Static_assert(offsetof(struct gate, wait_prepare) == 88, "vdso.S");
_Static_assert(offsetof(struct gate, wait_ended) == 96, "vdso.S");
_Static_assert(offsetof(struct gate, wait_resume) == 104, "vdso.S");
_Static_assert(offsetof(struct gate, handler_begins) == 112, "vdso.S");
_Static_assert(offsetof(struct gate, transfer_entry) == 120, "trap.S, trampolines");
_Static_assert(offsetof(struct gate, handlers_again) == 128, "vdso.S");
_Static_assert(offsetof(struct wait, nr) == 48 && offsetof(struct wait, call) == 56, "vdso.S");
_Static_assert(offsetof(struct wait, call_nr) == 104 && offsetof(struct wait, has_end) == 112, "vdso.S");
_Static_assert(offsetof(struct wait, goes_on) == 116 && offsetof(struct wait, watched) == 120, "vdso.S");
_Static_assert(offsetof(struct wait, watched_from) == 128 && offsetof(struct wait, is_unmade) == 132,
               "vdso.S");
_Static_assert(offsetof(struct wait, result) == 136, "vdso.S");
_Static_assert(sizeof(struct wait) <= 384, "vdso.S");
_Static_assert(offsetof(struct thread, signal_mask) == 88, "vdso.S");
_Static_assert(offsetof(struct thread, start_rip) == 96, "vdso.S");
_Static_assert(offsetof(struct thread, hidden_mask) == 208, "vdso.S");
_Static_assert(offsetof(struct thread, handler_frame) == 216, "vdso.S");
_Static_assert(offsetof(struct thread, handlers) == 240, "vdso.S");
_Static_assert(offsetof(struct thread, upper_fs) == 16, "vdso.S");
_Static_assert(offsetof(struct thread, in_vk) == 32, "trap.S");
_Static_assert(offsetof(struct thread, tid) == 40, "vdso.S");
_Static_assert(offsetof(struct vk, safepoint) == 16, "vdso.S");
_Static_assert(sizeof(struct vk) <= VK_BYTES, "map.h");
_Static_assert(sizeof(struct gate) <= MAP_PAGE_BYTES, "map.h");

/* The block of the calling thread. Only in threads of the application. [any] */
static inline struct thread *thread_self(void)
{
    struct thread *self;
    __asm__ volatile("mov %%gs:0, %0" : "=r"(self));
    return self;
}

#endif
