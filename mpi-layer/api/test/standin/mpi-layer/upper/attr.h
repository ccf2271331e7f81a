/*
 * attr.h - a stand-in for tests.
 */
#ifndef BELAY_API_TEST_ATTR_H
#define BELAY_API_TEST_ATTR_H

int attr_copy_all(void *from, void *to);

#endif
