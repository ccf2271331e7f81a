/*
 * processor.h - what a program may have found out about this machine's processors.
 *
 * A restored program goes on with code that was chosen for the processors it began on, and with registers
 * that the kernel has saved in their layout. So it goes on where both are the same.
 */
#ifndef BELAY_COMMON_UTIL_PROCESSOR_H
#define BELAY_COMMON_UTIL_PROCESSOR_H

#include <stdint.h>

/*
 * A digest of the instructions that programs may use, and of the layout of XSAVE (Intel, Software Developer's
 * Manual, volume 1, sections 13.4 and 20.1.4; AMD, Architecture Programmer's Manual, volume 3, appendix E).
 * Equal on machines that are alike in both, whatever their model, speed or microcode; never 0.
 */
uint64_t processor_kind(void);

#endif
