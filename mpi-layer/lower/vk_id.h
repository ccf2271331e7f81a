/*
 * vk_id.h - process ids: those that the application knows, and the kernel's. Freestanding, like vk.h.
 *
 * A program may keep its process id and compare it later (asyncio and ZeroMQ do, to notice a fork), or keep
 * its parent's, or another rank's to send it signals. So the ids that a process knew stay what they were, and
 * the kernel's, which are new after a restart, stand behind them. Other processes know the kernel's.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_ID_H
#define BELAY_MPI_LAYER_LOWER_VK_ID_H

#include <stdbool.h>
#include <stdint.h>

struct vk_id;

/* The kernel's id of a process that the application names, and the other way round; others stay. */
long vk_id_kernel(long known);
long vk_id_known(long kernel);
/* The same where a negative number names a process group (kill, F_SETOWN); 0 and -1 stay. */
long vk_id_kernel_signed(long known);
long vk_id_known_signed(long kernel);

/* The same of a thread of this process, or else of a process. */
long vk_kernel_tid(long known);
long vk_known_tid(long kernel);
long vk_tgkill_tid(long pid, long tid); /* for tgkill(2): pid is the kernel's, tid the application's */
long vk_tgkill(long pid, long tid, long signal);

/* Calls that are about process ids, with arguments as wide as the kernel's (vk_syscall.c has the list). */
long vk_id_syscall(long nr, long a, long b, long c, long d, long e, long f);
/* fcntl(2) whose command is about the owner of a file or of a lock. */
bool vk_id_is_control(long command);
long vk_id_control(long fd, long command, long argument);
/* The same by ioctl(2): who gets a descriptor's signals, and who a terminal's. The requests end with zero. */
extern const unsigned vk_id_ioctls[];
bool vk_id_is_ioctl(long nr, long request);
long vk_id_ioctl(long fd, long request, long argument);
/* siginfo_t of a signal that has come: its sender as the application knows it; and as the kernel does. */
void vk_id_rename_sender(void *info);
void vk_id_rename_sender_back(void *info);

/*
 * Another program is executed with these arguments: if a rank's process id is among them, one line says that
 * other programs know the process by a new one.
 */
void vk_id_look_for_own(char *const *arguments);

/* At the first launch and at each line: note whom the process knows. After a restart: these are others now.
 */
void vk_ids_note(void);
void vk_ids_renew(void);
/*
 * After a restart: ids of the ranks that were on this process's host, as each knew itself, and the kernel's;
 * of one that is on another host now, an id that no process has. An id that two of them had names nobody. The
 * list is copied. False: no memory.
 */
#define VK_ID_NOWHERE 0x7fffffffu
bool vk_ids_set_peers(const struct vk_id *peers, uint64_t count);

#endif
