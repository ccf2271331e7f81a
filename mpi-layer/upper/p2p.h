/* p2p.h - starting the communication of a request. */
#ifndef BELAY_MPI_LAYER_UPPER_P2P_H
#define BELAY_MPI_LAYER_UPPER_P2P_H

#include "mpi-layer/upper/request.h"

/* Post a receive to the library, also again after a restart. Returns the MPI code, which has been raised. */
int p2p_post(struct request *request);

/* What is to be known of the library, at the start (after MPI_Init) and after a restart. */
void p2p_bind(void);

/* Does this library receive later what has been matched (MPI_Improbe), whatever comes in between? */
bool p2p_keeps_matched(void);

/* Start an active receive: a drained message that matches completes it, or it is posted. The same returns. */
int p2p_start_receive(struct request *request);

/*
 * Start an active send in a mode that is not buffered. It is done on return if the library completed it at
 * once. The same returns.
 */
int p2p_start_send(struct request *request, enum send_mode mode);

#endif
