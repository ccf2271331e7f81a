/* file_token_test.c - copies of a file have one token, other files have others; damaged ones do no harm. */
#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/image/file_token.h"

#define LIMIT (1u << 20)

static int make_file(const void *bytes, size_t count)
{
    int fd = memfd_create("file", MFD_CLOEXEC);
    assert_int_equal(write(fd, bytes, count), (ssize_t)count);
    return fd;
}

/* Closes fd. */
static uint64_t token_and_close(int fd)
{
    uint64_t bytes_read = 0, token = file_token(fd, LIMIT, &bytes_read);
    close(fd);
    return token;
}

/* An ELF file whose only segment holds notes: one of somebody else's, and a build id. */
struct elf {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    Elf64_Nhdr other;
    char other_name[8], other_text[4];
    Elf64_Nhdr note;
    char name[4];
    uint8_t id[20];
    char rest[100];
};

static struct elf make_elf(uint8_t id)
{
    struct elf elf = {
        .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                   .e_phoff = offsetof(struct elf, segment),
                   .e_phentsize = sizeof(Elf64_Phdr),
                   .e_phnum = 1},
        .segment = {.p_type = PT_NOTE,
                    .p_offset = offsetof(struct elf, other),
                    .p_filesz = offsetof(struct elf, rest) - offsetof(struct elf, other)},
        .other = {.n_namesz = 6, .n_descsz = 4, .n_type = NT_GNU_BUILD_ID},
        .other_name = "Other",
        .note = {.n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID},
        .name = "GNU",
    };
    memset(elf.id, id, sizeof elf.id);
    return elf;
}

static uint64_t token_of(const struct elf *elf)
{
    return token_and_close(make_file(elf, sizeof *elf));
}

static void a_program_is_known_by_its_build_id(void **state)
{
    (void)state;
    struct elf elf = make_elf(7), stripped = make_elf(7), other = make_elf(8);
    uint8_t id[BUILD_ID_BYTES];
    memset(stripped.rest, 1, sizeof stripped.rest);
    assert_int_equal(token_of(&elf), token_of(&stripped));
    assert_int_not_equal(token_of(&elf), token_of(&other));
    int fd = make_file(&elf, sizeof elf);
    assert_int_equal(build_id_read(fd, id), sizeof elf.id);
    assert_memory_equal(id, elf.id, sizeof elf.id);
    close(fd);
}

static void contents_are_compared_without_a_build_id(void **state)
{
    (void)state;
    static char bytes[100000];
    uint64_t token = token_and_close(make_file(bytes, sizeof bytes));
    assert_int_not_equal(token, FILE_TOKEN_NONE);
    assert_int_equal(token_and_close(make_file(bytes, sizeof bytes)), token);
    assert_int_not_equal(token_and_close(make_file(bytes, sizeof bytes - 1)), token);
    bytes[sizeof bytes - 1] = 1;
    assert_int_not_equal(token_and_close(make_file(bytes, sizeof bytes)), token);
}

static void what_is_too_long_is_not_read(void **state)
{
    (void)state;
    uint64_t bytes_read = 0;
    int fd = make_file("0123456789", 10);
    assert_int_equal(file_token(fd, 9, &bytes_read), FILE_TOKEN_NONE);
    assert_int_equal(bytes_read, 0);
    assert_int_not_equal(file_token(fd, 10, &bytes_read), FILE_TOKEN_NONE);
    assert_int_equal(bytes_read, 10);
    close(fd);
    fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    assert_int_equal(file_token(fd, LIMIT, &bytes_read), FILE_TOKEN_NONE);
    close(fd);
}

/* Whatever a header says, only what is there is read; and each file has a token of some kind. */
static void damaged_programs_do_no_harm(void **state)
{
    (void)state;
    srand(1);
    for (int i = 0; i < 20000; i++) {
        struct elf elf = make_elf(7);
        size_t used = (size_t)rand() % sizeof elf + 1;
        for (int flips = rand() % 4; flips >= 0; flips--)
            ((uint8_t *)&elf)[(size_t)rand() % offsetof(struct elf, rest)] = (uint8_t)rand();
        assert_int_not_equal(token_and_close(make_file(&elf, used)), FILE_TOKEN_NONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_known_by_its_build_id),
        cmocka_unit_test(contents_are_compared_without_a_build_id),
        cmocka_unit_test(what_is_too_long_is_not_read),
        cmocka_unit_test(damaged_programs_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
