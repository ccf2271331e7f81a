/* The page that a rank shares with its agent: all of what the rank may write, as the agent reads it. */
#include <sys/mman.h>

#include "node-agent/rank/page.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct control *control;
    struct rank_report report = {.clock_count = 0};
    struct targets targets = {.count = 0};
    char text[CONTROL_FAILURE_BYTES];
    if (!control)
        control = mmap(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(control != MAP_FAILED);
    memcpy(control, bytes, count < CONTROL_BYTES ? count : CONTROL_BYTES);
    if (page_read(control, &report)) {
        uint64_t sum = 0;
        must(report.peer_count <= CONTROL_MAX_PEERS && report.clock_count <= report.clock_room);
        for (uint32_t i = 0; i < report.clock_count; i++)
            sum += report.clocks[i].seq;
        must(sum || !sum);
        rank_report_is_above_target(&report);
        if (rank_report_raise(&report, &targets) == 0)
            page_order_targets(control, 3, 1, &targets);
    }
    if (page_failure(control, control->line, text))
        must(memchr(text, '\0', sizeof text));
    targets_destroy(&targets);
    free(report.clocks);
    madvise(control, CONTROL_BYTES, MADV_DONTNEED);
    return 0;
}
