#include "node-agent/store/pin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "node-agent/store/held.h"

static const char *const words[PIN_REASONS] = {
    [PIN_MAPPED] = "mapped by its process", [PIN_COPIED] = "being copied",
    [PIN_FETCHED] = "being fetched",        [PIN_SCRUBBED] = "being compared with its sums",
    [PIN_ARCHIVED] = "being archived",
};

/* The committed image of a part, NULL: none. */
static struct held *find(const struct store *store, uint32_t part)
{
    struct held *held = part < store->images.parts ? &store->images.items[part] : NULL;
    return held && held->fd >= 0 ? held : NULL;
}

int store_image_pin(struct store *store, uint32_t part, enum pin_reason reason, struct store_pin *pin,
                    struct belay_error *err)
{
    struct held *held = find(store, part);
    if (!held)
        return belay_error_set(err, ENOENT, "there is no image of rank %u", part);
    if (held->is_changing)
        return belay_error_set(err, EBUSY, "the image of rank %u is being changed", part);
    int fd = reason == PIN_MAPPED ? -1 : fcntl(held->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0 && reason != PIN_MAPPED)
        return belay_error_errno(err, "the image of rank %u cannot be pinned", part);
    *pin = (struct store_pin){.reason = reason, .fd = fd, .part = part, .image = held->number};
    held->pins[reason]++;
    return 0;
}

void store_image_unpin(struct store *store, struct store_pin *pin)
{
    if (pin->reason == PIN_NONE)
        return;
    struct held *held = find(store, pin->part);
    if (held && held->number == pin->image)
        held->pins[pin->reason]--;
    if (pin->fd >= 0)
        close(pin->fd);
    *pin = (struct store_pin){0};
}

uint32_t store_image_pins(const struct store *store, uint32_t part)
{
    const struct held *held = find(store, part);
    return held ? held_pins(held) : 0;
}

const char *store_image_pinned_by(const struct store *store, uint32_t part, char *text, size_t bytes)
{
    const struct held *held = find(store, part);
    size_t used = 0;
    text[0] = '\0';
    for (int reason = 0; held && reason < PIN_REASONS; reason++)
        if (held->pins[reason] && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", words[reason]);
    return text;
}
