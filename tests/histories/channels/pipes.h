/*
 * pipes.h - which end of a pipe, of a pair of sockets or of a terminal a descriptor is.
 */
#ifndef BELAY_TESTS_HISTORIES_CHANNELS_PIPES_H
#define BELAY_TESTS_HISTORIES_CHANNELS_PIPES_H

/* struct descriptor's tag. */
enum pipe_tag { TAG_NONE = 0, TAG_READ, TAG_WRITE, TAG_MASTER, TAG_SLAVE, TAG_PACKETS };

#endif
