/*
 * seeds.c - writes the first files of the corpus: what Belay itself says to each parser.
 *
 *   seeds FOLDER        the corpus, with a folder for each target
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/image/lines.h"
#include "common/image/tables.h"
#include "common/secure/envelope.h"
#include "common/secure/hello.h"
#include "common/wire/board.h"
#include "common/wire/control.h"
#include "common/wire/epoch_record.h"
#include "common/wire/peer_message.h"
#include "common/wire/shares.h"
#include "common/wire/undo.h"
#include "coord/epoch_message.h"
#include "coord/epoch_telling.h"
#include "mpi-layer/lower/vk_held.h"
#include "node-agent/delta/pack.h"
#include "node-agent/fabric/frame.h"
#include "node-agent/job/membership.h"
#include "node-agent/launch/record.pb-c.h"
#include "node-agent/member/outgoing.h"
#include "node-agent/member/share.h"
#include "node-agent/store/commits.h"
#include "relay/session.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/target.h"

#define PAGE IMAGE_PAGE_BYTES
#define ROOM 16384u

static const char *corpus;

void seeds_put(const char *target, const char *name, int first, const void *bytes, size_t count)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", corpus, target);
    must(mkdir(path, 0777) == 0 || errno == EEXIST);
    snprintf(path, sizeof path, "%s/%s/%s", corpus, target, name);
    FILE *file = fopen(path, "wb");
    must(file);
    if (first >= 0)
        fputc(first, file);
    must(count == 0 || fwrite(bytes, 1, count, file) == count);
    must(fclose(file) == 0);
}

static void put_hellos(void)
{
    static const char *const names[] = {
        [HELLO_FIRST] = "first", [HELLO_ANSWER] = "answer", [HELLO_CONFIRM] = "confirm"};
    struct hello_terms terms = {.mode = FABRIC_MODE_AUTHENTICATE,
                                .job = "job",
                                .epoch = 7,
                                .self = {FABRIC_ROLE_MEMBER, 1, 1001},
                                .address = {.bytes = "here", .count = 4}};
    const struct fabric_identity to = {FABRIC_ROLE_MEMBER, 2, 1002};
    uint8_t hello[HELLO_BYTES];
    for (enum hello_kind kind = HELLO_FIRST; kind <= HELLO_CONFIRM; kind++) {
        hello_make(&terms, kind, &to, kind == HELLO_FIRST ? NULL : hello, hello);
        seeds_put("hello", names[kind], 1, hello, sizeof hello);
    }
    seeds_put("hello", "stranger", 0, hello, sizeof hello);
    seeds_put("session", "hello", 255, hello, sizeof hello);
    seeds_put("session", "pieces", 10, hello, sizeof hello);
    seeds_put("session", "nothing", 3, "GET / HTTP/1.0\r\n\r\n", 18);
}

/* A frame as the target "channel" wants it; its MAC is made there. Returns the bytes. */
static size_t make_frame(uint8_t *to, struct frame frame)
{
    size_t count = FRAME_HEADER_BYTES + frame.count + SEAL_MAC_BYTES;
    to[0] = (uint8_t)count;
    to[1] = (uint8_t)(count >> 8);
    memset(to + 2, 0x5a, count);
    frame_encode(&frame, to + 2);
    return 2 + count;
}

static void put_frames(void)
{
    uint8_t bytes[ROOM], *at = bytes;
    struct notice notice = {.transfer = 3,
                            .bytes = 70000,
                            .slab = 2,
                            .address = 4096,
                            .key = 99,
                            .chunk = 5,
                            .count = 4096,
                            .tag = "tag",
                            .tag_bytes = 3};
    seeds_put("frame", "notice", 1, bytes, notice_encode(&notice, bytes));
    at += make_frame(at, (struct frame){FRAME_MESSAGE, 4, 1, 1, 0, 10, 10});
    seeds_put("frame", "message", 0, bytes + 2, (size_t)(at - bytes - 2));
    at += make_frame(at, (struct frame){FRAME_MESSAGE, 4, 2, 1, 10, 60, 30});
    at += make_frame(at, (struct frame){FRAME_BEAT, 4, 1, 1, 10, 0, 0});
    at += make_frame(at, (struct frame){FRAME_MESSAGE, 4, 3, 1, 10, 60, 30});
    at += make_frame(at, (struct frame){FRAME_OFFER, 4, 4, 1, 10, 0, 88});
    seeds_put("channel", "session", 1, bytes, (size_t)(at - bytes));
    seeds_put("channel", "stranger", 0, bytes, (size_t)(at - bytes));
}

