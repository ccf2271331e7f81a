/* The log of files as they were, which a rank writes and the agent reads: of rank 1 at line 7. */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node-agent/undo/plan.h"
#include "tests/fuzz/target.h"

static char base[] = "/tmp/belay-fuzz-XXXXXX";
static int folder = -1, log_fd;

static void remove_all(void)
{
    unlinkat(folder, "7/1.log", 0);
    unlinkat(folder, "7", AT_REMOVEDIR);
    rmdir(base);
}

static void make_folder(void)
{
    must(mkdtemp(base));
    folder = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(folder >= 0 && mkdirat(folder, "7", 0700) == 0);
    log_fd = openat(folder, "7/1.log", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(log_fd >= 0);
    atexit(remove_all);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static char path[UNDO_PATH_BYTES], data[UNDO_DATA_BYTES + 1];
    struct plan plan = {.count = 0};
    struct belay_error err;
    if (folder < 0)
        make_folder();
    must(ftruncate(log_fd, 0) == 0 && pwrite(log_fd, bytes, count, 0) == (ssize_t)count);
    if (plan_read(folder, 0, &plan, &err) < 0)
        return 0;
    for (size_t i = 0; i < plan.count; i++) {
        if (plan_path(&plan.steps[i], path) == 0)
            must(path[0] == '/' && strlen(path) < UNDO_PATH_BYTES);
        if (plan_data(&plan.steps[i], data) == 0)
            must(data[plan.steps[i].entry.data_bytes] == '\0');
        plan_find(&plan, &plan.steps[i].entry.id);
    }
    plan_release(&plan);
    return 0;
}
