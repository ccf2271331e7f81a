/*
 * root - the root of an image: how long its hash takes, and copying as many bytes of memory in the same
 * process.
 *
 * usage: root MIB
 *
 * Prints "copy NS" and "root NS", five times in turn. The image has MIB of pages, all with content.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/image/root.h"

#define ROUNDS 5
#define MIB (1ul << 20)
#define FIRST UPPER_BASE

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void *map(size_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* -1 with err. */
static int make_image(const uint8_t *memory, size_t bytes, struct belay_error *err)
{
    struct image_run run = {FIRST, bytes, image_offset(FIRST)};
    struct run_set runs = {.runs = &run, .count = 1};
    const struct image_pages pages = {.runs = &runs};
    const struct image_header header = {.line = 1, .ranks = 1};
    const struct image_region region = {.start = FIRST, .end = FIRST + bytes, .kind = IMAGE_REGION_ANON};
    struct image_writer *writer = image_writer_create();
    int fd = image_make_memfd(err), rc = fd;
    if (!writer || image_writer_add_region(writer, &region, NULL) < 0)
        rc = belay_error_set(err, ENOMEM, "no memory for the tables");
    for (size_t done = 0; rc >= 0 && done < bytes; done += MIB)
        rc = image_write_pages(fd, FIRST + done, memory + done, MIB, err);
    if (rc >= 0)
        rc = image_writer_finish(writer, &pages, &header, fd, IMAGE_PAGE_BYTES, err);
    image_writer_destroy(writer);
    return rc < 0 ? -1 : fd;
}

int main(int argc, char **argv)
{
    struct belay_error err = {0};
    struct digest root;
    size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 64) * MIB;
    uint8_t *from = map(bytes), *to = map(bytes);
    if (!from || !to) {
        fprintf(stderr, "root: no memory\n");
        return 1;
    }
    for (size_t i = 0; i < bytes; i += sizeof i)
        memcpy(from + i, &i, sizeof i);
    int fd = make_image(from, bytes, &err);
    for (int round = 0; fd >= 0 && round < ROUNDS; round++) {
        double begin = now_ns();
        memcpy(to, from, bytes);
        double copied = now_ns();
        if (root_of_image(fd, -1, &root, &err) < 0)
            fd = -1;
        printf("copy %.0f\nroot %.0f\n", copied - begin, now_ns() - copied);
    }
    if (fd < 0)
        fprintf(stderr, "root: %s\n", err.text);
    return fd < 0;
}
