#include "node-agent/capture/faults.h"

#include <time.h>

#include "common/image/image.h"
#include "common/util/process_stat.h"

#define SAMPLE_NS 5000000

int faults_read(pid_t pid, struct faults *faults)
{
    static const enum process_field fields[] = {PROCESS_MINOR_FAULTS, PROCESS_RESIDENT_PAGES};
    uint64_t values[2];
    if (process_stat(pid, fields, 2, values) < 0)
        return -1;
    *faults = (struct faults){.minor = values[0], .resident_pages = values[1]};
    return 0;
}

uint64_t faults_bytes(const struct faults *then, const struct faults *now)
{
    uint64_t pages = now->minor - then->minor;
    if (now->resident_pages > then->resident_pages)
        pages += now->resident_pages - then->resident_pages;
    return pages * IMAGE_PAGE_BYTES;
}

uint64_t faults_forecast(pid_t pid, uint64_t ns)
{
    const struct timespec sample = {.tv_nsec = SAMPLE_NS};
    struct faults at[3];
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            nanosleep(&sample, NULL);
        if (faults_read(pid, &at[i]) < 0)
            return 0;
    }
    double pages = 0, next = (double)(at[2].minor - at[1].minor),
           before = (double)(at[1].minor - at[0].minor);
    double kept = next < before ? next / before : 1;
    for (uint64_t passed = 0; passed < ns && next >= 1; passed += SAMPLE_NS) {
        pages += next;
        next *= kept;
    }
    return (uint64_t)pages * IMAGE_PAGE_BYTES;
}
