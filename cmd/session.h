/*
 * session.h - the session folder of an mpirun, TMPDIR/ompi.NODE.UID/pid.PID.
 *
 * mpirun removes its folder when it ends. One that was killed, or that has crashed over a signal, leaves the
 * folder behind, with the memory of its PMIx server. The agent removes the folder of a launcher whose ranks
 * have come (remains.h of the agent); belay and its guard that of a launcher which they have started, whether
 * ranks had come or not.
 */
#ifndef BELAY_CMD_SESSION_H
#define BELAY_CMD_SESSION_H

#include <sys/types.h>

/* The folder above the session folders of an mpirun with these words and variables; into them, or static. */
const char *session_base(char *const *argv, char *const *environment);

/*
 * Remove the session folder of the process `launcher`, which has ended, and the folder above it if that is
 * empty then. Only what belongs to our user is removed; symbolic links are not followed below `base`. Nothing
 * happens if there is no such folder.
 */
void session_remove(const char *base, pid_t launcher);

#endif
