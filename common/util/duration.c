#include "common/util/duration.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SECOND_MS 1000ull
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)
#define FIELDS_MAX 3

struct unit {
    const char *suffix;
    uint64_t ms;
};

/* Largest first, so that duration_format() finds the shortest form. */
static const struct unit units[] = {{"h", HOUR_MS}, {"m", MINUTE_MS}, {"s", SECOND_MS}, {"ms", 1}};

#define UNIT_COUNT (sizeof units / sizeof units[0])

static int refuse(const char *text, struct belay_error *err)
{
    return belay_error_set(err, EINVAL,
                           "'%.64s' is not a time: write 500ms, 10s, 5m, 2h, or as Slurm does "
                           "minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]",
                           text);
}

static int too_long(const char *text, struct belay_error *err)
{
    return belay_error_set(err, ERANGE, "'%.64s' is too long a time", text);
}

/* Add count * scale to *sum. False on overflow past 2^63. */
static bool add_scaled(uint64_t *sum, uint64_t count, uint64_t scale)
{
    uint64_t product, total;
    if (__builtin_mul_overflow(count, scale, &product) || __builtin_add_overflow(*sum, product, &total))
        return false;
    *sum = total;
    return total <= INT64_MAX;
}

/* Read digits at *at into *number, saturating; false if there are none. */
static bool read_number(const char **at, uint64_t *number)
{
    if (!isdigit((unsigned char)**at))
        return false;
    *number = 0;
    for (; isdigit((unsigned char)**at); (*at)++)
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(**at - '0'), number))
            *number = UINT64_MAX; /* where it stays: every further digit overflows again */
    return true;
}

static const struct unit *find_unit(const char *suffix)
{
    for (size_t i = 0; i < UNIT_COUNT; i++)
        if (!strcmp(suffix, units[i].suffix))
            return &units[i];
    return NULL;
}

/* "a", "a:b" or "a:b:c" at `at`, up to the end of the text. Returns the number of fields, 0: malformed. */
static int read_fields(const char *at, uint64_t fields[FIELDS_MAX])
{
    for (int count = 0; count < FIELDS_MAX; at++) {
        if (!read_number(&at, &fields[count++]))
            return 0;
        if (*at == '\0')
            return count;
        if (*at != ':')
            return 0;
    }
    return 0;
}

static int parse_slurm(const char *text, uint64_t *ms, struct belay_error *err)
{
    /* What the first field counts: with days always hours, else by the number of fields. */
    static const uint64_t scales[] = {HOUR_MS, MINUTE_MS, SECOND_MS};
    const char *at = text, *dash = strchr(text, '-');
    uint64_t days = 0, fields[FIELDS_MAX], sum = 0;
    if (dash && (!read_number(&at, &days) || at++ != dash))
        return refuse(text, err);
    int count = read_fields(at, fields);
    if (count == 0)
        return refuse(text, err);
    int first = dash || count == 3 ? 0 : 1;
    if (!add_scaled(&sum, days, DAY_MS))
        return too_long(text, err);
    for (int i = 0; i < count; i++)
        if (!add_scaled(&sum, fields[i], scales[first + i]))
            return too_long(text, err);
    *ms = sum;
    return 0;
}

int duration_parse(const char *text, uint64_t *ms, struct belay_error *err)
{
    const char *at = text;
    uint64_t number, sum = 0;
    if (!read_number(&at, &number))
        return refuse(text, err);
    if (*at == '\0' || *at == ':' || *at == '-')
        return parse_slurm(text, ms, err);
    const struct unit *unit = find_unit(at);
    if (!unit)
        return refuse(text, err);
    if (!add_scaled(&sum, number, unit->ms))
        return too_long(text, err);
    *ms = sum;
    return 0;
}

const char *duration_format(uint64_t ms, char text[DURATION_TEXT_BYTES])
{
    size_t i = 0;
    while (i < UNIT_COUNT - 1 && (ms == 0 || ms % units[i].ms))
        i++;
    snprintf(text, DURATION_TEXT_BYTES, "%" PRIu64 "%s", ms / units[i].ms, units[i].suffix);
    return text;
}
