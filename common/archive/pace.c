#include "common/archive/pace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/conf.h"
#include "common/util/duration.h"

int archive_pace_parse(const char *text, struct archive_pace *pace, struct belay_error *err)
{
    char *end;
    *pace = (struct archive_pace){0};
    if (!text[0])
        text = conf_setting(CONF_ARCHIVE_EVERY)->fallback;
    if (strspn(text, "0123456789") != strlen(text))
        return duration_parse(text, &pace->ms, err) < 0 ? belay_error_prefix(err, "--archive-every %s", text)
                                                        : 0;
    errno = 0;
    pace->lines = strtoull(text, &end, 10);
    if (errno || pace->lines == 0)
        return belay_error_set(err, EINVAL, "--archive-every %s: give a number of lines from 1 on, or a time",
                               text);
    return 0;
}

bool archive_is_due(const struct archive_pace *pace, struct archive_clock *clock, int64_t now_ms)
{
    clock->lines++;
    bool is_due = pace->lines > 0 ? clock->lines >= pace->lines
                                  : !clock->has_begun || now_ms - clock->at_ms >= (int64_t)pace->ms;
    if (is_due)
        *clock = (struct archive_clock){.at_ms = now_ms, .has_begun = true};
    return is_due;
}
