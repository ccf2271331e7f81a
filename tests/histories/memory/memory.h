/*
 * memory.h - operations on areas that are in files of their own.
 */
#ifndef BELAY_TESTS_HISTORIES_MEMORY_MEMORY_H
#define BELAY_TESTS_HISTORIES_MEMORY_MEMORY_H

/* memory_advice.c */
void memory_advise(void);
void memory_free(void);
void memory_lock(void);
void memory_lock_all(void);

/* memory_move.c */
void memory_grow(void);
void memory_grow_in_place(void);
void memory_shrink(void);
void memory_move(void);
void memory_move_keep(void);

#endif
