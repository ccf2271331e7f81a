/* belay - the command: finds the subcommand and hands over. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/slurm_job.h"
#include "common/conf/conf.h"
#include "common/util/log.h"
#include "config.h"

/* In the order of `belay --help`. */
static const struct command *const commands[] = {
    &command_run,   &command_checkpoint, &command_status,  &command_top,    &command_list,   &command_stop,
    &command_clean, &command_restart,    &command_inspect, &command_verify, &command_advise, &command_doctor,
};

#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(commands[i]->name, name))
            return commands[i];
    return NULL;
}

/* Output that could not be written is a failure of a command that has else succeeded. */
static int finish_output(int code)
{
    if (!fflush(stdout) && !ferror(stdout))
        return code;
    log_error("standard output cannot be written");
    return code == EXIT_OK ? EXIT_INTERNAL : code;
}

static int print_overview(void)
{
    puts("Usage: belay COMMAND [options]\n\n"
         "Coordinated checkpoints for unmodified MPI programs, held in memory.\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-12s %s\n", commands[i]->name, commands[i]->summary);
    puts("\n'belay help COMMAND' explains one, 'belay help settings' lists the environment variables.");
    return finish_output(EXIT_OK);
}

static int print_settings(void)
{
    puts("Settings, looked up as option of a command, then in the environment:\n");
    conf_print(stdout);
    return finish_output(EXIT_OK);
}

static int print_command_help(const struct command *command)
{
    char name[64];
    snprintf(name, sizeof name, "belay %s", command->name);
    argp_help(command->argp, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK, name);
    return finish_output(EXIT_OK);
}

static int unknown_command(const char *name)
{
    log_error("there is no command '%s' ('belay --help' lists them)", name);
    return EXIT_USAGE;
}

static int help(const char *subject)
{
    const struct command *command = subject ? find_command(subject) : NULL;
    if (!subject)
        return print_overview();
    if (!strcmp(subject, "settings"))
        return print_settings();
    return command ? print_command_help(command) : unknown_command(subject);
}

/* Is there a --help among our own words (before "--" or the command to run)? */
static int wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--help"))
            return 1;
    return 0;
}

/*
 * A standard descriptor that is closed would be given to the next thing opened, the agent's socket for one,
 * and be written to. Closed output is output that cannot be written, as in other commands.
 */
static int fill_standard_descriptors(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    return fd < 0 ? -1 : close(fd);
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    if (fill_standard_descriptors())
        return EXIT_INTERNAL;
    if (!word) {
        log_error("which command? ('belay --help' lists them)");
        return EXIT_USAGE;
    }
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help"))
        return help(argc > 2 ? argv[2] : NULL);
    if (!strcmp(word, "--version")) {
        puts(PACKAGE_STRING);
        return finish_output(EXIT_OK);
    }
    const struct command *command = find_command(word);
    if (!command)
        return unknown_command(word);
    if (wants_help(argc - 1, argv + 1))
        return print_command_help(command);
    int code = command->takes_slurm_job ? slurm_job_route(command->argp, argc - 1, argv + 1) : -1;
    return finish_output(code >= 0 ? code : command->run(argc - 1, argv + 1));
}
