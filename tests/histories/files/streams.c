/*
 * streams.c - streams of stdio, with what they have buffered; standard output and error.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "tests/histories/files/descriptors.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/files/paths.h"
#include "tests/histories/core/world.h"

#define STREAMS 6
#define PIECE_MAX 6000
#define MEMORY_BYTES 3000
#define SIZE_MAX_BYTES 60000

enum did { DID_NOTHING = 0, DID_READ, DID_WRITE };

static struct stream {
    FILE *file; /* NULL: none */
    bool reads, writes, is_memory;
    enum did last;
    char memory[MEMORY_BYTES];
    char *grown; /* open_memstream's */
    size_t grown_bytes;
    char buffer[2000]; /* setvbuf's */
} streams[STREAMS];

static struct stream *choose(void)
{
    struct stream *s = &streams[pick(STREAMS)];
    say(" %d", (int)(s - streams));
    return s->file ? s : NULL;
}

static void shut(struct stream *s)
{
    if (s->file)
        answer(fclose(s->file));
    s->file = NULL;
    free(s->grown);
    s->grown = NULL;
}

static const char *some_name(char *path, size_t size)
{
    size_t which = pick(4);
    say(" s%zu", which);
    snprintf(path, size, "%s/s%zu", path_root(), which);
    return path;
}

static const char *some_mode(struct stream *s)
{
    static const char *const modes[] = {"r", "r+", "w", "w+", "a", "a+", "w+e", "a+"};
    const char *mode = modes[pick(8)];
    say(" %s", mode);
    s->reads = *mode == 'r' || strchr(mode, '+');
    s->writes = *mode != 'r' || strchr(mode, '+');
    s->last = DID_NOTHING;
    s->is_memory = false;
    return mode;
}

static void some_buffering(struct stream *s)
{
    size_t way = pick(6);
    if (way < 3)
        answer(setvbuf(s->file, way == 2 ? s->buffer : NULL, (int[]){_IONBF, _IOLBF, _IOFBF}[way],
                       sizeof s->buffer));
}

static void act_open(void)
{
    char path[PATH_MAX];
    struct stream *s = &streams[pick(STREAMS)];
    say(" %d", (int)(s - streams));
    shut(s);
    some_name(path, sizeof path);
    s->file = fopen(path, some_mode(s));
    answer(s->file ? 0 : -1);
    if (s->file)
        some_buffering(s);
}

static void act_other(void)
{
    struct stream *s = &streams[pick(STREAMS)];
    size_t way = pick(4);
    shut(s);
    say(" %d way %zu", (int)(s - streams), way);
    if (way == 0) {
        s->file = tmpfile();
    } else if (way == 1) {
        memset(s->memory, 0, sizeof s->memory);
        s->file = fmemopen(s->memory, sizeof s->memory, "w+");
    } else if (way == 2) {
        s->file = open_memstream(&s->grown, &s->grown_bytes);
    } else {
        struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
        int fd = d && (fcntl(d->number, F_GETFL) & O_ACCMODE) == O_RDWR ? dup(d->number) : -1;
        s->file = fd < 0 ? NULL : fdopen(fd, "r+");
    }
    s->reads = way != 2;
    s->writes = true;
    s->is_memory = way == 1 || way == 2;
    s->last = DID_NOTHING;
}

static void act_close(void)
{
    struct stream *s = choose();
    if (s)
        shut(s);
}

static void act_freopen(void)
{
    char path[PATH_MAX];
    struct stream *s = choose();
    if (!s || s->is_memory)
        return;
    some_name(path, sizeof path);
    s->file = freopen(path, some_mode(s), s->file);
    answer(s->file ? 0 : -1);
}

/* The standard wants a call in between when reading follows writing, or the other way round. */
static bool turn_to(struct stream *s, enum did what)
{
    if (!(what == DID_READ ? s->reads : s->writes))
        return false;
    if (s->last != DID_NOTHING && s->last != what)
        fseek(s->file, 0, SEEK_CUR);
    s->last = what;
    return what == DID_READ || ftell(s->file) < SIZE_MAX_BYTES;
}

static void act_write(void)
{
    struct stream *s = choose();
    size_t bytes = pick_length(PIECE_MAX), way = pick(3);
    if (!s || !turn_to(s, DID_WRITE))
        return;
    say(" %zu", bytes);
    if (way == 0)
        answer(fprintf(s->file, "%zu and %llx\n", bytes, (unsigned long long)roll()));
    else if (way == 1)
        answer(fputs("a line of text\n", s->file) >= 0 ? 0 : -1);
    else
        answer((long)fwrite(some_bytes(bytes), 1, bytes, s->file));
}

static void act_read(void)
{
    static char data[PIECE_MAX];
    struct stream *s = choose();
    size_t bytes = pick_length(PIECE_MAX), way = pick(3);
    if (!s || !turn_to(s, DID_READ))
        return;
    if (way == 0 && fgets(data, (int)(bytes < 2 ? 2 : bytes), s->file))
        say_bytes(data, strlen(data));
    else if (way == 1)
        answer(ungetc('u', s->file));
    else if (way == 2)
        say_bytes(data, (size_t)answer((long)fread(data, 1, bytes, s->file)));
    say(" %d %d", !!feof(s->file), !!ferror(s->file));
    clearerr(s->file);
}

static void act_seek(void)
{
    struct stream *s = choose();
    long at = (long)pick(3000);
    int whence = (int)PICK_ONE(SEEK_SET, SEEK_CUR, SEEK_END);
    if (!s)
        return;
    answer(fseek(s->file, whence == SEEK_SET ? at : -at / 2, whence));
    s->last = DID_NOTHING;
    answer(ftell(s->file));
}

static void act_flush(void)
{
    struct stream *s = choose();
    if (s && s->last == DID_WRITE)
        answer(fflush(s->file));
}

/* ---- standard streams ---- */

static void act_print(void)
{
    FILE *to = chance(60) ? stdout : stderr;
    fprintf(to, "rank %d, step %ld: %llx\n", world.rank, world.step, (unsigned long long)roll());
    if (chance(50))
        fflush(to);
}

/* Standard output somewhere else for a moment. */
static void act_redirect(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    fflush(stdout);
    if (!d)
        return;
    int saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 100);
    answer(dup2(d->number, STDOUT_FILENO));
    printf("redirected in step %ld\n", world.step);
    answer(fflush(stdout));
    clearerr(stdout);
    answer(dup2(saved, STDOUT_FILENO));
    close(saved);
}

static const struct operation operations[] = {
    {"open", 6, act_open},         {"other", 3, act_other},  {"close", 2, act_close},
    {"freopen", 2, act_freopen},   {"write", 10, act_write}, {"read", 6, act_read},
    {"seek", 4, act_seek},         {"flush", 2, act_flush},  {"print", 3, act_print},
    {"redirect", 1, act_redirect}, {NULL, 0, NULL},
};

static void observe(void)
{
    for (int i = 0; i < STREAMS; i++)
        if (streams[i].file)
            note("%d at %ld, fd %s", i, ftell(streams[i].file),
                 fileno(streams[i].file) < 0 ? "none" : "some");
}

static void end(void)
{
    for (int i = 0; i < STREAMS; i++)
        if (streams[i].file)
            fclose(streams[i].file);
}

const struct kind kind_streams = {"streams", operations, .observe = observe, .end = end};
