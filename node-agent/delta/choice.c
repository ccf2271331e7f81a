#include "node-agent/delta/choice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/lines.h"
#include "common/util/clock.h"
#include "node-agent/delta/model.h"

#define PAGE IMAGE_PAGE_BYTES
#define SAMPLE_PAGES 256u
#define TRIAL_BYTES (8ul << 20)  /* more than caches hold of both */
#define NEWEST 0.25              /* the weight of a new measurement */
#define NOTED_BYTES (256u << 10) /* less says nothing of a rate */
#define SEND_S 1e-9              /* of a byte, before any was sent: 1 GB/s */
#define COMPARE_S 2.5e-10        /* if there is no memory for the trial */

enum granularity granularity_parse(const char *name)
{
    for (enum granularity i = GRANULARITY_AUTO; i <= GRANULARITY_LINE; i++)
        if (strcmp(name, granularity_name(i)) == 0)
            return i;
    return GRANULARITY_NONE;
}

const char *granularity_name(enum granularity granularity)
{
    static const char *const names[] = {"", "auto", "page", "line"};
    return names[granularity];
}

void choice_measure(struct choice_rates *rates)
{
    char *memory = malloc(2 * TRIAL_BYTES);
    uint64_t changed = 0;
    *rates = (struct choice_rates){.compare_s = COMPARE_S, .send_s = SEND_S};
    if (!memory)
        return;
    memset(memory, 1, 2 * TRIAL_BYTES);
    uint64_t begin_ns = clock_now_ns();
    for (size_t at = 0; at < TRIAL_BYTES; at += PAGE)
        changed |= lines_compare(memory + at, memory + TRIAL_BYTES + at);
    if (changed == 0) /* it never is: the comparison is not left out */
        rates->compare_s = (double)(clock_now_ns() - begin_ns) / 1e9 / TRIAL_BYTES;
    free(memory);
}

static void note(double *rate, bool is_first, uint64_t bytes, uint64_t ns)
{
    double now = (double)ns / 1e9 / (double)bytes;
    *rate = is_first ? now : *rate + NEWEST * (now - *rate);
}

void choice_note_compared(struct choice_rates *rates, uint64_t bytes, uint64_t ns)
{
    if (bytes >= NOTED_BYTES)
        note(&rates->compare_s, false, bytes, ns);
}

void choice_note_sent(struct choice_rates *rates, uint64_t bytes, uint64_t ns)
{
    if (bytes < NOTED_BYTES)
        return;
    note(&rates->send_s, !rates->has_sent, bytes, ns);
    rates->has_sent = true;
}

/* Pages all over the delta, each `step`-th: returns the share of their lines that changed, or -1 with err. */
static double sample(const struct image_view *delta, int delta_fd, int base_fd, uint64_t step,
                     struct belay_error *err)
{
    char fresh[PAGE], old[PAGE];
    uint64_t pages = 0, lines = 0, next = 0, first = 0;
    for (uint64_t i = 0; i < delta->header->run_count; i++) {
        const struct image_run *run = &delta->runs[i];
        for (; next < first + run->bytes / PAGE; next += step) {
            uint64_t at = (next - first) * PAGE;
            if (pread(delta_fd, fresh, PAGE, (off_t)(run->data_offset + at)) != (ssize_t)PAGE)
                return belay_error_set(err, EIO, "cannot read the pages of a delta");
            if (image_read_pages(base_fd, run->address + at, old, PAGE, err) < 0)
                return -1;
            lines += lines_bytes(lines_compare(old, fresh)) / LINE_BYTES;
            pages++;
        }
        first += run->bytes / PAGE;
    }
    return pages > 0 ? (double)lines * LINE_BYTES / (double)(pages * PAGE) : 0;
}

int choice_make(const struct choice_rates *rates, enum granularity wanted, int delta_fd, int base_fd,
                struct choice *choice, struct belay_error *err)
{
    struct image_view delta;
    if (image_load(delta_fd, &delta, err) < 0)
        return -1;
    uint64_t pages = delta.header->sum_count;
    double share = sample(&delta, delta_fd, base_fd, pages / SAMPLE_PAGES + 1, err);
    image_unload(&delta);
    if (share < 0)
        return -1;
    const struct model_costs costs = {.compare_s = rates->compare_s, .save_s = rates->send_s};
    struct model_memory memory = {.bytes = (double)(pages * PAGE), .block_bytes = PAGE, .share = 1};
    memory.exponent = model_exponent_of(1, share > 0 ? share : 1.0 / PAGE, PAGE / LINE_BYTES);
    *choice = (struct choice){.granularity = wanted,
                              .pages = pages,
                              .share = share,
                              .exponent = memory.exponent,
                              .page_s = model_conventional_s(&costs, &memory, 1),
                              .line_s = model_hybrid_s(&costs, &memory, PAGE / LINE_BYTES)};
    if (wanted == GRANULARITY_AUTO)
        choice->granularity = choice->line_s < choice->page_s ? GRANULARITY_LINE : GRANULARITY_PAGE;
    return 0;
}
