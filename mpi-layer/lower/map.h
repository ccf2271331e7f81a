/*
 * map.h - the address map of a rank: where the upper half's parts and the fixed lower pages lie.
 *
 * All memory is saved but the windows of the lower half (common/image/layout.h). Every launch makes the gate
 * page and the page of code of the lower half anew, at addresses that the saved half knows.
 */
#ifndef BELAY_MPI_LAYER_LOWER_MAP_H
#define BELAY_MPI_LAYER_LOWER_MAP_H

#include "common/image/layout.h"

#define MAP_PAGE_BYTES 4096ul

#define LOWER_FIXED 0x15f000000000ul
#define LOWER_FIXED_END 0x15f100000000ul
#define GATE_ADDRESS 0x15f000000000ul /* struct gate, not saved */
#define VDSO_ADDRESS 0x15f000100000ul /* belay-vdso.so, not saved, same content after a restart */
#define VDSO_BYTES (2 * MAP_PAGE_BYTES)

#define VK_ADDRESS 0x160000000000ul /* struct vk and, behind it, its tables */
#define VK_BYTES 0x10000ul
#define VK_ARENA_ADDRESS 0x160001000000ul  /* blocks of threads and records, grown in chunks */
#define VK_TRAVEL_ADDRESS 0x160020000000ul /* contents of files (travel.h) */
#define VK_ARENA_END 0x160040000000ul
#define UPPER_TRAMPOLINES 0x160040000000ul /* within 2 GiB of every library */
#define UPPER_TRAMPOLINES_END 0x160080000000ul
#define UPPER_FILES 0x160080000000ul /* program, ld.so, libraries, mapped files */
#define UPPER_FILES_END 0x160100000000ul
#define UPPER_BRK 0x161000000000ul
#define UPPER_BRK_END 0x168000000000ul
#define UPPER_STACK_TOP 0x16f000000000ul
#define UPPER_STACK_FLOOR 0x168000000000ul
#define UPPER_ANON 0x170000000000ul
#define UPPER_ANON_END UPPER_END
/* For MAP_32BIT, as the kernel does. Programs that are not position independent lie below, with their heap.
 */
#define UPPER_LOW 0x40000000ul
#define UPPER_LOW_MAP_END 0x80000000ul
/* For mappings that are larger than the areas above: reservations of address space. */
#define UPPER_WIDE UPPER_END
#define UPPER_WIDE_END 0x550000000000ul
/* When UPPER_WIDE is full, too: between the windows, and below them, behind the heaps of programs that lie
 * there. */
#define UPPER_HIGH 0x550000000000ul
#define UPPER_HIGH_END LAYOUT_END
#define UPPER_DEEP 0x1000000000ul
#define UPPER_DEEP_END LOWER_FIXED

#endif