static void put_word(const char *name, const struct peer_message *message)
{
    size_t count;
    uint8_t *packed = peer_message_pack(message, &count);
    must(packed);
    seeds_put("peer_message", name, -1, packed, count);
    free(packed);
}

static void put_words(void)
{
    static const struct coord_clock clocks[] = {{1, 1, 2, 8}, {UINT64_MAX, 7, 8, 8}, {3, UINT64_MAX, 0, 0}};
    static const uint32_t ranks[] = {1, 2, 7};
    static const int32_t peers[] = {0, 7, -1};
    struct peer_message message = {
        .role = PEER_MEMBER, .node = 2, .epoch = 300, .line = 70000, .kind = PEER_PARKED};
    put_word("parked", &message);
    message.kind = PEER_ABORTED;
    message.reason = "no memory";
    put_word("aborted", &message);
    message = (struct peer_message){.role = PEER_MEMBER,
                                    .node = 2,
                                    .epoch = 300,
                                    .line = 70000,
                                    .kind = PEER_CLOCKS,
                                    .clocks = clocks,
                                    .clock_count = 3};
    put_word("clocks", &message);
    message = (struct peer_message){
        .role = PEER_MEMBER, .node = 2, .epoch = 300, .kind = PEER_READY, .ranks = ranks, .rank_count = 3};
    put_word("ready", &message);
    message = (struct peer_message){.role = PEER_MEMBER,
                                    .node = 2,
                                    .epoch = 300,
                                    .line = 70000,
                                    .kind = PEER_REPORT,
                                    .targets_version = 2};
    message.report = (struct peer_report){
        .rank = 7, .state = PEER_RANK_WAITING, .comm = 1, .seq = 1, .peer_count = 3, .peers = peers};
    put_word("report", &message);
}

static void put_message(const char *target, const char *name, int first, const ProtobufCMessage *message)
{
    uint8_t bytes[ROOM];
    size_t count = protobuf_c_message_get_packed_size(message);
    must(count <= sizeof bytes);
    protobuf_c_message_pack(message, bytes);
    seeds_put(target, name, first, bytes, count);
}

static void put_epochs(void)
{
    struct epoch_start *start = epoch_start_create(2, 4);
    must(start);
    start->epoch = 3;
    start->line = start->last_line = 12;
    for (uint32_t i = 0; i < 2; i++) {
        start->members[i] = i;
        start->incarnations[i] = 77 + i;
    }
    for (uint32_t rank = 0; rank < 4; rank++)
        start->placement[rank] = start->holder[rank] = rank / 2;
    start->roots[1] = (struct digest){{1, 2, 3, 4}};
    Belay__Wire__EpochRecord record = epoch_message_of_start(start, "job");
    put_message("epoch", "start", 1, &record.base);
    struct epoch_telling *telling =
        epoch_telling_create(start, SCHEME_PARTNER, (struct parity_code){0}, TREE_ARITY, "job");
    must(telling);
    put_message("epoch", "told", 1, &epoch_telling_to(telling, 1)->base);
    epoch_telling_destroy(telling);
    size_t count;
    uint8_t *packed = epoch_record_pack(&record, &count);
    must(packed);
    seeds_put("epoch", "record", 2, packed, count);
    free(packed);
    Belay__Wire__NodeState state = BELAY__WIRE__NODE_STATE__INIT;
    uint64_t held[] = {12, 0, 0, 12, 13, 12, 0, 13, 0};
    state.incarnation = 77;
    state.last_line = 13;
    state.committed_line = 12;
    state.room = UINT32_MAX;
    state.held = held;
    state.n_held = 9;
    put_message("epoch", "state", 0, &state.base);
    uint8_t roots[3 * 2 * DIGEST_BYTES] = {1, 2, 3};
    uint64_t refuted[] = {1, 2, 12};
    state.roots = (ProtobufCBinaryData){.data = roots, .len = sizeof roots};
    state.committed_root = (ProtobufCBinaryData){.data = roots, .len = DIGEST_BYTES};
    state.refuted = refuted;
    state.n_refuted = 3;
    put_message("epoch", "state_with_roots", 0, &state.base);
    uint32_t ranks[] = {3, 7, 90000};
    state.ranks = ranks;
    state.n_ranks = 3;
    put_message("epoch", "state_of_some_ranks", 0, &state.base);
    free(start);
}

