/*
 * settings.h - the settings of a job: from the words of a user to a message (settings.proto), and the new
 * ones of a restart over the recorded ones. No function here knows a setting by itself but the pace of lines.
 */
#ifndef BELAY_COMMON_WIRE_SETTINGS_H
#define BELAY_COMMON_WIRE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/conf/conf.h"
#include "common/util/error.h"
#include "common/wire/settings.pb-c.h"

/* How many settings a job has, and which: settings_key(0) to settings_key(settings_count() - 1). */
size_t settings_count(void);
enum conf_key settings_key(size_t index);

/*
 * Fill *settings, which is initialised and empty. options[key] is the option's text, NULL: not given;
 * `options` may be NULL. What is not an option comes from the environment, and else, if is_complete, from the
 * table's defaults; if not, it is left out. The texts are the message's own: settings_release(). 0, or -1
 * with err, which names the source of a value that is refused; *settings is empty then.
 */
int settings_read(Belay__Wire__JobSettings *settings, const char *const options[CONF_END], bool is_complete,
                  struct belay_error *err);

/*
 * Put all that `given` has over what *settings has. How often lines are taken is one thing: if `given` says
 * something of it, all of it is replaced. 0, or -1 with ENOMEM.
 */
int settings_merge(Belay__Wire__JobSettings *settings, const Belay__Wire__JobSettings *given);

/* Free the texts that settings_read() and settings_merge() made; *settings is empty afterwards. */
void settings_release(Belay__Wire__JobSettings *settings);

#endif
