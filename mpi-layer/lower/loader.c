/* loader.c - see loader.h. What execve(2) and binfmt_elf do, for an address range of our choice. */
#include "mpi-layer/lower/loader.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_memory.h"
#include "mpi-layer/lower/vk_patch.h"

#define MAX_AUXV 64
#define STACK_INITIAL_BYTES (256ul << 10)

static int read_headers(int fd, const char *path, Elf64_Ehdr *header, Elf64_Phdr **segments,
                        struct belay_error *err)
{
    if (pread(fd, header, sizeof *header, 0) != sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG))
        return belay_error_set(err, ENOEXEC, "%s is not an ELF file", path);
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64 ||
        header->e_phentsize != sizeof(Elf64_Phdr) || (header->e_type != ET_DYN && header->e_type != ET_EXEC))
        return belay_error_set(err, ENOEXEC, "%s is not an x86-64 executable", path);
    size_t bytes = (size_t)header->e_phnum * sizeof(Elf64_Phdr);
    *segments = malloc(bytes ? bytes : 1);
    if (!*segments || pread(fd, *segments, bytes, (off_t)header->e_phoff) != (ssize_t)bytes) {
        free(*segments);
        return belay_error_set(err, ENOEXEC, "%s has no readable program headers", path);
    }
    return 0;
}

/* The next file goes to a multiple of this, if there is room: data of programs rely on it. */
static void align_next_file(uint64_t align)
{
    if (align > MAP_PAGE_BYTES && !(align & (align - 1)) && align <= UPPER_FILES_END - UPPER_FILES)
        VK->next_file = (VK->next_file + align - 1) & ~(align - 1);
}

/* Reserve the whole span, so that segments keep their distances. Returns the bias, or -1. */
static int reserve_span(int fd, const Elf64_Ehdr *header, const Elf64_Phdr *segments, const char *path,
                        uint64_t *bias, struct belay_error *err)
{
    uint64_t low = UINT64_MAX, high = 0, align = 0;
    for (int i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type != PT_LOAD)
            continue;
        uint64_t start = VK_PAGE_DOWN(segments[i].p_vaddr);
        uint64_t end = VK_PAGE_UP(segments[i].p_vaddr + segments[i].p_memsz);
        low = start < low ? start : low;
        high = end > high ? end : high;
        align = segments[i].p_align > align ? segments[i].p_align : align;
    }
    if (low >= high)
        return belay_error_set(err, ENOEXEC, "%s has nothing to load", path);
    if (header->e_type == ET_DYN) {
        align_next_file(align);
        long at = vk_mmap(0, high - low, PROT_NONE, MAP_PRIVATE, fd, 0);
        if (at < 0)
            return belay_error_set(err, (int)-at, "no room for %s: %s", path, strerror((int)-at));
        *bias = (uint64_t)at - low;
        return 0;
    }
    *bias = 0;
    if (vk_is_reserved(low, high - low))
        return belay_error_set(
            err, EADDRINUSE,
            "%s is linked to lie at 0x%lx, where Belay has its own half of the process; link it "
            "to lie elsewhere, or as a position-independent executable (-pie)",
            path, (unsigned long)low);
    vk_brk_begin(high);
    void *at = mmap((void *)low, high - low, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
    if (at != (void *)low)
        return belay_error_set(err, EADDRINUSE, "the addresses of %s (0x%lx) are taken", path,
                               (unsigned long)low);
    return 0;
}

static int segment_prot(const Elf64_Phdr *segment)
{
    return (segment->p_flags & PF_R ? PROT_READ : 0) | (segment->p_flags & PF_W ? PROT_WRITE : 0) |
           (segment->p_flags & PF_X ? PROT_EXEC : 0);
}