static void put_text(const char *target, const char *name, int first, const char *text)
{
    seeds_put(target, name, first, text, strlen(text));
}

static void put_launches(void)
{
    put_text("launch", "plain", -1, "-n\n4\n./heat\n100\n");
    put_text("launch", "contexts", -1,
             "--host\na:2,b:2\n-x\nA=b\n-n\n2\n./one\n:\n-np\n2\n--map-by\nnode\n./two\n");
    put_text("launch", "file", -1, "--hostfile\nhosts\n--app\ncontexts\n--\n./heat\n");
}

static void put_envelopes(void)
{
    struct envelope_pair pair;
    char address[ENVELOPE_ADDRESS_BYTES], text[ENVELOPE_TEXT_BYTES],
        plain[2 * ENVELOPE_SECRET_BYTES + 1] = "";
    memset(plain, 'b', sizeof plain - 1);
    must(envelope_make_pair(&pair, address, NULL) == 0 && envelope_seal(address, plain, text, NULL) == 0);
    put_text("envelope", "address", 0, address);
    put_text("envelope", "secret", 1, plain);
    put_text("envelope", "of_another_pair", 2, text);
}

/* Stands in for the agent's: the member's record is what is wanted of it. */
int keeper_put(struct keeper *keeper, const char *name, int fd, struct belay_error *err)
{
    uint8_t page[4096];
    (void)keeper, (void)err;
    if (strcmp(name, "job/epochs") == 0 && pread(fd, page, sizeof page, 0) == (ssize_t)sizeof page)
        seeds_put("records", "member", 2, page, sizeof page);
    return 0;
}

int keeper_drop(struct keeper *keeper, const char *name, struct belay_error *err)
{
    (void)keeper, (void)name, (void)err;
    return 0;
}

static void put_records(void)
{
    struct commit_entry entries[2] = {
        {.line = 6, .reason = "no memory", .ranks = 4},
        {.line = 7, .is_committed = 1, .ranks = 4, .shared = 1, .here = 2, .root = {{1, 2, 3, 4}}}};
    seeds_put("records", "commits", 1, entries, sizeof entries);
    membership_destroy(membership_create(NULL, "job", 1, NULL));
}

static void put_requests(void)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__JobOpen open = BELAY__WIRE__JOB_OPEN__INIT;
    Belay__Wire__JobSettings settings = BELAY__WIRE__JOB_SETTINGS__INIT;
    Belay__Wire__RankHello hello = BELAY__WIRE__RANK_HELLO__INIT;
    Belay__Wire__JobStatus status = BELAY__WIRE__JOB_STATUS__INIT;
    Belay__Wire__LineStatus line = BELAY__WIRE__LINE_STATUS__INIT, *lines[] = {&line, &line};
    Belay__Agent__JobRecord record = BELAY__AGENT__JOB_RECORD__INIT;
    char *words[] = {"mpirun", "-n", "4", "./heat"};
    settings.has_encrypt = settings.encrypt = true;
    open.settings = &settings;
    open.job = hello.job = status.job = "heat";
    open.argv = open.environment = status.argv = words;
    open.n_argv = open.n_environment = status.n_argv = 4;
    open.cwd = hello.program = "/home/me";
    hello.ranks = 4;
    line.reason = "no memory";
    status.lines = lines;
    status.n_lines = 2;
    request.body_case = BELAY__WIRE__REQUEST__BODY_JOB_OPEN;
    request.job_open = &open;
    put_message("request", "open", 0, &request.base);
    request.body_case = BELAY__WIRE__REQUEST__BODY_RANK_HELLO;
    request.rank_hello = &hello;
    put_message("request", "hello", 0, &request.base);
    reply.body_case = BELAY__WIRE__REPLY__BODY_STATUS;
    reply.status = &status;
    put_message("request", "reply", 1, &reply.base);
    record.config = &open;
    record.status = &status;
    put_message("request", "record", 2, &record.base);
    put_message("request", "status", 3, &status.base);
}

