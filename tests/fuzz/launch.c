/*
 * Launch lines of users: the words of a line, each ended by a newline; mpirun is put before them. What is
 * made of them is executed.
 */
#include "cmd/host_line.h"
#include "cmd/launch_line.h"
#include "cmd/launch_words.h"
#include "cmd/string_list.h"
#include "tests/fuzz/target.h"

#define WORDS_MAX 64u

/* The words, in `text`, which they point into. Returns how many. */
static size_t split(char *text, char *words[WORDS_MAX + 1])
{
    size_t count = 0;
    words[count++] = "mpirun";
    for (char *word = strtok(text, "\n"); word && count < WORDS_MAX; word = strtok(NULL, "\n"))
        words[count++] = word;
    words[count] = NULL;
    return count;
}

static size_t length_of(char *const *list)
{
    size_t count = 0;
    while (list[count])
        count++;
    return count;
}

/* NULL, or a list that begins with the launcher; freed. */
static void expect_line(char **line)
{
    if (line)
        must(length_of(line) >= 1 && strcmp(line[0], "mpirun") == 0);
    string_list_free(line);
}

static void walk(char *const words[], size_t count)
{
    for (size_t at = 1, before = 0; at < count; before = at) {
        launch_line_program(words, &at);
        must(at > before && at <= count);
        if (!words[at])
            break;
    }
    for (size_t i = 1; i < count; i++) {
        must(launch_words_skip(words, i) >= i && launch_words_skip(words, i) <= count);
        const char *option = launch_words_option(words[i]);
        must(!option || launch_words_values(option) < count + 8);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char *words[WORDS_MAX + 1], names[32], *hosts[] = {"a", "b", "a", NULL};
    char *const own[] = {"/bin/true", NULL}, *const environment[] = {"LD_PRELOAD=/lib/x.so", "A=b", NULL};
    const struct launch_variables variables = {
        .preload = "/lib/belay.so", .name = "job", .rundir = "/run", .epoch = 1, .hosts = "a,b"};
    char *text = target_text(bytes, count);
    size_t found = split(text, words);
    walk(words, found);
    host_line_names(words, names, sizeof names);
    must(strlen(names) < sizeof names);
    host_line_is_wide(words, environment, "a");
    must(launch_line_name(words));
    launch_line_leaves_output(words);
    launch_line_leaves_input(words);
    char **line = launch_line_build(words, environment, &variables);
    must(line && length_of(line) >= found);
    string_list_free(line);
    string_list_free(launch_environment_build(words, environment, &variables));
    expect_line(host_line_where(words, own));
    expect_line(host_line_spread(words, own));
    expect_line(host_line_start(words, "a", own));
    expect_line(host_line_place(words, hosts, 3));
    free(text);
    return 0;
}
