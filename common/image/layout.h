/*
 * layout.h - which addresses of a rank belong to the upper half, the part of the process that is saved.
 *
 * The high range lies between the places that every x86-64 address layout uses (legacy mmap from 0x2aaa…,
 * executables at 0x5555…, mmap and stack at 0x7…), so it needs no reservation. The low range serves
 * non-PIE executables and MAP_32BIT. The rest of the map is the mpi-layer's (mpi-layer/lower/map.h).
 */
#ifndef BELAY_COMMON_IMAGE_LAYOUT_H
#define BELAY_COMMON_IMAGE_LAYOUT_H

#define UPPER_LOW_END 0x80000000ull  /* [0, 2 GiB) */
#define UPPER_BASE 0x120000000000ull /* [UPPER_BASE, UPPER_END) */
#define UPPER_END 0x1a0000000000ull

#endif