/* Its header, in a page, and its tables. */
static void put_image(bool is_delta)
{
    struct image_run runs[2] = {{UPPER_BASE + 9 * PAGE, PAGE, image_offset(UPPER_BASE + 9 * PAGE)},
                                {UPPER_BASE + 20 * PAGE, 3 * PAGE, image_offset(UPPER_BASE + 20 * PAGE)}};
    struct image_run drop = {UPPER_BASE + 30 * PAGE, PAGE, 0},
                     change = {UPPER_BASE + 20 * PAGE, 2 * PAGE, PAGE};
    struct run_set whole = {.runs = runs, .count = 2}, drops = {.runs = &drop, .count = 1},
                   changes = {.runs = &change, .count = 1};
    struct image_region code = {
        .start = UPPER_BASE, .end = UPPER_BASE + 8 * PAGE, .kind = IMAGE_REGION_FILE, .prot = 5};
    struct image_region data = {
        .start = UPPER_BASE + 8 * PAGE, .end = UPPER_BASE + 64 * PAGE, .kind = IMAGE_REGION_ANON, .prot = 3};
    struct image_header header = {.line = 7, .base_line = is_delta ? 6 : 0, .rank = 1, .ranks = 4};
    struct image_pages pages = {.runs = &whole};
    static uint8_t bytes[PAGE + ROOM];
    off_t at = is_delta ? 3 * PAGE : PAGE;
    int fd = is_delta ? memfd_create("delta", MFD_CLOEXEC) : image_make_memfd(NULL);
    struct image_writer *writer = image_writer_create();
    if (is_delta)
        pages = (struct image_pages){&changes, &drops, &whole};
    must(writer && fd >= 0 && (!is_delta || ftruncate(fd, at) == 0));
    must(image_writer_add_region(writer, &code, "/usr/lib/libapp.so") == 0);
    must(image_writer_add_region(writer, &data, NULL) == 0);
    must(image_writer_set_program(writer, "/home/me/app") == 0);
    must(image_writer_finish(writer, &pages, &header, fd, (uint64_t)at, NULL) == 0);
    must(pread(fd, bytes, PAGE, 0) == PAGE);
    memcpy(&header, bytes, sizeof header);
    must(header.tables_bytes <= ROOM);
    must(pread(fd, bytes + PAGE, header.tables_bytes, at) == (ssize_t)header.tables_bytes);
    seeds_put("image", is_delta ? "delta" : "whole", is_delta, bytes, PAGE + header.tables_bytes);
    if (is_delta)
        seeds_put("delta", "pages", 1, bytes, PAGE + header.tables_bytes);
    image_writer_destroy(writer);
    close(fd);
}

