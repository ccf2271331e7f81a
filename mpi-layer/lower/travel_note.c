/* travel_note.c - see travel.h: at a line. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "common/image/file_token.h"
#include "common/util/escape.h"
#include "common/util/mounts.h"
#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/lower/travel.h"
#include "mpi-layer/lower/travel_slots.h"
#include "mpi-layer/lower/vk_undo_note.h"

#define ROOM_BYTES (VK_ARENA_END - VK_TRAVEL_ADDRESS)
#define CHUNK_BYTES (1ul << 20)
#define TOKEN_BYTES (512ull << 20) /* read for tokens, in a process's whole life */
#define TICK_NS 1000000000ll       /* times of change are coarse: a change within this time may not show */
#define TOKENS 32

static struct {
    uint64_t limit_bytes;
    const uint64_t *common;
    size_t common_count;
    uint64_t used_bytes, token_bytes;
    bool has_said, is_full;
} travel;

static struct travel_slots slots;

/* Of files that are too large: asked for at each line, and read once. */
static struct known_token {
    struct file_id id;
    int64_t size, changed_ns;
    uint64_t token;
} tokens[TOKENS];
static unsigned next_token;

void travel_start(uint64_t limit_bytes, const uint64_t *common_devices, size_t count)
{
    travel.limit_bytes = limit_bytes;
    travel.common = common_devices;
    travel.common_count = count;
}

/* ---- which they are ---- */

static bool is_common(uint64_t device)
{
    for (size_t i = 0; i < travel.common_count; i++)
        if (travel.common[i] == device)
            return true;
    return false;
}

static int access_of(const struct fd_record *record)
{
    return record->status_flags & O_ACCMODE;
}

/* What is held is lost with its host; so is what only this host has. */
static bool may_be_lost(const struct fd_record *record, const char *path)
{
    if (record->kind != FD_FILE || record->same_as >= 0 || !S_ISREG(record->id.mode) ||
        (record->status_flags & O_PATH) || !strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5))
        return false;
    if (record->held)
        return true;
    return record->links > 0 && !is_common(record->id.device) && !file_id_is_on_network(record->fd);
}

/* ---- reading ---- */

static char piece[1 << 18];

/* Only what differs is written: a page that is written to is copied with the line. */
static void put(char *to, const char *from, size_t bytes)
{
    for (size_t at = 0, part; at < bytes; at += part) {
        part = bytes - at < MAP_PAGE_BYTES ? bytes - at : MAP_PAGE_BYTES;
        if (memcmp(to + at, from + at, part))
            memcpy(to + at, from + at, part);
    }
}

/* What is read of a file, by a descriptor of the program or by one more. */
struct reading {
    const struct fd_record *record;
    struct travel_slot *slot;
    bool is_read;
};

static void read_all(struct reading *reading, long fd)
{
    char *to = (char *)VK_TRAVEL_ADDRESS + reading->slot->offset;
    uint64_t at = 0, end = reading->slot->capacity;
    long got = 0;
    while (at < end) {
        uint64_t part = end - at < sizeof piece ? end - at : sizeof piece;
        got = raw4(SYS_pread64, fd, piece, part, at);
        if (got <= 0)
            break;
        put(to + at, piece, (size_t)got);
        at += (uint64_t)got;
    }
    reading->slot->bytes = at;
    reading->is_read = got >= 0; /* a file that grows meanwhile is read later by the rank that writes to it */
}

/* In vk_undo_aside(): to close the descriptor here would give up the locks that the program has on the file.
 */
static void read_by_another(const void *with)
{
    struct reading *reading = (struct reading *)(uintptr_t)with;
    char link[40];
    vk_text_put_number(vk_text_put(link, "/proc/self/fd/"), (uint64_t)reading->record->fd);
    long fd = raw4(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0)
        return;
    read_all(reading, fd);
    raw1(SYS_close, fd);
}

