/*
 * outcome.h - what the end of a launch means for the job: it is over, and how, or it goes on with another
 * launch.
 */
#ifndef BELAY_CMD_OUTCOME_H
#define BELAY_CMD_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/states.h"
#include "coord/verdict.h"

struct outcome {
    bool is_over;
    enum job_state final_state;
    bool keep_images;
    int exit_code;
};

/* What it is judged from; all is borrowed. */
struct outcome_case {
    const char *name;
    char *const *argv;    /* of the launcher */
    const char *launched; /* what that was told to run */
    uint32_t restarts;    /* done so far */
    uint64_t max_restarts;
    int wait_status;
    uint64_t newest_line; /* a restart would come from here; 0: the start */
};

/* Each says to the user, as a message, what has become of the job. */
struct outcome outcome_of_verdict(const struct outcome_case *of, const struct verdict *verdict);
struct outcome outcome_of_lost_agent(const struct outcome_case *of);
/* Belay has ended the launch itself, for this reason. */
struct outcome outcome_of_trouble(const struct outcome_case *of, const char *reason);
/* ... at a line, as the user wants it; the images are kept. */
struct outcome outcome_of_halt(const struct outcome_case *of, const char *reason);
struct outcome outcome_of_stop(const struct outcome_case *of);
/* Belay itself was ended by this signal. */
struct outcome outcome_of_signal(int number);

/* Where a restart begins, in words. */
const char *outcome_place(uint64_t line, char text[48]);

#endif