/* A delta in lines of 64 bytes: three of two pages, and a page of which only one is not zeros. */
static void put_lines(void)
{
    static const struct image_region data = {
        .start = UPPER_BASE + 8 * PAGE, .end = UPPER_BASE + 64 * PAGE, .kind = IMAGE_REGION_ANON, .prot = 3};
    static const struct image_run runs[2] = {{UPPER_BASE + 9 * PAGE, 2 * PAGE, PAGE},
                                             {UPPER_BASE + 20 * PAGE, PAGE, PAGE + 3 * LINE_BYTES}};
    static const struct image_run present[2] = {
        {UPPER_BASE + 9 * PAGE, 3 * PAGE, IMAGE_DATA_BASE + UPPER_BASE + 9 * PAGE},
        {UPPER_BASE + 20 * PAGE, PAGE, IMAGE_DATA_BASE + UPPER_BASE + 20 * PAGE}};
    static const uint64_t encodings[2] = {IMAGE_LINES, IMAGE_FRESH}, masks[3] = {5, 1ull << 63, 2},
                          sums[3] = {7, 8, 9};
    static uint8_t bytes[PAGE + ROOM];
    struct image_header header = {.line = 7,
                                  .base_line = 6,
                                  .rank = 1,
                                  .ranks = 4,
                                  .region_count = 1,
                                  .run_count = 2,
                                  .present_count = 2,
                                  .sum_count = 3,
                                  .encoding_count = 2,
                                  .mask_count = 3,
                                  .strings_bytes = 1,
                                  .tables_offset = 3 * PAGE,
                                  .data_bytes = 4 * LINE_BYTES};
    char *tables = (char *)bytes + PAGE;
    tables_place(&header);
    must(header.tables_bytes <= ROOM);
    memcpy(tables + header.region_offset, &data, sizeof data);
    memcpy(tables + header.run_offset, runs, sizeof runs);
    memcpy(tables + header.present_offset, present, sizeof present);
    memcpy(tables + header.sum_offset, sums, sizeof sums);
    memcpy(tables + header.encoding_offset, encodings, sizeof encodings);
    memcpy(tables + header.mask_offset, masks, sizeof masks);
    must(tables_seal(&header, tables, NULL) == 0);
    memcpy(bytes, &header, sizeof header);
    seeds_put("image", "lines", true, bytes, PAGE + header.tables_bytes);
    seeds_put("delta", "lines", 1, bytes, PAGE + header.tables_bytes);
}

/* A member's pages: one line of one, two of another, which lies behind it. */
static void put_contribution(void)
{
    const struct share_record records[] = {{UPPER_BASE, 1}, {UPPER_BASE + 5 * PAGE, 6}};
    const uint8_t lines[2 * LINE_BYTES] = {1, 2, 3};
    uint8_t bytes[1024] = {15}, *at = bytes + 1; /* pages that the sum may have */
    for (size_t i = 0; i < 2; i++) {
        memcpy(at, &records[i], sizeof records[i]);
        at += sizeof records[i];
        memcpy(at, lines, (i + 1) * LINE_BYTES);
        at += (i + 1) * LINE_BYTES;
    }
    const struct part_range range = {8 * PAGE, sizeof lines};
    uint8_t part[sizeof range + sizeof lines];
    memcpy(part, &range, sizeof range);
    memcpy(part + sizeof range, lines, sizeof lines);
    seeds_put("contribution", "whole", 0, bytes, (size_t)(at - bytes));
    seeds_put("contribution", "multiplied_in_pieces", 6, bytes, (size_t)(at - bytes));
    seeds_put("delta", "range", 2, part, sizeof part);
}

/* Numbers that differ little, by each compressor, and what is not compressed. */
static void put_packed(void)
{
    static const char *const names[PACKINGS] = {"as_it_is", "lz4", "zstd"};
    static struct pack_room room;
    static uint8_t raw[PACK_BLOCK_BYTES];
    static uint8_t block[1 + sizeof(struct pack_head) + PACK_PACKED_BYTES];
    for (uint32_t i = 0; i < 512; i++)
        raw[8 * i] = (uint8_t)(i / 3);
    for (enum packing packing = PACKING_NONE; packing < PACKINGS; packing++) {
        size_t count = packing == PACKING_NONE ? 100 : 4096;
        const struct pack_head head = pack_block(packing, raw, count, block + 1 + sizeof head, &room);
        block[0] = 4; /* pages that it may make */
        memcpy(block + 1, &head, sizeof head);
        seeds_put("pack", names[packing], 0, block, 1 + sizeof head + head.packed_bytes);
        seeds_put("pack",
                  packing == PACKING_NONE  ? "as_it_is_in_pieces"
                  : packing == PACKING_LZ4 ? "lz4_in_pieces"
                                           : "zstd_in_pieces",
                  5, block, 1 + sizeof head + head.packed_bytes);
    }
}

