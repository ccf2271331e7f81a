/*
 * host_line.h - mpirun lines for a job on several hosts, made of the user's: one that tells where its ranks
 * would run, one that starts a process on one host, and one that runs ranks on given hosts. Pure functions;
 * lists are freed with string_list_free(), NULL with errno (ENOMEM, EINVAL).
 */
#ifndef BELAY_CMD_HOST_LINE_H
#define BELAY_CMD_HOST_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * May the line run ranks on other hosts than this one, which has this name? True if mpirun gets names of
 * others, a file with names, or a Slurm allocation of several nodes.
 */
bool host_line_is_wide(char *const argv[], char *const environment[], const char *own_name);

/* The hosts that the line names, for messages; "" if it names none. */
void host_line_names(char *const argv[], char *names, size_t bytes);

/* As the user's line, but that each process runs `words`. */
char **host_line_where(char *const argv[], char *const words[]);
/* One process on each host that the line may use, which runs `words`. EINVAL: it has several contexts. */
char **host_line_spread(char *const argv[], char *const words[]);
/* One process on a host that runs `words`. */
char **host_line_start(char *const argv[], const char *host, char *const words[]);
/* The user's line with rank r on hosts[r], of so many ranks. EINVAL: a context does not tell how many it has.
 */
char **host_line_place(char *const argv[], char *const hosts[], uint32_t ranks);

#endif
