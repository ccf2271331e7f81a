#include "common/wire/job_name.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/escape.h"

#define NUMBER_BYTES 11 /* of "-4294967295" */

/* Whatever the locale takes for a letter. */
static bool is_allowed(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || (letter && strchr("._-", letter));
}

static bool may_begin(char letter)
{
    return is_allowed(letter) && letter != '.' && letter != '-';
}

bool job_name_is_valid(const char *name)
{
    size_t length = strlen(name);
    bool is_valid = length < JOB_NAME_BYTES && may_begin(name[0]);
    for (size_t i = 0; is_valid && i < length; i++)
        is_valid = is_allowed(name[i]);
    return is_valid;
}

int job_name_check(const char *name, struct belay_error *err)
{
    char shown[80];
    if (job_name_is_valid(name))
        return 0;
    return belay_error_set(err, EINVAL,
                           "'%s' cannot be a job's name: at most %d letters, digits, '.', '_' and '-', the "
                           "first neither '.' nor '-'",
                           escape_text(shown, sizeof shown, name), JOB_NAME_BYTES - 1);
}

void job_name_make(const char *text, char name[JOB_NAME_BYTES])
{
    size_t used = 0;
    for (; text[used] && used < JOB_NAME_BYTES - 1 - NUMBER_BYTES; used++)
        name[used] = (used ? is_allowed(text[used]) : may_begin(text[used])) ? text[used] : '_';
    name[used] = '\0';
    if (used == 0)
        snprintf(name, JOB_NAME_BYTES, "job");
}
