/* Texts of users and of other processes: settings, names of jobs, placements, the file of --failure-domains.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmd/domain_file.h"
#include "common/conf/conf.h"
#include "common/util/duration.h"
#include "common/util/escape.h"
#include "common/util/size.h"
#include "common/wire/job_name.h"
#include "common/wire/placement.h"
#include "tests/fuzz/target.h"

static void take_settings(const char *text)
{
    struct belay_error err;
    uint64_t value, again;
    char shown[DURATION_TEXT_BYTES > SIZE_TEXT_BYTES ? DURATION_TEXT_BYTES : SIZE_TEXT_BYTES];
    struct conf_pace pace;
    for (int key = CONF_NONE + 1; key < CONF_END; key++) {
        const struct conf_setting *setting = conf_setting(key);
        if (setting->unit >= CONF_UNIT_TIME && setting->unit <= CONF_UNIT_FLAG &&
            conf_number(key, text, &value, &err) == 0)
            must(value >= setting->min && value <= setting->max);
    }
    conf_pace(text, text, text, &pace, &err);
    if (duration_parse(text, &value, &err) == 0 && value > 0)
        must(duration_parse(duration_format(value, shown), &again, &err) == 0 && again == value);
    if (size_parse(text, &value, &err) == 0)
        must(size_parse(size_format(value, shown), &again, &err) == 0 && again == value);
}

static void take_names(const char *text)
{
    char name[JOB_NAME_BYTES], valid[4 * ESCAPE_PATH_BYTES];
    struct belay_error err;
    uint32_t node;
    must((job_name_check(text, &err) == 0) == job_name_is_valid(text));
    job_name_make(text, name);
    must(job_name_is_valid(name));
    if (placement_find(text, 3, 8, &node, &err) == 0)
        must(node < PLACEMENT_NODES_MAX);
    if (placement_find_host(text, "host", &node, &err) == 0)
        must(node < PLACEMENT_NODES_MAX);
    must(strlen(escape_text(valid, sizeof valid, text)) < sizeof valid);
}

static void take_file(const uint8_t *bytes, size_t count)
{
    static const char *const names[] = {"a", "b", "c"};
    struct domains domains = {.count = 0};
    struct belay_error err;
    char path[64];
    int fd = memfd_create("domains", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (domain_file_read(path, names, 3, &domains, &err) == 0)
        for (unsigned node = 0; node < 3; node++)
            must(domains.of[node] < domains.count && domains.count <= 3);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char *text = target_text(bytes, count);
    take_settings(text);
    take_names(text);
    take_file(bytes, count);
    free(text);
    return 0;
}
