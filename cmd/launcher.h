/*
 * launcher.h - the launchers that can run ranks on several hosts: what belay has to know of each.
 */
#ifndef BELAY_CMD_LAUNCHER_H
#define BELAY_CMD_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lists are freed with string_list_free(); NULL with errno (ENOMEM, EINVAL). argv is the user's line. */
struct launcher {
    const char *name;
    /*
     * A relay stays with the launcher that has started it: Slurm ends what a step has left behind. Otherwise
     * it goes to the background, and its launcher ends.
     */
    bool has_relays;
    /* It waits for a lost host, until somebody else finds that it is lost. */
    bool waits_for_lost;
    /* May ranks run on other hosts than this one, which has this name? */
    bool (*is_wide)(char *const argv[], char *const environment[], const char *own_name);
    /* The hosts that the line names, for messages; "" if it names none. */
    void (*names)(char *const argv[], char *names, size_t bytes);
    /* As the user's line, but that each process runs `words`. */
    char **(*where)(char *const argv[], char *const words[]);
    /* One process on each host that the line may use. EINVAL: it has several programs. */
    char **(*spread)(char *const argv[], char *const environment[], char *const words[]);
    /* One process on a host. */
    char **(*start)(char *const argv[], const char *host, char *const words[]);
    /* The user's line with rank r on hosts[r]. */
    char **(*place)(char *const argv[], char *const hosts[], uint32_t ranks);
};

/* NULL: this program is none of them: it is a script, or something else that runs on one host. */
const struct launcher *launcher_of(const char *program);

#endif
