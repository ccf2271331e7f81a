/*
 * tools.h - profilers that the program is linked with. Their functions of MPI come before the library's in
 * the order of search, and have to come before ours, which is preloaded and so would be the first.
 */
#ifndef BELAY_MPI_LAYER_ENTRY_TOOLS_H
#define BELAY_MPI_LAYER_ENTRY_TOOLS_H

/*
 * Set BELAY_LINKED_TOOLS to the program's libraries that lie before libmpi and define functions of MPI, in
 * their order, separated by spaces. belay-launch preloads them before our libmpi. The run-time of
 * AddressSanitizer comes first, if the program has it.
 */
void tools_export(void);

#endif
