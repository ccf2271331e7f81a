/*
 * kernel_ids.h - what the files of kernel_ids share: whose id is one, and the questions of its table. Each
 * returns the same as long as nothing is wrong; FAILED and more is an error.
 */
#ifndef BELAY_TESTS_PROGRAMS_KERNEL_IDS_H
#define BELAY_TESTS_PROGRAMS_KERNEL_IDS_H

#include <sys/types.h>
#include <sys/un.h>

enum whose { NOBODY, SELF, HELPER, PARENT, GROUP, SESSION, PEER, CHILD, A_STRANGER, FAILED = 1000 };

struct kernel_ids {
    pid_t self, helper, parent, group, session, peer; /* helper: a thread; peer: the next rank */
    int pair[2], listener, asynchronous[2];
    struct sockaddr_un address; /* of the listener */
};
extern struct kernel_ids ids;

long whose(pid_t id);
long failed(void); /* by errno */
/* What the other thread answers; it begins with helper_start() and is waited for by helper_end(). */
long on_helper(long (*task)(void));
void helper_start(long (*task)(void));
long helper_end(void);

/* kernel_ids_sockets.c */
long peer_of(int fd);
long credentials(void);
long own_credentials(void);
long many_credentials(void);
long pair_peer(void);
long connection_peer(void);
long socket_group(void);
long group_owner(void);

/* kernel_ids_mutexes.c: their words hold the owner's id */
void mutexes_make(void);
long held_mutexes(void);
long contended_mutex(void);
long abandoned_mutex(void);

#endif
