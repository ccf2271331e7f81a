/*
 * handle.h - a stand-in for tests.
 */
#ifndef BELAY_API_TEST_HANDLE_H
#define BELAY_API_TEST_HANDLE_H

#include "mpi-layer/api/predefined.h"

void *handle_new(enum handle_kind kind, void *real);
void handle_release(enum handle_kind kind, void *handle);

#endif
