/*
 * fault.c - see fault.h. Parses BELAY_FAULT in place at each call: no state, no allocation, no stdio.
 */
#include "common/fault/fault.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DELAY_MAX_MS 3600000ull

enum fault_action {
    FAULT_ACTION_NONE = 0,
    FAULT_ACTION_KILL,
    FAULT_ACTION_ERROR,
    FAULT_ACTION_DELAY,
    FAULT_ACTION_STOP,
    FAULT_ACTION_RATE,
};

/* One item of BELAY_FAULT. */
struct fault {
    const char *point; /* not terminated */
    size_t point_bytes;
    bool has_rank, has_line;
    uint64_t rank, line, last_line;
    uint64_t share, seed; /* percent */
    enum fault_action action;
    uint64_t delay_ms, rate_kb; /* of delay, of rate */
};

static bool fault_parse(const char *item, const char *end, struct fault *fault);
static bool lines_parse(const char **text, const char *end, struct fault *fault);
static bool share_parse(const char **text, const char *end, struct fault *fault);
static bool action_parse(const char *text, const char *end, struct fault *fault);
static bool fault_matches(const struct fault *fault, const char *point, int rank, uint64_t line);
static bool is_in_share(const struct fault *fault, int rank, uint64_t line);
static bool fault_act(const struct fault *fault);

bool fault_hit(const char *point, int rank, uint64_t line)
{
    const char *item = getenv("BELAY_FAULT");
    int saved_errno = errno;
    bool is_failing = false;

    while (item != NULL && *item != '\0') {
        const char *end = item + strcspn(item, ",");
        struct fault fault;

        if (fault_parse(item, end, &fault) && fault_matches(&fault, point, rank, line)) {
            is_failing |= fault_act(&fault);
        }
        item = *end == ',' ? end + 1 : end;
    }
    errno = saved_errno;
    return is_failing;
}

uint64_t fault_rate(const char *point, int rank)
{
    const char *item = getenv("BELAY_FAULT");

    while (item != NULL && *item != '\0') {
        const char *end = item + strcspn(item, ",");
        struct fault fault;

        if (fault_parse(item, end, &fault) && fault.action == FAULT_ACTION_RATE &&
            fault_matches(&fault, point, rank, 0)) {
            return fault.rate_kb;
        }
        item = *end == ',' ? end + 1 : end;
    }
    return 0;
}

/* Read decimal digits at *text; moves *text behind them. False without digits or beyond 64 bits. */
static bool number_parse(const char **text, const char *end, uint64_t *number)
{
    const char *p = *text;
    uint64_t value = 0;

    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value)) {
            return false;
        }
    }
    if (p == *text) {
        return false;
    }
    *text = p;
    *number = value;
    return true;
}

/* Read POINT[@RANK][#LINE[+|-LAST]][%SHARE[:SEED]]=ACTION in [item, end). False if it is malformed: such an
 * item never hits. */
static bool fault_parse(const char *item, const char *end, struct fault *fault)
{
    size_t length = strcspn(item, "@#%=,");
    const char *p = item + length;

    memset(fault, 0, sizeof(*fault));
    fault->point = item;
    fault->point_bytes = length;
    if (p < end && *p == '@') {
        p++;
        fault->has_rank = number_parse(&p, end, &fault->rank);
        if (!fault->has_rank) {
            return false;
        }
    }
    if (!lines_parse(&p, end, fault) || !share_parse(&p, end, fault)) {
        return false;
    }
    return length > 0 && p < end && *p == '=' && action_parse(p + 1, end, fault);
}

/* Read #LINE, #LINE+ or #LINE-LAST at *text, if there is one; moves *text behind it. */
static bool lines_parse(const char **text, const char *end, struct fault *fault)
{
    if (*text >= end || **text != '#') {
        return true;
    }
    ++*text;
    fault->has_line = number_parse(text, end, &fault->line);
    fault->last_line = fault->line;
    if (fault->has_line && *text < end && **text == '+') {
        ++*text;
        fault->last_line = UINT64_MAX;
    } else if (fault->has_line && *text < end && **text == '-') {
        ++*text;
        return number_parse(text, end, &fault->last_line) && fault->last_line >= fault->line;
    }
    return fault->has_line;
}

