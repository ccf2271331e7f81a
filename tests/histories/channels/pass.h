/*
 * pass.h - descriptors that travel through sockets.
 */
#ifndef BELAY_TESTS_HISTORIES_CHANNELS_PASS_H
#define BELAY_TESTS_HISTORIES_CHANNELS_PASS_H

/* Send it by SCM_RIGHTS, or receive one; -1 with errno. */
int pass_send(int socket, int fd);
int pass_receive(int socket);

/* Through a pair of sockets that is made for it: another number for the same. */
int pass_to_oneself(int fd);

#endif
