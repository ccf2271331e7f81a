/*
 * vk_fd.h - which descriptors are the lower half's, and what is known of the application's.
 *
 * The lower half's descriptors are those that belay-launch opens for itself, and those that the MPI library
 * and the libraries below it open (interpose_fd.c). Every other descriptor is the application's, whether it
 * was received over a socket, made by an ioctl or inherited.
 *
 * The application cannot close a descriptor of the lower half or put another one in its place. The lower half
 * takes no number that the application would get natively: belay-launch's own descriptors are above all
 * others. The MPI library's have the numbers that they have natively; after a restart these numbers stay
 * taken, and the new library's descriptors are above the application's soft limit, too.
 *
 * Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_FD_H
#define BELAY_MPI_LAYER_LOWER_VK_FD_H

#include <stdbool.h>
#include <stdint.h>

/* What a descriptor is from now on: */
void vk_fd_add(long fd);               /* the application's, made by a call of it */
void vk_fd_add_copy(long fd, long of); /* a copy of another one (dup) */
void vk_fd_find(long fd);              /* the application's, which has come in another way */
void vk_fd_receive(long fd);           /* the same; it may be a copy of one that is known */
void vk_fd_take(long fd);              /* the lower half's */
void vk_fd_drop(long fd);              /* closed */
bool vk_fd_is_lower(long fd);
bool vk_fd_is_made(long fd);
/* The next descriptor from `fd` on that one of these calls has told of and that is not closed; -1: none. */
long vk_fd_next(long fd);

/* Descriptors with the same number here are copies of one another, others are not. 0: not known. */
uint64_t vk_fd_description(long fd);
void vk_fd_set_description(long fd, uint64_t description);
/* The descriptor turns out to be a copy of another one: what is known of that one holds for it. */
void vk_fd_set_copy(long fd, long of);
uint64_t vk_fd_new_description(void);
/* What the call that made an eventfd, timerfd or signalfd has told of it; copies have it, too. 0: nothing. */
uint64_t vk_fd_hint(long fd);
void vk_fd_set_hint(long fd, uint64_t hint);
#define VK_FD_HINT_EVENT(flags) (1ul | (uint64_t)(flags) << 8)
#define VK_FD_HINT_SIGNALS 4ul
#define VK_FD_HINT_TIMER(clock, set_flags) (2ul | (uint64_t)(clock) << 8 | (uint64_t)(set_flags) << 32)
/* Has the program set which process gets signals of the descriptor, and which (F_SETOWN, F_SETSIG)? */
bool vk_fd_has_owner(long fd);
void vk_fd_note_owner(long fd);
/*
 * Two sockets are the ends of a pair (socketpair(2), any type). vk_fd_other_end() gives the inode of the
 * other end; 0: the socket is no end of a pair. An end that has come in another way than by the call or as a
 * copy has to be looked for first.
 */
#define VK_FD_HINT_OTHER_END(inode) (3ul | (uint64_t)(inode) << 8)
void vk_fd_note_pair(const int ends[2]);
void vk_fd_find_other_end(long fd);
uint64_t vk_fd_other_end(long fd);
/*
 * May the open file be locked (flock(2), fcntl(2))? If not, the kernel need not be asked at each line. False
 * only if the file was opened here, the program has locked nothing by it, and no other process shares it:
 * that process could lock it without our notice. set_unshared  the descriptor is from open(2), made when
 * vk_fd_shared_count() was `since` or later note_lock     before the program locks, or unlocks, by a
 * descriptor note_shared   another process may have got all files that are open now: a child, or a receiver
 * of descriptors
 */
bool vk_fd_may_be_locked(long fd);
uint64_t vk_fd_shared_count(void);
void vk_fd_set_unshared(long fd, uint64_t since);
void vk_fd_note_lock(long fd);
void vk_fd_note_shared(void);
/* The next descriptor by which the program has locked something; -1: there is none. */
long vk_fd_next_locked(long after);
/* Has it stood for the same thing since vk_fd_mark()? */
bool vk_fd_is_marked(long fd);
void vk_fd_mark(long fd);
/* It has, but its settings may have changed. */
void vk_fd_unmark(long fd);

long vk_fd_syscall(long nr, long a, long b, long c, long d, long e, long f);

/* What a write to a descriptor goes to. STREAM + n: output stream n (vk_stream.h). UNKNOWN: not open. */
enum vk_fd_class { VK_FD_UNKNOWN = 0, VK_FD_REGULAR, VK_FD_ELSEWHERE, VK_FD_STREAM };
enum vk_fd_class vk_fd_class(long fd);
static inline bool vk_fd_is_stream(enum vk_fd_class class)
{
    return class >= VK_FD_STREAM;
}
static inline int vk_fd_stream(enum vk_fd_class class)
{
    return (int)class - VK_FD_STREAM;
}

/*
 * For vk_undo.c: what it has noted since the line of the file of an application's or a watched descriptor;
 * NULL: nothing. With this no fstat(2) is needed before each write. An fstat costs as much as the write, and
 * makes a kernel with multigrain timestamps (Linux 6.13) write the file's inode each time.
 */
const void *vk_fd_noted(long fd);
void vk_fd_set_noted(long fd, const void *noted);
void vk_fd_forget_noted(void);

/*
 * A watched descriptor is one of the lower half's by which the MPI library writes a file of the application's
 * (interpose_file.h). It has to be forgotten when it is closed. unwatch_all: no descriptor is watched any
 * more.
 */
void vk_fd_watch(long fd);
bool vk_fd_is_watched(long fd);
void vk_fd_forget(long fd);
void vk_fd_unwatch_all(void);

/* ---- belay-launch's own (vk_fd_own.c): they are above the others, and closed in forked children ---- */

/* Move a new descriptor there. Returns its number there, or, if that is impossible, the old one. */
long vk_fd_own(long fd);
void vk_fd_close_own(long fd);
void vk_fd_close_all_own(void); /* in a child; also the library's in a restart */
/*
 * For a restart: the MPI library is to have no descriptor below this number. From there on it needs
 * VK_FD_LIBRARY_ROOM numbers at most.
 */
long vk_fd_library_start(void);
#define VK_FD_LIBRARY_ROOM 256
/*
 * Open a file for a moment, and close it, also if the application has as many files open as it may have: then
 * one of a few spare descriptors is closed to make room. Returns a descriptor or -errno.
 */
void vk_fd_make_spare(void);
long vk_fd_open(long folder, const char *path, long flags, long mode);
void vk_fd_close(long fd);
/* Room for several at once, while the application stands still. */
void vk_fd_widen(void);
void vk_fd_narrow(void);

#endif