/* Read %SHARE or %SHARE:SEED at *text, if there is one; moves *text behind it. */
static bool share_parse(const char **text, const char *end, struct fault *fault)
{
    fault->share = 100;
    if (*text >= end || **text != '%') {
        return true;
    }
    ++*text;
    if (!number_parse(text, end, &fault->share) || fault->share > 100) {
        return false;
    }
    if (*text < end && **text == ':') {
        ++*text;
        return number_parse(text, end, &fault->seed);
    }
    return true;
}

static bool action_parse(const char *text, const char *end, struct fault *fault)
{
    static const char delay[] = "delay:", rate[] = "rate:";
    size_t length = (size_t)(end - text);

    if (length == strlen("kill") && memcmp(text, "kill", length) == 0) {
        fault->action = FAULT_ACTION_KILL;
        return true;
    }
    if (length == strlen("error") && memcmp(text, "error", length) == 0) {
        fault->action = FAULT_ACTION_ERROR;
        return true;
    }
    if (length == strlen("stop") && memcmp(text, "stop", length) == 0) {
        fault->action = FAULT_ACTION_STOP;
        return true;
    }
    if (length > strlen(rate) && memcmp(text, rate, strlen(rate)) == 0) {
        text += strlen(rate);
        fault->action = FAULT_ACTION_RATE;
        return number_parse(&text, end, &fault->rate_kb) && text == end && fault->rate_kb > 0;
    }
    if (length > strlen(delay) && memcmp(text, delay, strlen(delay)) == 0) {
        text += strlen(delay);
        fault->action = FAULT_ACTION_DELAY;
        return number_parse(&text, end, &fault->delay_ms) && text == end && fault->delay_ms <= DELAY_MAX_MS;
    }
    return false;
}

static bool fault_matches(const struct fault *fault, const char *point, int rank, uint64_t line)
{
    return strlen(point) == fault->point_bytes && memcmp(point, fault->point, fault->point_bytes) == 0 &&
           (!fault->has_rank || (rank >= 0 && (uint64_t)rank == fault->rank)) &&
           (!fault->has_line || (line >= fault->line && line <= fault->last_line)) &&
           is_in_share(fault, rank, line);
}

/* A number that depends on all bits of `value` (splitmix64, by S. Vigna). */
static uint64_t mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

/* Without state, as all that is drawn here: another process, or the next call, draws the same. */
static bool is_in_share(const struct fault *fault, int rank, uint64_t line)
{
    uint64_t drawn = mix(fault->seed);

    if (fault->share == 100) {
        return true;
    }
    for (size_t i = 0; i < fault->point_bytes; i++) {
        drawn = mix(drawn ^ (unsigned char)fault->point[i]);
    }
    drawn = mix(drawn ^ (uint64_t)rank);
    return mix(drawn ^ line) % 100 < fault->share;
}

/* Wait out the whole time: a signal must not shorten an injected stall. */
static void stand_still(uint64_t delay_ms)
{
    struct timespec left = {
        .tv_sec = (time_t)(delay_ms / 1000),
        .tv_nsec = (long)(delay_ms % 1000) * 1000000,
    };

    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* True: the caller is to fail. */
static bool fault_act(const struct fault *fault)
{
    switch (fault->action) {
    case FAULT_ACTION_KILL:
        kill(getpid(), SIGKILL);
        return false;
    case FAULT_ACTION_DELAY:
        stand_still(fault->delay_ms);
        return false;
    case FAULT_ACTION_ERROR:
        return true;
    case FAULT_ACTION_STOP:
        raise(SIGSTOP);
        return false;
    case FAULT_ACTION_RATE:
    case FAULT_ACTION_NONE:
        break;
    }
    return false;
}

void fault_flip(int fd, uint64_t offset)
{
    char byte;
    if (pread(fd, &byte, 1, (off_t)offset) != 1)
        return;
    byte ^= 0x10;
    if (pwrite(fd, &byte, 1, (off_t)offset) != 1)
        return;
}