/* The journal of two open files: one is cut, written to and has a hole, the other one has other times. */
static void put_parcel(void)
{
    static const struct vk_held_entry entries[] = {
        {VK_HELD_MAGIC, UNDO_LENGTH, {.inode = 0}, 3, 0, 0},
        {VK_HELD_MAGIC, UNDO_DATA, {.inode = 0}, 1, 0, 4},
        {VK_HELD_MAGIC, UNDO_HOLE, {.inode = 0}, 0, 2, 0},
        {VK_HELD_MAGIC, UNDO_ATTRIBUTES, {.inode = 1}, 0, 0, sizeof(struct undo_attributes)},
        {VK_HELD_MAGIC, UNDO_UNPROTECTED, {.inode = 1}, 0, 0, 0}};
    const struct undo_attributes attributes = {.mode = 0600, .changed_s = 5, .read_s = 7};
    uint8_t bytes[1024] = {0}, *at = bytes + 2;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        memcpy(at, &entries[i], sizeof *entries);
        at += sizeof *entries;
        memcpy(at, &attributes, entries[i].data_bytes);
        at += entries[i].data_bytes;
    }
    seeds_put("parcel", "all", -1, bytes, (size_t)(at - bytes));
    seeds_put("parcel", "without_the_last", -1, bytes, (size_t)(at - bytes) - sizeof *entries);
}

static uint8_t *put_board_frame(uint8_t *at, enum board_verb verb, uint32_t rank, const char *text)
{
    const struct board_frame frame = {
        .magic = BOARD_MAGIC, .verb = verb, .rank = rank, .bytes = (uint32_t)strlen(text)};
    memcpy(at, &frame, sizeof frame);
    memcpy(at + sizeof frame, text, frame.bytes);
    return at + sizeof frame + frame.bytes;
}

static void put_board(void)
{
    uint8_t bytes[1024], *at = put_board_frame(bytes, BOARD_TEXT, 1, "node-1 secret");
    seeds_put("board", "text", 0, bytes, (size_t)(at - bytes));
    at = put_board_frame(bytes, BOARD_GONE, 1, "");
    seeds_put("board", "gone", 0, bytes, (size_t)(at - bytes));
    at = put_board_frame(bytes, BOARD_HELLO, 7, "a token of 32 bytes, but not his");
    seeds_put("board", "stranger", 2, bytes, (size_t)(at - bytes));
    at = put_board_frame(bytes, BOARD_PUT, 1, "node-1 secret");
    at = put_board_frame(at, BOARD_GET, 1, "");
    at = put_board_frame(at, BOARD_STAY, 1, "");
    at = put_board_frame(at, BOARD_LOST, 1, "");
    at = put_board_frame(at, BOARD_GET, 9, "");
    seeds_put("board", "rank", 1, bytes, (size_t)(at - bytes));
}

static void put_claim(void)
{
    char text[129];
    snprintf(text, sizeof text, "%-127s\n", "belay-arbiter-1 node-1 3 00000000deadbeef");
    seeds_put("claim", "claim", -1, text, 128);
    seeds_put("claim", "cut_short", -1, text, 40);
}

static void put_undo_log(void)
{
    static const enum undo_kind kinds[] = {UNDO_CREATED, UNDO_MADE, UNDO_LENGTH,
                                           UNDO_REMOVED, UNDO_LINK, UNDO_WITHDRAWN};
    uint8_t bytes[ROOM], *at = bytes;
    const struct undo_head head = {.magic = UNDO_HEAD_MAGIC, .version = UNDO_VERSION, .rank = 1, .line = 7};
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct undo_entry entry = {.magic = UNDO_MAGIC,
                                         .kind = kinds[i],
                                         .time_ns = 100 + i,
                                         .offset =
                                             kinds[i] == UNDO_MADE || kinds[i] == UNDO_WITHDRAWN ? 100 : 0,
                                         .data_bytes = kinds[i] == UNDO_LINK ? 6 : 0,
                                         .id = {.inode = 5 + i},
                                         .path_bytes = 10};
        memcpy(at, &entry, sizeof entry);
        at += sizeof entry;
        memcpy(at, "/tmp/file\0target", 16);
        at += entry.path_bytes + entry.data_bytes;
    }
    seeds_put("undo_log", "log", -1, bytes, (size_t)(at - bytes));
}

static uint8_t *put_numbers(uint8_t *at, const uint64_t *numbers, const char *widths)
{
    for (; *widths; widths++, numbers++) {
        size_t width = (size_t)(*widths - '0');
        memcpy(at, numbers, width);
        at += width;
    }
    return at;
}

