#include "common/util/trial.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

bool trial_open(struct trial *trial, size_t bytes, int tried)
{
    char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *trial = (struct trial){.pages = pages != MAP_FAILED ? pages : NULL,
                            .bytes = bytes,
                            .pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
                            .tried = tried};
    return trial->pages && trial->pagemap >= 0 && tried >= 0;
}

void trial_close(struct trial *trial)
{
    if (trial->tried >= 0)
        close(trial->tried);
    if (trial->pagemap >= 0)
        close(trial->pagemap);
    if (trial->pages)
        munmap(trial->pages, trial->bytes);
}
