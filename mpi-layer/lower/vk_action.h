/*
 * vk_action.h - the application's signal actions: as it has set them, and as the kernel holds them.
 * Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_ACTION_H
#define BELAY_MPI_LAYER_LOWER_VK_ACTION_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/lower/gate.h"

static inline bool vk_action_is_handler(uint64_t handler)
{
    return handler != (uint64_t)SIG_DFL && handler != (uint64_t)SIG_IGN;
}

long vk_sigaction(long signal, const uint64_t *action, uint64_t *old, long set_bytes);
/* Tell the kernel an action for a signal, with our wrapper in place of a handler. */
long vk_action_set(long signal, const struct vk_action *action);
/* Tell the kernel an action of the application again. */
void vk_action_renew(int signal);
/* Note which signals the process has been started with as ignored, and which of ours as blocked. */
void vk_actions_adopt(void);
/* Restart: set every action again that the application has set or was started with. */
void vk_actions_restore(void);
/* A forked child's CONTROL_SIGNAL is as the application believes it to be; `mask` is what it goes on with. */
void vk_actions_become_child(uint64_t *mask);
/* Our own handlers: of the filter, and of CONTROL_SIGNAL in a rank (trap.c). All signals are blocked. */
void vk_actions_install(void);

/*
 * Before execve(): the two signals of Belay are ignored or not, as the application has set them, so that the
 * new program finds them so. Returns which of them are to be blocked. If the execve fails,
 * vk_actions_install() puts our handlers back.
 */
uint64_t vk_actions_leave(void);

/* Addresses of functions in the page of code (vdso.S), found by the launcher. */
extern uint64_t vk_wrap_address, vk_signal_address, vk_restorer_address, vk_resignal_address;
extern uint64_t vk_start_address;       /* of __vdso_belay_start */
extern uint64_t vk_wrap_inside_address; /* where the wrapper has entered the virtual kernel */
/* Has the kernel made the frame of a handler's signal, and has the wrapper not entered the virtual kernel
 * yet? */
bool vk_action_is_before_handler(uint64_t rip);

#endif
