/* process.c - see process.h. */
#include "mpi-layer/lower/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/util/mounts.h"
#include "mpi-layer/lower/clock.h"
#include "mpi-layer/lower/fd_note.h"
#include "mpi-layer/lower/fd_restore.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/special.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_id.h"
#include "mpi-layer/lower/vk_thread.h"
#include "mpi-layer/lower/vk_timer.h"

/* All of ours are closed by exec; what has come through it is the program's. */
static void adopt_fd(int fd)
{
    int flags = fcntl(fd, F_GETFD);
    if (!vk_fd_is_lower(fd) && flags >= 0 && !(flags & FD_CLOEXEC))
        vk_fd_find(fd);
}

void process_adopt_fds(void)
{
    fd_note_launch();
    fd_for_each(adopt_fd);
}

void process_note(void)
{
    vk_note_threads();
    fd_note_all();
    special_note_shares();
    fd_note_library();
    if (!getcwd(VK->cwd, sizeof VK->cwd) || file_id_at(AT_FDCWD, ".", &VK->cwd_id) < 0)
        VK->cwd[0] = 0;
    VK->noted_pid = (uint32_t)getpid();
    vk_ids_note();
    VK->ids_host = mounts_host();
    VK->umask = umask(0);
    umask((mode_t)VK->umask);
    clock_note(); /* last: a timer may come late after a restart, never early */
}

int process_restore_fds(int parcel, struct belay_error *err)
{
    return fd_restore_all(parcel, err);
}

void process_free_numbers(void)
{
    fd_restore_end();
}

int process_restore_timers(struct belay_error *err)
{
    umask((mode_t)VK->umask);
    fd_restore_late();
    if (!vk_timers_restore())
        return belay_error_set(err, EAGAIN, "cannot make the program's timers again (timer_create)");
    /* Its signal was pending, and the kernel starts the next interval when that is taken: now. */
    struct itimerval *real = (struct itimerval *)VK->itimers[ITIMER_REAL];
    if (!real->it_value.tv_sec && !real->it_value.tv_usec)
        real->it_value = real->it_interval;
    for (int which = 0; which < 3; which++)
        setitimer((__itimer_which_t)which, (struct itimerval *)VK->itimers[which], NULL);
    return 0;
}
