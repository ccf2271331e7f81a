/*
 * reporter - tells what a program is given at its start: arguments, environment, descriptors, signals,
 * limits. Printed to standard output. Linked with nothing of MPI.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_NUMBER 300
#define LAST_NUMBER 345

static void report_descriptors(void)
{
    for (int fd = FIRST_NUMBER; fd < LAST_NUMBER; fd++) {
        struct stat stat;
        if (fcntl(fd, F_GETFD) >= 0 && fstat(fd, &stat) == 0)
            printf(" %d:%o:%x", fd, stat.st_mode & S_IFMT,
                   (unsigned)fcntl(fd, F_GETFL) & ~(unsigned)(O_NOFOLLOW | O_TMPFILE));
    }
}

static void report_signals(void)
{
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int number = 1; number <= SIGRTMIN + 5; number++) {
        struct sigaction action;
        if (number == SIGSYS || sigaction(number, NULL, &action))
            continue;
        if (sigismember(&mask, number) == 1)
            printf(" blocked %d", number);
        if (action.sa_handler == SIG_IGN)
            printf(" ignored %d", number);
    }
}

int main(int argc, char **argv)
{
    mode_t mask = umask(0);
    struct rlimit limit;
    getrlimit(RLIMIT_CORE, &limit);
    printf("%s %s", argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "HISTORY_%d", i);
        printf(" %s", getenv(name) ? getenv(name) : "-");
    }
    printf(" umask %o core %llx", mask, (unsigned long long)limit.rlim_cur);
    report_descriptors();
    report_signals();
    printf("\n");
    return 0;
}
