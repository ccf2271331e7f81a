#include "slurm-plugin/site.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/util/size.h"

#define LAST_LINE_MS 60000

static int take_text(char *to, size_t bytes, const char *word, const char *text, struct belay_error *err)
{
    if (!text[0] || strlen(text) >= bytes)
        return belay_error_set(err, EINVAL, "plugstack.conf: %s= has a value that cannot be used", word);
    snprintf(to, bytes, "%s", text);
    return 0;
}

static int take_memory(struct site *site, const char *text, struct belay_error *err)
{
    return size_parse(text, &site->memory, err) < 0 ? belay_error_prefix(err, "plugstack.conf: memory") : 0;
}

static int take_retention(struct site *site, const char *text, struct belay_error *err)
{
    uint64_t ms;
    return duration_parse(text, &ms, err) < 0
               ? belay_error_prefix(err, "plugstack.conf: retention")
               : take_text(site->retention, sizeof site->retention, "retention", text, err);
}

static int take_last_line(struct site *site, const char *text, struct belay_error *err)
{
    return duration_parse(text, &site->last_line_ms, err) < 0
               ? belay_error_prefix(err, "plugstack.conf: last-line")
               : 0;
}

static int take_group(struct site *site, const char *text, struct belay_error *err)
{
    return strchr(text, '/') || text[0] == '.'
               ? belay_error_set(err, EINVAL, "plugstack.conf: cgroup=%s is not a name", text)
               : take_text(site->group, sizeof site->group, "cgroup", text, err);
}

static int take_folder(struct site *site, const char *text, struct belay_error *err)
{
    return take_text(site->folder, sizeof site->folder, "libdir", text, err);
}

static int take_rundir(struct site *site, const char *text, struct belay_error *err)
{
    return take_text(site->rundir, sizeof site->rundir, "rundir", text, err);
}

static int take_word(struct site *site, const char *word, struct belay_error *err)
{
    static const struct {
        const char *name;
        int (*take)(struct site *site, const char *text, struct belay_error *err);
    } rows[] = {{"cgroup", take_group},  {"last-line", take_last_line}, {"libdir", take_folder},
                {"memory", take_memory}, {"retention", take_retention}, {"rundir", take_rundir}};
    const char *value = strchr(word, '=');
    size_t length = value ? (size_t)(value - word) : 0;
    for (int key = 0; value && key < WISH_KEYS; key++) {
        const char *name = wish_row((enum wish_key)key)->word;
        if (strlen(name) == length && !strncmp(word, name, length))
            return wish_take(&site->wish, (enum wish_key)key, "plugstack.conf", value + 1, err);
    }
    for (size_t i = 0; value && i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].name) == length && !strncmp(word, rows[i].name, length))
            return rows[i].take(site, value + 1, err);
    return belay_error_set(err, EINVAL, "plugstack.conf: '%s' is no word of this plugin", word);
}

int site_read(struct site *site, const char *folder, int count, char *const words[], struct belay_error *err)
{
    struct belay_error later;
    int rc = 0;
    memset(site, 0, sizeof *site);
    snprintf(site->folder, sizeof site->folder, "%s", folder);
    snprintf(site->rundir, sizeof site->rundir, "/tmp");
    snprintf(site->retention, sizeof site->retention, "10m");
    snprintf(site->group, sizeof site->group, "belay");
    site->last_line_ms = LAST_LINE_MS;
    for (int i = 0; i < count; i++)
        if (take_word(site, words[i], rc == 0 ? err : &later) < 0)
            rc = -1;
    return rc;
}

void site_rundir(const struct site *site, unsigned user, char to[SITE_RUNDIR_BYTES])
{
    snprintf(to, SITE_RUNDIR_BYTES, "%s/belay-%u", site->rundir, user);
}
