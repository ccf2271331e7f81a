/* settings.c - see settings.h. Fields are found by the names of settings, and set by the message's
 * descriptor. */
#include "common/wire/settings.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NAME_BYTES = 48 };

static const ProtobufCFieldDescriptor *field_at(size_t index)
{
    return &belay__wire__job_settings__descriptor.fields[index];
}

size_t settings_count(void)
{
    return belay__wire__job_settings__descriptor.n_fields;
}

/* "undo-limit", a size: undo_limit_bytes. */
static void make_field_name(const struct conf_setting *setting, char name[NAME_BYTES])
{
    const char *unit = setting->unit == CONF_UNIT_TIME   ? "_ms"
                       : setting->unit == CONF_UNIT_SIZE ? "_bytes"
                                                         : "";
    snprintf(name, NAME_BYTES, "%s%s", setting->name, unit);
    for (char *at = name; *at; at++)
        if (*at == '-')
            *at = '_';
}

enum conf_key settings_key(size_t index)
{
    char name[NAME_BYTES];
    for (enum conf_key key = CONF_NONE + 1; key < CONF_END; key++) {
        make_field_name(conf_setting(key), name);
        if (!strcmp(name, field_at(index)->name))
            return key;
    }
    return CONF_NONE;
}

/* ---- one field ---- */

static void *value_of(const Belay__Wire__JobSettings *settings, const ProtobufCFieldDescriptor *field)
{
    return (char *)(uintptr_t)settings + field->offset;
}

static bool is_text(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_STRING;
}

static char **text_of(const Belay__Wire__JobSettings *settings, const ProtobufCFieldDescriptor *field)
{
    return value_of(settings, field);
}

static protobuf_c_boolean *presence_of(const Belay__Wire__JobSettings *settings,
                                       const ProtobufCFieldDescriptor *field)
{
    return (protobuf_c_boolean *)(void *)((char *)(uintptr_t)settings + field->quantifier_offset);
}

/* An empty text is as good as none. */
static bool is_given(const Belay__Wire__JobSettings *settings, const ProtobufCFieldDescriptor *field)
{
    return is_text(field) ? **text_of(settings, field) : *presence_of(settings, field);
}

static void clear(Belay__Wire__JobSettings *settings, const ProtobufCFieldDescriptor *field)
{
    if (!is_text(field)) {
        *(uint64_t *)value_of(settings, field) = 0;
        *presence_of(settings, field) = false;
        return;
    }
    char **text = text_of(settings, field);
    if (*text != field->default_value)
        free(*text);
    *text = (char *)(uintptr_t)field->default_value;
}

static void set_number(Belay__Wire__JobSettings *settings, const ProtobufCFieldDescriptor *field,
                       uint64_t number)
{
    *(uint64_t *)value_of(settings, field) = number;
    *presence_of(settings, field) = true;
}

static int set_text(Belay__Wire__JobSettings *settings, const ProtobufCFieldDescriptor *field,
                    const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        return -1;
    clear(settings, field);
    *text_of(settings, field) = copy;
    return 0;
}

/* ---- how often lines are taken ---- */

static bool is_of_pace(enum conf_key key)
{
    return key == CONF_INTERVAL || key == CONF_MTBF || key == CONF_DUTY_CYCLE;
}

static int read_pace(Belay__Wire__JobSettings *settings, const char *const options[CONF_END],
                     struct belay_error *err)
{
    struct conf_pace pace;
    if (conf_pace(options[CONF_INTERVAL], options[CONF_MTBF], options[CONF_DUTY_CYCLE], &pace, err) < 0)
        return -1;
    settings->has_interval_ms = pace.interval_ms > 0;
    settings->interval_ms = pace.interval_ms;
    settings->has_mtbf_ms = settings->has_duty_cycle = pace.mtbf_ms > 0;
    settings->mtbf_ms = pace.mtbf_ms;
    settings->duty_cycle = pace.duty_percent;
    return 0;
}

static void clear_pace(Belay__Wire__JobSettings *settings)
{
    settings->interval_ms = settings->mtbf_ms = settings->duty_cycle = 0;
    settings->has_interval_ms = settings->has_mtbf_ms = settings->has_duty_cycle = false;
}

/* ---- all of them ---- */

static int read_path(Belay__Wire__JobSettings *settings, const ProtobufCFieldDescriptor *field,
                     const char *text, const struct conf_setting *setting, struct belay_error *err)
{
    char path[PATH_MAX];
    struct stat found;
    if (!realpath(text, path) || stat(path, &found) < 0)
        return belay_error_errno(err, "--%s %s", setting->name, text);
    bool wants_folder = setting->unit == CONF_UNIT_FOLDER;
    if (wants_folder != !!S_ISDIR(found.st_mode)) {
        errno = wants_folder ? ENOTDIR : EISDIR;
        return belay_error_errno(err, "--%s %s", setting->name, text);
    }
    return set_text(settings, field, path) == 0 ? 0 : belay_error_set(err, ENOMEM, "no memory for settings");
}

static int read_one(Belay__Wire__JobSettings *settings, const ProtobufCFieldDescriptor *field,
                    enum conf_key key, const char *option, bool is_complete, struct belay_error *err)
{
    const struct conf_setting *setting = conf_setting(key);
    const char *text = conf_text(key, option);
    uint64_t number;
    if (!text || (text == setting->fallback && !is_complete))
        return 0;
    if (setting->unit == CONF_UNIT_FOLDER || setting->unit == CONF_UNIT_FILE)
        return read_path(settings, field, text, setting, err);
    if (is_text(field))
        return set_text(settings, field, text) == 0 ? 0
                                                    : belay_error_set(err, ENOMEM, "no memory for settings");
    if (conf_number(key, option, &number, err) < 0)
        return -1;
    set_number(settings, field, number);
    return 0;
}

int settings_read(Belay__Wire__JobSettings *settings, const char *const options[CONF_END], bool is_complete,
                  struct belay_error *err)
{
    static const char *const none[CONF_END];
    options = options ? options : none;
    int rc = read_pace(settings, options, err);
    for (size_t i = 0; rc == 0 && i < settings_count(); i++) {
        enum conf_key key = settings_key(i);
        if (!is_of_pace(key))
            rc = read_one(settings, field_at(i), key, options[key], is_complete, err);
    }
    if (rc < 0)
        settings_release(settings);
    return rc;
}

int settings_merge(Belay__Wire__JobSettings *settings, const Belay__Wire__JobSettings *given)
{
    if (given->interval_ms || given->mtbf_ms)
        clear_pace(settings);
    for (size_t i = 0; i < settings_count(); i++) {
        const ProtobufCFieldDescriptor *field = field_at(i);
        if (!is_given(given, field))
            continue;
        if (!is_text(field))
            set_number(settings, field, *(uint64_t *)value_of(given, field));
        else if (set_text(settings, field, *text_of(given, field)) < 0)
            return -1;
    }
    return 0;
}

void settings_release(Belay__Wire__JobSettings *settings)
{
    for (size_t i = 0; i < settings_count(); i++)
        clear(settings, field_at(i));
}
