/*
 * muffle - executes what its arguments say with all that a process hands on of its signals: all are blocked,
 * three are ignored, one is pending, and an alarm is set for later.
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static const int ignored[] = {SIGQUIT, SIGUSR1, SIGTSTP};
    sigset_t all;
    if (argc < 2)
        return 2;
    for (int i = 0; i < 3; i++)
        signal(ignored[i], SIG_IGN);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    sigqueue(getpid(), SIGRTMIN + 5, (union sigval){.sival_int = 5});
    alarm(3600);
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 1;
}