static uint8_t *begin_record(uint8_t *at, enum record_kind kind, size_t count)
{
    *at++ = (uint8_t)kind;
    *at++ = (uint8_t)count;
    *at++ = (uint8_t)(count >> 8);
    return at;
}

/* As relay/streams_record.c puts them. */
static void put_streams(void)
{
    uint8_t bytes[ROOM], *at = bytes;
    at = put_numbers(begin_record(at, RECORD_HEAD, 20), (uint64_t[]){2, 1, 0, 0}, "4448");
    at = put_numbers(begin_record(at, RECORD_OUTPUT, 48 + 6), (uint64_t[]){1, 0, 6, 1, 1, 6, 0}, "4488888");
    memcpy(at, "hello\n", 6);
    at += 6;
    at = put_numbers(begin_record(at, RECORD_TAKEN, 48), (uint64_t[]){1, 0, 0, 0, 0, 0, 6}, "4488888");
    at = put_numbers(begin_record(at, RECORD_SLOT, 48), (uint64_t[]){0, 1, 9, 1, 1, 9, 9}, "4488888");
    at = put_numbers(begin_record(at, RECORD_INPUT, 12 + 3), (uint64_t[]){0, 1}, "84");
    memcpy(at, "in\n", 3);
    seeds_put("streams", "records", -1, bytes, (size_t)(at + 3 - bytes));
}

static void put_page(void)
{
    static uint8_t bytes[sizeof(struct control) + 4 * sizeof(struct control_clock)];
    struct control *control = (struct control *)(void *)bytes;
    control->bytes = CONTROL_BYTES;
    control->ranks = 4;
    control->line = control->targets_line = 3;
    control->version = 2;
    control->state = CONTROL_STATE_WAITING;
    control->peer_count = 2;
    control->peers[1] = 3;
    control->slots = 4;
    for (unsigned i = 0; i < 4; i++)
        control->clocks[i] = (struct control_clock){i + 1, 10 * i, i + 1, 10 * i + 1, 8};
    seeds_put("control_page", "page", -1, bytes, sizeof bytes);
}

static void put_texts(void)
{
    static const char *const texts[] = {"10s",
                                        "500ms",
                                        "1-02:03:04",
                                        "1:30:00",
                                        "auto",
                                        "4G",
                                        "1500B",
                                        "95",
                                        "0",
                                        "1",
                                        "heat-1",
                                        "a:2,b:2",
                                        "0,0,1,1",
                                        "node 1",
                                        "# racks\nr1 a b\nr2 c d\n",
                                        "r1 a b c\n",
                                        "\xc2\x9b"
                                        "31m \\ \xe2\x80\xae"};
    char name[16];
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        snprintf(name, sizeof name, "%02u", i);
        seeds_put("texts", name, -1, texts[i], strlen(texts[i]));
    }
}

/* What the first rank, the first one of another host, and one more hear. */
static void put_meetings(void)
{
    static const char variables[] =
        "BELAY_NAME=job\nBELAY_RUNDIR=/run/belay\nBELAY_EPOCH=1\nBELAY_HOSTS=a,b,c\nBELAY_PLACEMENT=0,1,1,2";
    static const char first[] = "a X\0b\0c X\0/run/belay\n1234 10.0.0.1 10.0.0.2\n1 @\n2 @\n\0";
    struct envelope_pair pair;
    char address[ENVELOPE_ADDRESS_BYTES], key[2 * ENVELOPE_SECRET_BYTES + 1] = "", bytes[2048];
    memset(key, 'b', sizeof key - 1);
    must(envelope_make_pair(&pair, address, NULL) == 0);
    int count = snprintf(bytes, sizeof bytes, "b %s%cb%cc %s%c%s\n/run/belay\n1234 10.0.0.1\n%c%s", address,
                         0, 0, address, 0, key, 0, variables);
    seeds_put("meeting", "first", 0, bytes, (size_t)count);
    memcpy(bytes, first, sizeof first - 1);
    memcpy(bytes + sizeof first - 1, variables, sizeof variables);
    seeds_put("meeting", "other_host", 1, bytes, sizeof first - 1 + sizeof variables);
    count = snprintf(bytes, sizeof bytes, "/run/belay%c%s", 0, variables);
    seeds_put("meeting", "more", 3, bytes, (size_t)count);
    count = snprintf(bytes, sizeof bytes,
                     "listens%cBELAY_NAME=1\nBELAY_NAME=2\nBELAY_NAME=3\nBELAY_NAME=4\nBELAY_NAME=5", 0);
    seeds_put("meeting", "one_variable_five_times", 3, bytes, (size_t)count);
    count = snprintf(bytes, sizeof bytes, "b none%cb%cc none%c%s\n/run/belay\n1234%c", 0, 0, 0, key, 0);
    seeds_put("meeting", "no_address", 0, bytes, (size_t)count);
}

