/*
 * exit_codes.h - the exit codes that are Belay's own. man/belay.1 and cmd/README.md have the same table.
 *
 * `belay run` and `belay restart` otherwise exit with the program's status (128 + signal if a signal ended
 * the launcher). Where sysexits.h has a fitting meaning its number is used; programs rarely exit with these.
 */
#ifndef BELAY_CMD_EXIT_CODES_H
#define BELAY_CMD_EXIT_CODES_H

enum exit_code {
    EXIT_OK = 0,
    EXIT_USAGE = 64,       /* the command line, a setting or a request was refused */
    EXIT_NO_JOB = 66,      /* there is no such job, or no line to restart from */
    EXIT_NO_AGENT = 69,    /* the agent cannot be started or reached, or the installation cannot be used */
    EXIT_INTERNAL = 70,    /* Belay itself failed (out of memory, fork, ...) */
    EXIT_NO_LINE = 74,     /* checkpoint: no line was committed; verify: not all could be compared */
    EXIT_EXHAUSTED = 75,   /* the job was lost, and restarts are used up, or nodes or images lack */
    EXIT_STOPPED = 76,     /* the job was ended by `belay stop` */
    EXIT_REFUSED = 77,     /* a rank or an image was refused (other binary, libc, rank count, memory ...) */
    EXIT_INCOMPLETE = 78,  /* doctor: something that Belay needs is missing */
    EXIT_CRASH_LOOP = 79,  /* the same rank died of the same signal twice, no line committed in between */
    EXIT_FILES = 80,       /* files could not be put back: the job is held for another `belay restart` */
    EXIT_DIFFERS = 81,     /* verify: what is held is not what was committed */
    EXIT_HALTED = 82,      /* the job was ended at a line by a --halt option, and its images are kept */
    EXIT_CANNOT_RUN = 126, /* the launcher is there but cannot be executed */
    EXIT_NOT_FOUND = 127,  /* the launcher was not found */
    EXIT_SIGNAL = 128,     /* plus the signal's number */
};

#endif
