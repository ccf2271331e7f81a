/*
 * vk_fd.h - whose descriptors are whose, and what is known of the application's.
 *
 * The lower half's are known: what belay-launch opens for itself and what the MPI library and those below it
 * open (interpose_fd.c). Every other descriptor is the application's, by whichever call it has come: received
 * over a socket, made by an ioctl, inherited.
 *
 * The application cannot close the lower half's or put something in their place. They do not take the numbers
 * that it would get natively: belay-launch's own are above all others; the MPI library's have the numbers
 * that it takes natively, and after a restart these stay taken, while the new library's own are above the
 * application's soft limit, too.
 *
 * Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_FD_H
#define BELAY_MPI_LAYER_LOWER_VK_FD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * From now on the descriptor is the application's, made by it; a copy of another one (dup); the
 * application's, which it has come to another way; the lower half's; closed.
 */
void vk_fd_add(long fd);
void vk_fd_add_copy(long fd, long of);
void vk_fd_find(long fd);
void vk_fd_receive(long fd); /* the same; it may be a copy of one that is known */
void vk_fd_take(long fd);
void vk_fd_drop(long fd);
bool vk_fd_is_lower(long fd);
bool vk_fd_is_made(long fd);
/* The next one from `fd` on that any of these calls have told of, and not vk_fd_drop() since; -1: none. */
long vk_fd_next(long fd);

/* Two descriptors with one number here are copies of one another, with two they are not. 0: not known. */
uint64_t vk_fd_description(long fd);
void vk_fd_set_description(long fd, uint64_t description);
/* It turns out to be a copy of another one: what is known of that is known of it. */
void vk_fd_set_copy(long fd, long of);
uint64_t vk_fd_new_description(void);
/* What the call that made it has told of an eventfd or timerfd, copied with it; 0: nothing. */
uint64_t vk_fd_hint(long fd);
void vk_fd_set_hint(long fd, uint64_t hint);
#define VK_FD_HINT_EVENT(flags) (1ul | (uint64_t)(flags) << 8)
#define VK_FD_HINT_TIMER(clock, set_flags) (2ul | (uint64_t)(clock) << 8 | (uint64_t)(set_flags) << 32)
/* Has the program said who gets signals of it, and which? */
bool vk_fd_has_owner(long fd);
/*
 * Two sockets are the ends of a pair (socketpair(2), any type). Of one of them the inode of the other; 0: it
 * is not such a one. One that has come another way than by the call or a copy has to be looked for.
 */
#define VK_FD_HINT_OTHER_END(inode) (3ul | (uint64_t)(inode) << 8)
void vk_fd_note_pair(const int ends[2]);
void vk_fd_find_other_end(long fd);
uint64_t vk_fd_other_end(long fd);
/*
 * May the open file be locked (flock(2), fcntl(2))? If not, the kernel need not be asked at each line. False
 * only if it was opened here, the program has locked nothing by it, and no other process may share it, which
 * could lock it without our seeing.
 *   set_unshared  the descriptor is from open(2), made when vk_fd_shared_count() was `since` or later
 *   note_lock     before the program locks, or unlocks, by a descriptor
 *   note_shared   another process may have got what is open now: a child, or who receives descriptors
 */
bool vk_fd_may_be_locked(long fd);
uint64_t vk_fd_shared_count(void);
void vk_fd_set_unshared(long fd, uint64_t since);
void vk_fd_note_lock(long fd);
void vk_fd_note_shared(void);
/* Has it stood for the same thing since vk_fd_mark()? */
bool vk_fd_is_marked(long fd);
void vk_fd_mark(long fd);
/* It has, but what it is set to may have changed. */
void vk_fd_unmark(long fd);

long vk_fd_syscall(long nr, long a, long b, long c, long d, long e, long f);

/* What a descriptor is for who writes to it. STREAM + n: output stream n (vk_stream.h). UNKNOWN: not open. */
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
 * For vk_undo.c: what it has noted since the line by an application's descriptor, or by one that is watched;
 * NULL: nothing. So that no fstat(2) is needed before each write: it costs as much as the write, and makes a
 * kernel with multigrain timestamps (Linux 6.13) write the file's inode each time.
 */
const void *vk_fd_noted(long fd);
void vk_fd_set_noted(long fd, const void *noted);
void vk_fd_forget_noted(void);

/*
 * A watched file is written by this descriptor of the lower half (interpose_file.h), until it is closed: then
 * it has to be forgotten. None is, any more.
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
 * For a restart: below this number the MPI library shall have none. It needs VK_FD_LIBRARY_ROOM numbers from
 * there on at most.
 */
long vk_fd_library_start(void);
#define VK_FD_LIBRARY_ROOM 256
/*
 * Open or close for a moment; also if the application has used up what it may have open: then one of a few
 * spare descriptors makes room. Returns -errno.
 */
void vk_fd_make_spare(void);
long vk_fd_open(long folder, const char *path, long flags, long mode);
void vk_fd_close(long fd);
/* Room for several at once, while the application stands still. */
void vk_fd_widen(void);
void vk_fd_narrow(void);

#endif
