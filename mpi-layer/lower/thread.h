/*
 * thread.h - carriers: every thread of the application runs on a thread of the lower libc, which gives it
 * thread-local storage in both halves.
 */
#ifndef BELAY_MPI_LAYER_LOWER_THREAD_H
#define BELAY_MPI_LAYER_LOWER_THREAD_H

#include "common/util/error.h"
#include "mpi-layer/lower/gate.h"

/* Make the calling thread (the process's first) the main thread of the application: block, GS base. */
int thread_adopt_main(struct belay_error *err);

/*
 * Start the application's new thread in `thread` (start_rip, start_rsp, start_regs, upper_fs, masks are
 * set). Lower FS. Returns its virtual id, or -errno (the block is freed).
 */
long thread_start(struct thread *thread);

/* End the calling thread of the application. Any FS; does not return. */
void thread_exit(void) __attribute__((noreturn));

/*
 * Restart: make carriers for all live threads of the restored image but the main one, then let them go on
 * from their contexts (they are parked there until the upper half releases them). Lower FS.
 */
int thread_resume_all(struct belay_error *err);

/* Restart: the calling thread becomes the restored image's main thread and goes on. Does not return. */
void thread_resume_main(void) __attribute__((noreturn));

#endif
