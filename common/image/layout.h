/*
 * layout.h - which addresses of a rank belong to the upper half, the part of the process that is saved.
 *
 * The high range is one that no x86-64 address layout of Linux uses: the mmap area begins below the stack
 * (0x7fff…) or, under `ulimit -s unlimited`, at a sixth of the address space (0x1555…), both growing down,
 * or in the legacy layout at a third (0x2aaa…), growing up; executables lie at 0x5555…, AddressSanitizer's
 * shadow ends at 0x1000…. So it needs no reservation, and a program that the application executes never
 * lies in it. The low range serves non-PIE executables and MAP_32BIT.
 */
#ifndef BELAY_COMMON_IMAGE_LAYOUT_H
#define BELAY_COMMON_IMAGE_LAYOUT_H

#define UPPER_LOW_END 0x80000000ull  /* [0, 2 GiB) */
#define UPPER_BASE 0x160000000000ull /* [UPPER_BASE, UPPER_END) */
#define UPPER_END 0x1e0000000000ull

#endif
