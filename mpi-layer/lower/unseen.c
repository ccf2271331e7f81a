/* unseen.c - see unseen.h. */
#include "mpi-layer/lower/unseen.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_hold.h"

/* Kinds of components that move messages, and those of each kind that only copy. */
static const struct {
    const char *kind;
    const char *harmless[5];
} transports[] = {
    {"mca_btl_", {"self", "sm", "tcp", "vader"}},
    {"mca_pml_", {"monitoring", "ob1", "v"}},
    {"mca_mtl_", {NULL}},
};

/* By these vader maps, or has the kernel pin, the memory of another process. */
static const char *const helpers[] = {"libxpmem.so", "libknem.so"};

static bool is_harmless(const char *const *names, const char *name, size_t length)
{
    for (; *names; names++)
        if (strlen(*names) == length && !strncmp(*names, name, length))
            return true;
    return false;
}

static int look_at_library(struct dl_phdr_info *info, size_t bytes, void *context)
{
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
    bool *is_registering = context;
    (void)bytes;
    for (size_t i = 0; i < sizeof transports / sizeof transports[0]; i++) {
        size_t length = strlen(transports[i].kind);
        if (!strncmp(name, transports[i].kind, length) &&
            !is_harmless(transports[i].harmless, name + length, strcspn(name + length, ".")))
            *is_registering = true;
    }
    for (size_t i = 0; i < sizeof helpers / sizeof helpers[0]; i++)
        if (!strncmp(name, helpers[i], strlen(helpers[i])))
            *is_registering = true;
    return 0;
}

void unseen_note_transports(void)
{
    bool is_registering = false;
    dl_iterate_phdr(look_at_library, &is_registering);
    if (is_registering)
        vk_note_unseen(CONTROL_UNSEEN_REGISTERED);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *from, unsigned long from_count,
                          const struct iovec *to, unsigned long to_count, unsigned long flags)
{
    vk_hold_writes_to_others();
    return syscall(SYS_process_vm_writev, pid, from, from_count, to, to_count, flags);
}
