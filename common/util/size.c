#include "common/util/size.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The n-th letter stands for 1024 to the power of n. */
static const char letters[] = "BKMGT";

#define PLAIN_POWER 2 /* Slurm's meaning of a number without a unit: mebibytes */

/* The power of 1024 that a suffix stands for, -1: none. */
static int suffix_power(const char *suffix)
{
    if (*suffix == '\0')
        return PLAIN_POWER;
    const char *letter = strchr(letters, toupper((unsigned char)*suffix));
    if (!letter)
        return -1;
    const char *rest = suffix + 1;
    if (*rest && (letter == letters || (strcasecmp(rest, "b") && strcasecmp(rest, "ib"))))
        return -1;
    return (int)(letter - letters);
}

int size_parse(const char *text, uint64_t *bytes, struct belay_error *err)
{
    char *end = NULL;
    errno = 0;
    uint64_t number = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
    int is_out_of_range = errno == ERANGE;
    int power = end ? suffix_power(end) : -1;
    if (power < 0)
        return belay_error_set(err, EINVAL,
                               "'%s' is not a size: write 512M, 4G or 1T (a plain number is in M)", text);
    if (is_out_of_range || number > (uint64_t)INT64_MAX >> (10 * power))
        return belay_error_set(err, ERANGE, "'%s' is too large a size", text);
    *bytes = number << (10 * power);
    return 0;
}

const char *size_format(uint64_t bytes, char text[SIZE_TEXT_BYTES])
{
    int power = 0;
    while (bytes && power < (int)sizeof letters - 2 && bytes % 1024 == 0) {
        bytes /= 1024;
        power++;
    }
    snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64 "%c", bytes, letters[power]);
    return text;
}
