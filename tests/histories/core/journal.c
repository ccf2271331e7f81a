#include "tests/histories/core/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/histories/core/world.h"
#include "tests/programs/program.h"

#define LINE_BYTES 6000
#define DETAIL_BYTES (256u << 10)

static struct {
    int fd;
    bool is_detailed, has_wrong;
    char line[LINE_BYTES];
    size_t length;
    char detail[DETAIL_BYTES]; /* of this line, when it is wanted */
    size_t detail_length;
    const char *observed; /* kind */
    uint64_t observation, digest;
} journal = {.fd = -1};

void journal_open(const char *folder, int rank, bool is_detailed)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/journal-%d", folder, rank);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    journal.fd = dup3(fd, JOURNAL_NUMBER, O_CLOEXEC);
    close(fd);
    journal.is_detailed = is_detailed;
}

void journal_close(void)
{
    close(journal.fd);
    journal.fd = -1;
}

void journal_detach(void)
{
    journal.fd = -1;
    journal.is_detailed = false;
    journal.digest = journal.length = 0;
}

static void add_text(char *text, size_t size, size_t *length, const char *format, va_list arguments)
{
    int added = vsnprintf(text + *length, size - *length, format, arguments);
    if (added > 0)
        *length = *length + (size_t)added < size ? *length + (size_t)added : size - 1;
}

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_text(journal.line, sizeof journal.line - 1, &journal.length, format, arguments);
    va_end(arguments);
}

void journal_begin(long step, const char *kind, const char *operation)
{
    journal.length = journal.detail_length = 0;
    say("%ld %s.%s", step, kind, operation);
}

static void write_pieces(const char *text, size_t length)
{
    while (journal.fd >= 0 && length > 0) {
        ssize_t written = write(journal.fd, text, length);
        if (written < 0 && errno != EINTR)
            return;
        text += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
}

/* Whatever limit of files' sizes the history has set. */
static void write_all(const char *text, size_t length)
{
    struct rlimit limit, none;
    getrlimit(RLIMIT_FSIZE, &limit);
    none = (struct rlimit){limit.rlim_max, limit.rlim_max};
    if (limit.rlim_cur != none.rlim_cur)
        setrlimit(RLIMIT_FSIZE, &none);
    write_pieces(text, length);
    if (limit.rlim_cur != none.rlim_cur)
        setrlimit(RLIMIT_FSIZE, &limit);
}

void journal_end(void)
{
    digest_add(&journal.digest, journal.line, journal.length);
    journal.line[journal.length++] = '\n';
    write_all(journal.line, journal.length);
    write_all(journal.detail, journal.detail_length);
    journal.length = journal.detail_length = 0;
}

const char *error_name(int error)
{
    const char *name = strerrorname_np(error);
    return name ? name : "E?";
}

long answer(long result)
{
    int error = errno;
    if (result == -1)
        say(" = %s", error_name(error));
    else
        say(" = %ld", result);
    errno = error;
    return result;
}

int answer_error(int error)
{
    say(" = %s", error ? error_name(error) : "0");
    return error;
}

void say_bytes(const void *data, size_t bytes)
{
    say(" [%zu:%08x]", bytes, (unsigned)sum_of(data, bytes));
}

void wrong(const char *format, ...)
{
    va_list arguments;
    journal.has_wrong = true;
    say(" WRONG: ");
    va_start(arguments, format);
    add_text(journal.line, sizeof journal.line - 1, &journal.length, format, arguments);
    va_end(arguments);
}

void observation_begin(const char *kind)
{
    journal.observed = kind;
    journal.observation = 0;
}

void observation_end(void)
{
    if (journal.observation)
        say(" %s:%08x", journal.observed, (unsigned)(journal.observation ^ journal.observation >> 32));
}

static void detail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_text(journal.detail, sizeof journal.detail, &journal.detail_length, format, arguments);
    va_end(arguments);
}

void note(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    digest_add(&journal.observation, text, strlen(text) + 1);
    if (journal.is_detailed)
        detail("    %s: %s\n", journal.observed, text);
}

void note_bytes(const char *what, const void *data, size_t bytes)
{
    note("%s %zu bytes %016llx", what, bytes, (unsigned long long)sum_of(data, bytes));
}

uint64_t journal_digest(void)
{
    return journal.digest;
}

bool journal_has_wrong(void)
{
    return journal.has_wrong;
}

uint64_t sum_of(const void *data, size_t bytes)
{
    const char *at = data;
    uint64_t sum = bytes * 0x9e3779b97f4a7c15u, word;
    for (; bytes >= sizeof word; at += sizeof word, bytes -= sizeof word) {
        memcpy(&word, at, sizeof word);
        sum = (sum ^ word) * 0xc2b2ae3d27d4eb4fu;
        sum ^= sum >> 29;
    }
    word = 0;
    memcpy(&word, at, bytes);
    sum = (sum ^ word) * 0x165667b19e3779f9u;
    return sum ^ sum >> 32;
}
