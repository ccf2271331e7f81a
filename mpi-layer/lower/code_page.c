/* code_page.c - see code_page.h. */
#include "mpi-layer/lower/code_page.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/vk_action.h"
#include "mpi-layer/lower/vk_cut.h"

/* The address of a symbol in the page of code at VDSO_ADDRESS. */
static uint64_t vdso_symbol(const char *name)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)VDSO_ADDRESS;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(VDSO_ADDRESS + header->e_phoff);
    const Elf64_Sym *symbols = NULL;
    const char *strings = NULL;
    const uint32_t *hash = NULL;
    for (int i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type != PT_DYNAMIC)
            continue;
        for (const Elf64_Dyn *d = (const Elf64_Dyn *)(VDSO_ADDRESS + segments[i].p_vaddr); d->d_tag; d++) {
            if (d->d_tag == DT_SYMTAB)
                symbols = (const Elf64_Sym *)(VDSO_ADDRESS + d->d_un.d_ptr);
            else if (d->d_tag == DT_STRTAB)
                strings = (const char *)(VDSO_ADDRESS + d->d_un.d_ptr);
            else if (d->d_tag == DT_HASH)
                hash = (const uint32_t *)(VDSO_ADDRESS + d->d_un.d_ptr);
        }
    }
    for (uint32_t i = 0; symbols && strings && hash && i < hash[1]; i++)
        if (!strcmp(strings + symbols[i].st_name, name))
            return VDSO_ADDRESS + symbols[i].st_value;
    return 0;
}

static const struct {
    const char *name;
    uint64_t *address;
} code_labels[] = {
    {"__vdso_belay_wrap", &vk_wrap_address},
    {"__vdso_belay_wrap_inside", &vk_wrap_inside_address},
    {"__vdso_belay_signal", &vk_signal_address},
    {"__vdso_belay_restorer", &vk_restorer_address},
    {"__vdso_belay_resignal", &vk_resignal_address},
    {"__vdso_belay_start", &vk_start_address},
    {"__vdso_belay_wait", &vk_wait_label.entry},
    {"__vdso_belay_wait_ready", &vk_wait_label.ready},
    {"__vdso_belay_wait_syscall", &vk_wait_label.syscall},
    {"__vdso_belay_wait_over", &vk_wait_label.over},
    {"__vdso_belay_wait_resume", &vk_wait_label.resume},
    {"__vdso_belay_transfer", &vk_wait_label.transfer},
    {"__vdso_belay_transfer_syscall", &vk_wait_label.transfer_syscall},
};

int code_page_map(const char *path, struct belay_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return belay_error_errno(err, "cannot open %s (is Belay installed whole?)", path);
    void *at = mmap((void *)VDSO_ADDRESS, VDSO_BYTES, PROT_READ | PROT_EXEC,
                    MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0);
    close(fd);
    if (at != (void *)VDSO_ADDRESS)
        return belay_error_errno(err, "cannot map %s at its address", path);
    for (size_t i = 0; i < sizeof code_labels / sizeof code_labels[0]; i++)
        if (!(*code_labels[i].address = vdso_symbol(code_labels[i].name)))
            return belay_error_set(err, ENOEXEC, "%s is damaged", path);
    return 0;
}