static int map_segment(int fd, const Elf64_Phdr *segment, uint64_t bias)
{
    int prot = segment_prot(segment);
    uint64_t start = bias + VK_PAGE_DOWN(segment->p_vaddr), lead = segment->p_vaddr & (MAP_PAGE_BYTES - 1);
    uint64_t file_end = bias + segment->p_vaddr + segment->p_filesz;
    uint64_t memory_end = bias + segment->p_vaddr + segment->p_memsz;
    if (segment->p_filesz && vk_mmap(start, segment->p_filesz + lead, prot, MAP_PRIVATE | MAP_FIXED, fd,
                                     (long)(segment->p_offset - lead)) < 0)
        return -1;
    if (memory_end <= file_end)
        return 0;
    /* ld.so's first malloc relies on the rest of the last page of data being zero. */
    if ((prot & PROT_WRITE) && segment->p_filesz)
        memset((void *)file_end, 0, VK_PAGE_UP(file_end) - file_end);
    uint64_t zero = segment->p_filesz ? VK_PAGE_UP(file_end) : start;
    if (VK_PAGE_UP(memory_end) > zero && mmap((void *)zero, VK_PAGE_UP(memory_end) - zero, prot,
                                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return -1;
    return 0;
}

/* Go's run-time and some allocators do: of a program outside of the upper range, the filter has to know. */
static void note_own_calls(const Elf64_Phdr *segment)
{
    uint64_t start = VK_PAGE_DOWN(segment->p_vaddr), end = segment->p_vaddr + segment->p_filesz;
    if (!(segment->p_flags & PF_X) || !vk_makes_calls((const uint8_t *)segment->p_vaddr, segment->p_filesz))
        return;
    VK->own_calls[0] = start;
    VK->own_calls[1] = VK_PAGE_UP(end);
}

static bool has_soname(uint64_t dynamic)
{
    for (const Elf64_Dyn *d = (const Elf64_Dyn *)dynamic; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_SONAME)
            return true;
    return false;
}

static int map_all(int fd, const Elf64_Ehdr *header, const Elf64_Phdr *segments, const char *path,
                   struct loaded_elf *elf, struct belay_error *err)
{
    uint64_t bias;
    elf->interpreter[0] = 0;
    elf->phdr = 0;
    elf->has_executable_stack = elf->is_library = false;
    if (reserve_span(fd, header, segments, path, &bias, err))
        return -1;
    for (int i = 0; i < header->e_phnum; i++) {
        const Elf64_Phdr *segment = &segments[i];
        if (segment->p_type == PT_INTERP && segment->p_filesz < sizeof elf->interpreter) {
            ssize_t got = pread(fd, elf->interpreter, segment->p_filesz, (off_t)segment->p_offset);
            elf->interpreter[got > 0 ? got : 0] = 0;
        }
        if (segment->p_type == PT_GNU_STACK) /* without one, the kernel's default is not to be */
            elf->has_executable_stack = segment->p_flags & PF_X;
        if (segment->p_type != PT_LOAD)
            continue;
        if (map_segment(fd, segment, bias))
            return belay_error_errno(err, "cannot map %s", path);
        if (header->e_phoff >= segment->p_offset && header->e_phoff < segment->p_offset + segment->p_filesz)
            elf->phdr = bias + segment->p_vaddr + header->e_phoff - segment->p_offset;
        if (header->e_type == ET_EXEC)
            note_own_calls(segment);
    }
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_DYNAMIC)
            elf->is_library = has_soname(bias + segments[i].p_vaddr);
    elf->bias = bias;
    elf->entry = bias + header->e_entry;
    elf->phnum = header->e_phnum;
    return 0;
}

int loader_map(const char *path, struct loaded_elf *elf, struct belay_error *err)
{
    Elf64_Ehdr header;
    Elf64_Phdr *segments = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return belay_error_errno(err, "cannot open %s", path);
    int result = read_headers(fd, path, &header, &segments, err);
    if (result == 0) {
        result = map_all(fd, &header, segments, path, elf, err);
        free(segments);
    }
    close(fd);
    return result;
}

struct stack {
    char *volatile top; /* grows down; volatile: the compiler knows of no object at that address */
};

static char *push_bytes(struct stack *stack, const void *bytes, size_t count)
{
    stack->top -= count;
    memcpy(stack->top, bytes, count);
    return stack->top;
}

static char *push_string(struct stack *stack, const char *text)
{
    return push_bytes(stack, text, strlen(text) + 1);
}

static size_t count_of(char *const list[])
{
    size_t count = 0;
    while (list[count])
        count++;
    return count;
}

/* Like the kernel's: a mapping that grows down as far as the stack limit lets it. */
static int map_stack(uint64_t needed, bool is_executable, struct belay_error *err)
{
    uint64_t bytes = VK_PAGE_UP(needed + STACK_INITIAL_BYTES);
    int prot = PROT_READ | PROT_WRITE | (is_executable ? PROT_EXEC : 0);
    void *at = mmap((void *)(UPPER_STACK_TOP - bytes), bytes, prot,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_STACK | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == MAP_FAILED)
        return belay_error_errno(err, "cannot map a stack");
    return 0;
}

/* The kernel's vector with the upper half's values put in. Returns the number of words. */
static size_t build_auxv(uint64_t *out, const struct loader_start *start, const char *exec_name,
                         const char *platform, const void *random)
{
    const struct loaded_elf *program = start->program;
    Elf64_auxv_t kernel[MAX_AUXV];
    int fd = open("/proc/self/auxv", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, kernel, sizeof kernel);
    if (fd >= 0)
        close(fd);
    size_t used = 0;
    for (size_t i = 0; i < (size_t)(got > 0 ? got : 0) / sizeof kernel[0]; i++) {
        uint64_t type = kernel[i].a_type, value = kernel[i].a_un.a_val;
        switch (type) {
        case AT_PHDR:
            value = program->phdr;
            break;
        case AT_PHNUM:
            value = program->phnum;
            break;
        case AT_BASE:
            value = start->interpreter_base;
            break;
        case AT_ENTRY:
            value = program->entry;
            break;
        case AT_EXECFN:
            value = (uint64_t)exec_name;
            break;
        case AT_PLATFORM:
            value = (uint64_t)platform;
            break;
        case AT_RANDOM:
            value = (uint64_t)random;
            break;
        case AT_SYSINFO_EHDR:
            value = VDSO_ADDRESS;
            break;
        case 27: /* AT_RSEQ_FEATURE_SIZE, AT_RSEQ_ALIGN: rseq stays the lower half's */
        case 28:
        case AT_NULL:
            continue;
        }
        out[used++] = type;
        out[used++] = value;
    }
    out[used++] = AT_NULL;
    out[used++] = 0;
    return used;
}

static size_t bytes_of(char *const list[])
{
    size_t bytes = 0;
    for (size_t i = 0; list[i]; i++)
        bytes += strlen(list[i]) + 1 + sizeof(char *);
    return bytes;
}

uint64_t loader_build_stack(const struct loader_start *start, struct belay_error *err)
{
    char *const *argv = start->argv, *const *envp = start->envp;
    uint64_t needed = bytes_of(argv) + bytes_of(envp) + strlen(start->name);
    if (map_stack(needed, start->program->has_executable_stack, err))
        return 0;
    struct stack stack = {(char *)UPPER_STACK_TOP - 16};
    uint64_t auxv[2 * MAX_AUXV + 2];
    uint8_t random[16];
    if (getrandom(random, sizeof random, 0) != sizeof random) {
        belay_error_errno(err, "getrandom");
        return 0;
    }
    size_t arguments = count_of(argv), variables = count_of(envp);
    const char *exec_name = push_string(&stack, start->name), *platform = push_string(&stack, "x86_64");
    VK->variables[1] = (uint64_t)stack.top;
    char **pointers = calloc(arguments + variables + 2, sizeof *pointers);
    if (!pointers) {
        belay_error_set(err, ENOMEM, "no memory for the initial stack");
        return 0;
    }
    for (size_t i = variables; i-- > 0;)
        pointers[arguments + 1 + i] = push_string(&stack, envp[i]);
    VK->variables[0] = VK->arguments[1] = (uint64_t)stack.top;
    for (size_t i = arguments; i-- > 0;)
        pointers[i] = push_string(&stack, argv[i]);
    VK->arguments[0] = (uint64_t)stack.top;
    stack.top = (char *)((uint64_t)stack.top & ~15ul);
    const void *random_at = push_bytes(&stack, random, sizeof random);
    size_t words = build_auxv(auxv, start, exec_name, platform, random_at);
    size_t table = (1 + arguments + 1 + variables + 1 + words) * sizeof(uint64_t);
    stack.top = (char *)(((uint64_t)stack.top - table) & ~15ul);
    uint64_t *out = (uint64_t *)stack.top;
    *out++ = arguments;
    memcpy(out, pointers, (arguments + variables + 2) * sizeof *pointers);
    memcpy(out + arguments + variables + 2, auxv, words * sizeof *auxv);
    VK->auxiliary[0] = (uint64_t)(out + arguments + variables + 2);
    VK->auxiliary[1] = VK->auxiliary[0] + words * sizeof *auxv;
    free(pointers);
    return (uint64_t)stack.top;
}

void loader_jump(uint64_t entry, uint64_t stack)
{
    /* rdx = 0: no function for atexit; rbp = 0: the outermost frame. */
    __asm__ volatile("mov %0, %%rsp\n\txor %%edx, %%edx\n\txor %%ebp, %%ebp\n\tjmp *%1"
                     :
                     : "r"(stack), "r"(entry)
                     : "memory", "rdx");
    __builtin_unreachable();
}
