/* The claim on a job, which lies in the undo folder, where other hosts and other users of it can write. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/wire/claim.h"
#include "common/wire/placement.h"
#include "tests/fuzz/target.h"

static char base[] = "/tmp/belay-fuzz-XXXXXX";
static int file = -1;

static void remove_all(void)
{
    char path[sizeof base + sizeof CLAIM_NAME];
    snprintf(path, sizeof path, "%s/" CLAIM_NAME, base);
    unlink(path);
    rmdir(base);
}

static void make_folder(void)
{
    const struct claim claim = {.host = "node-1"};
    char path[sizeof base + sizeof CLAIM_NAME];
    must(mkdtemp(base));
    atexit(remove_all);
    must(claim_write(base, &claim, NULL) == 0);
    snprintf(path, sizeof path, "%s/" CLAIM_NAME, base);
    file = open(path, O_RDWR | O_CLOEXEC);
    must(file >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct claim claim = {.host = ""}, again;
    if (file < 0)
        make_folder();
    must(ftruncate(file, 0) == 0 && pwrite(file, bytes, count, 0) == (ssize_t)count);
    if (claim_read(base, &claim) < 0) {
        must(!claim.host[0] && !claim.epoch && !claim.token); /* written only on success */
        return 0;
    }
    must(placement_is_host_name(claim.host));
    must(claim_write(base, &claim, NULL) == 0 && claim_read(base, &again) == 0);
    must(!strcmp(claim.host, again.host) && claim.epoch == again.epoch && claim.token == again.token);
    return 0;
}