static void put_status(void)
{
    static const char *const reasons[] = {"no memory", "\xff\xfe \xe2\x80\xae \x1b[31m"};
    for (int i = 0; i < 2; i++) {
        Belay__Wire__JobStatus status = BELAY__WIRE__JOB_STATUS__INIT;
        Belay__Wire__LineStatus line = BELAY__WIRE__LINE_STATUS__INIT, *lines[] = {&line, &line};
        Belay__Wire__NodeStatus node = BELAY__WIRE__NODE_STATUS__INIT, *nodes[] = {&node};
        Belay__Wire__RankStatus rank = BELAY__WIRE__RANK_STATUS__INIT, *ranks[] = {&rank, &rank};
        Belay__Wire__EpochStatus epoch = BELAY__WIRE__EPOCH_STATUS__INIT, *history[] = {&epoch};
        char *words[] = {"mpirun", "-n", "2", "./heat"};
        status.job = "job";
        status.state = "lost";
        status.argv = words;
        status.n_argv = 4;
        status.message = line.reason = (char *)(uintptr_t)reasons[i];
        status.lines = lines;
        status.n_lines = 2;
        status.nodes = nodes;
        status.history = history;
        status.n_nodes = status.n_history = 1;
        node.ranks = ranks;
        node.n_ranks = 2;
        line.line = 1;
        put_message("status", i ? "damaged_text" : "lost", i, &status.base);
    }
}

static void put_notes(void)
{
    const struct share_note notes[] = {{SHARE_PIPE, 0, 0, 0, SHARE_READER, 0},
                                       {SHARE_PIPE, 1, 0, 0, SHARE_WRITER, 0},
                                       {SHARE_EVENT, 2, 0, 2, 0, 0},
                                       {SHARE_FILE, 3, 0, 0, 0, 0},
                                       {SHARE_LOST, 5, 0, 0, 0, 0},
                                       {SHARE_PIPE, 0, 0, 0, SHARE_READER, 0},
                                       {SHARE_PIPE, 1, 0, 0, SHARE_WRITER, 0},
                                       {SHARE_EVENT, 2, 0, 2, 0, 0},
                                       {SHARE_FILE, 4, 0, 0, 0, 0},
                                       {SHARE_SEMS, 9, 0, 0, 1, 2}};
    seeds_put("notes", "two_ranks", -1, notes, sizeof notes);
    const struct share_note socket = {SHARE_FILE, 8, 0, 0, 0, 0};
    seeds_put("notes", "files", -1, notes + 3, sizeof *notes);
    seeds_put("notes", "socket_with_a_name", -1, &socket, sizeof socket);
}

int main(int argc, char **argv)
{
    if (argc != 2 || sodium_init() < 0) {
        fprintf(stderr, "usage: seeds FOLDER\n");
        return 64;
    }
    corpus = argv[1];
    must(mkdir(corpus, 0777) == 0 || errno == EEXIST);
    put_hellos();
    put_frames();
    put_words();
    put_epochs();
    put_launches();
    put_envelopes();
    put_records();
    put_requests();
    put_image(false);
    put_image(true);
    put_lines();
    put_contribution();
    put_packed();
    put_parcel();
    put_board();
    put_claim();
    put_undo_log();
    put_streams();
    put_page();
    put_texts();
    put_meetings();
    put_status();
    put_notes();
    seeds_put_archive();
    return 0;
}
