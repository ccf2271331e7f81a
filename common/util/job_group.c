#include "common/util/job_group.h"

#include <string.h>

bool job_group_is_it(const char *group)
{
    for (const char *at = strstr(group, "/job_"); at; at = strstr(at + 1, "/job_"))
        if (at[5] >= '0' && at[5] <= '9')
            return true;
    return false;
}
