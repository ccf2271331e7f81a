/* start.c - the library's constructor. */
#include <unistd.h>

#include "common/wire/control.h"
#include "mpi-layer/fortran/bindings.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/upper/bind.h"
#include "mpi-layer/upper/line.h"

/* The library may also be loaded into a program that runs outside Belay (a child of a rank). */
static int is_in_rank(void)
{
    unsigned char resident;
    return raw3(SYS_mincore, GATE_ADDRESS, MAP_PAGE_BYTES, &resident) == 0 && VK->magic == VK_MAGIC;
}

__attribute__((constructor)) static void start(void)
{
    static const char refusal[] = "belay: this libmpi works only inside belay-launch: take it out of "
                                  "LD_PRELOAD and LD_LIBRARY_PATH\n";
    if (!is_in_rank()) {
        raw3(SYS_write, STDERR_FILENO, refusal, sizeof refusal - 1);
        _exit(CONTROL_REFUSED_STATUS);
    }
    bind_library();
    bindings_publish();
    VK->safepoint = line_safepoint;
}