static bool read_contents(const struct fd_record *record, struct travel_slot *slot)
{
    struct reading reading = {record, slot, false};
    if (access_of(record) != O_WRONLY && !(record->status_flags & O_DIRECT)) {
        read_all(&reading, record->fd);
        return reading.is_read;
    }
    uint64_t mask = vk_undo_lock();
    vk_undo_aside(read_by_another, &reading);
    vk_undo_unlock(mask);
    return reading.is_read;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

struct state {
    int64_t size, changed_ns;
};

static bool look(const struct fd_record *record, struct state *state)
{
    struct stat st;
    if (fstat(record->fd, &st) < 0)
        return false;
    *state = (struct state){st.st_size, st.st_ctim.tv_sec * 1000000000ll + st.st_ctim.tv_nsec};
    return true;
}

/* Writes to a mapping show in the times of the file later than in the file. */
static bool is_unchanged(const struct travel_slot *slot, const struct state *state)
{
    return slot->is_settled && !VK->has_shared_files && slot->size == state->size &&
           slot->changed_ns == state->changed_ns;
}

/* ---- memory ---- */

static bool map_up_to(uint64_t end)
{
    uint64_t wanted = (end + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
    const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (wanted <= VK->travel_bytes)
        return true;
    if (raw_syscall(SYS_mmap, (long)(VK_TRAVEL_ADDRESS + VK->travel_bytes), (long)(wanted - VK->travel_bytes),
                    prot, flags, -1, 0) < 0)
        return false;
    VK->travel_bytes = wanted;
    return true;
}

static void unmap_behind(uint64_t end)
{
    uint64_t wanted = (end + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
    if (wanted >= VK->travel_bytes)
        return;
    raw2(SYS_munmap, VK_TRAVEL_ADDRESS + wanted, VK->travel_bytes - wanted);
    VK->travel_bytes = wanted;
}

/* ---- one file ---- */

static void fill_in(struct fd_record *record, const struct travel_slot *slot)
{
    record->travel = TRAVEL_CONTENTS;
    record->content = slot->offset;
    record->content_bytes = slot->bytes;
    record->noted_ns = slot->noted_ns;
}

static enum travel note_contents(struct fd_record *record, const struct state *state)
{
    uint64_t bytes = (uint64_t)state->size;
    struct travel_slot *slot = travel_slots_take(&slots, &record->id, bytes, ROOM_BYTES);
    int64_t begun_ns = now_ns();
    if (!slot || !map_up_to(slot->offset + slot->capacity)) {
        travel.is_full = true;
        return TRAVEL_TOO_LARGE;
    }
    if (!is_unchanged(slot, state) && !read_contents(record, slot)) {
        slot->is_wanted = slot->is_settled = false;
        return TRAVEL_UNREADABLE;
    }
    slot->noted_ns = begun_ns;
    slot->size = state->size;
    slot->changed_ns = state->changed_ns;
    slot->is_settled = state->changed_ns + TICK_NS < begun_ns;
    travel.used_bytes += bytes;
    fill_in(record, slot);
    return TRAVEL_CONTENTS;
}

/* Two open file descriptions of one file have one slot. */
static const struct travel_slot *find_noted(const struct fd_record *record)
{
    for (size_t i = 0; i < slots.count; i++)
        if (slots.items[i].is_wanted && file_id_is_same(&slots.items[i].id, &record->id))
            return &slots.items[i];
    return NULL;
}

static enum travel note_token(struct fd_record *record, const struct state *state)
{
    struct known_token *known = NULL;
    if (access_of(record) != O_RDONLY || record->links == 0 || (record->status_flags & O_DIRECT))
        return TRAVEL_TOO_LARGE;
    for (size_t i = 0; i < TOKENS && !known; i++)
        if (file_id_is_same(&tokens[i].id, &record->id) && tokens[i].size == state->size &&
            tokens[i].changed_ns == state->changed_ns)
            known = &tokens[i];
    if (!known) {
        uint64_t token = file_token(record->fd, TOKEN_BYTES - travel.token_bytes, &travel.token_bytes);
        known = &tokens[next_token++ % TOKENS];
        *known = (struct known_token){record->id, state->size, state->changed_ns, token};
    }
    record->token = known->token;
    record->content_bytes = (uint64_t)state->size;
    return known->token == FILE_TOKEN_NONE ? TRAVEL_TOO_LARGE : TRAVEL_TOKEN;
}

static enum travel note_file(struct fd_record *record, const char *path)
{
    struct state state;
    const struct travel_slot *noted = find_noted(record);
    bool has_path = record->links == 0 || (!record->held && file_id_is_named(&record->id, path));
    if (!has_path)
        return TRAVEL_PATHLESS;
    if (noted) {
        fill_in(record, noted);
        return TRAVEL_CONTENTS;
    }
    if (!look(record, &state))
        return TRAVEL_UNREADABLE;
    bool fits = (uint64_t)state.size <= travel.limit_bytes - travel.used_bytes;
    return fits ? note_contents(record, &state) : note_token(record, &state);
}

/* ---- all of them ---- */

static const char *reason_of(const struct fd_record *record)
{
    switch ((enum travel)record->travel) {
    case TRAVEL_TOKEN:
        return "it is beyond --file-limit. On another host the rank goes on only with the same file there";
    case TRAVEL_TOO_LARGE:
        return "it is beyond --file-limit, so the rank cannot go on on another host";
    case TRAVEL_UNREADABLE:
        return "it cannot be read, so the rank cannot go on on another host";
    case TRAVEL_PATHLESS:
        return "no path that the rank may open leads to it, so the rank cannot go on on another host";
    case TRAVEL_NONE:
    case TRAVEL_CONTENTS:
        break;
    }
    return NULL;
}

/* Once for each rank. */
static void tell(const struct fd_record *record, const char *path)
{
    char text[700], shown[ESCAPE_PATH_BYTES];
    const char *reason = reason_of(record);
    if (!reason || travel.has_said)
        return;
    travel.has_said = true;
    escape_text(shown, sizeof shown, path);
    if (record->links == 0)
        snprintf(text, sizeof text, "%.300s is open and has no name: %s, and no archive can hold it", shown,
                 reason);
    else
        snprintf(text, sizeof text,
                 "%.300s is open, and no other host has it: %s; a folder that all hosts share avoids that",
                 shown, reason);
    GATE->say(text);
}

/* Files that are written to come first: nothing else can be in their place. */
static void note_some(struct fd_record *records, size_t count, const char *text, bool is_written)
{
    for (size_t i = 0; i < count; i++) {
        bool is_turn = (access_of(&records[i]) != O_RDONLY) == is_written;
        const char *path = text + records[i].path;
        if (is_turn && may_be_lost(&records[i], path))
            records[i].travel = note_file(&records[i], path);
    }
}

static void note_all(struct fd_record *records, size_t count, const char *text)
{
    travel.used_bytes = 0;
    travel.is_full = false;
    travel_slots_begin(&slots);
    note_some(records, count, text, true);
    note_some(records, count, text, false);
}

static bool has_all_held(const struct fd_record *records, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (records[i].held && records[i].same_as < 0 && records[i].travel != TRAVEL_CONTENTS)
            return false;
    return VK->held_cwd == 0;
}

bool travel_note(struct fd_record *records, size_t count, const char *text)
{
    VK->travel_host = travel.limit_bytes ? mounts_host() : 0;
    if (!travel.limit_bytes)
        return false;
    note_all(records, count, text);
    if (travel.is_full) { /* the free room is in pieces */
        travel_slots_reset(&slots);
        note_all(records, count, text);
    }
    for (size_t i = 0; i < count; i++)
        tell(&records[i], text + records[i].path);
    unmap_behind(travel_slots_finish(&slots));
    return has_all_held(records, count);
}
