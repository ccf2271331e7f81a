#include "cmd/session.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/tree.h"

/* By which a parameter of Open MPI is given on its command line. */
static const char *const options[] = {"--mca", "-mca", "--gmca", "-gmca"};
static const char *const parameters[] = {"orte_local_tmpdir_base", "orte_tmpdir_base"};
/* Where Open MPI looks else (opal_tmp_directory()). */
static const char *const variables[] = {"OMPI_MCA_orte_local_tmpdir_base", "OMPI_MCA_orte_tmpdir_base",
                                        "TMPDIR", "TEMP", "TMP"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_option(const char *word)
{
    for (size_t i = 0; i < COUNT(options); i++)
        if (!strcmp(word, options[i]))
            return true;
    return false;
}

/* The parameter's value on the line, NULL: it is not given there. */
static const char *find_parameter(char *const *argv, const char *name)
{
    for (size_t i = 0; argv[i] && argv[i + 1] && argv[i + 2]; i++)
        if (is_option(argv[i]) && !strcmp(argv[i + 1], name))
            return argv[i + 2];
    return NULL;
}

static const char *find_variable(char *const *environment, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; environment[i]; i++)
        if (!strncmp(environment[i], name, length) && environment[i][length] == '=' &&
            environment[i][length + 1])
            return environment[i] + length + 1;
    return NULL;
}

const char *session_base(char *const *argv, char *const *environment)
{
    const char *base = NULL;
    for (size_t i = 0; !base && i < COUNT(parameters); i++)
        base = find_parameter(argv, parameters[i]);
    for (size_t i = 0; !base && i < COUNT(variables); i++)
        base = find_variable(environment, variables[i]);
    return base ? base : "/tmp";
}

static bool is_own_folder(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/* Where a node of this name has it. */
static void remove_of(const char *base, const char *node, pid_t launcher)
{
    char top[PATH_MAX], session[PATH_MAX + 32];
    if (snprintf(top, sizeof top, "%s/ompi.%s.%lu", base, node, (unsigned long)geteuid()) >= (int)sizeof top)
        return;
    snprintf(session, sizeof session, "%s/pid.%d", top, (int)launcher);
    if (!is_own_folder(top) || !is_own_folder(session))
        return;
    tree_remove(session);
    rmdir(top); /* fails while other launches use it, as it should */
}

/* Open MPI calls a node by its host name, and leaves the domain out unless it is told otherwise. */
void session_remove(const char *base, pid_t launcher)
{
    char node[HOST_NAME_MAX + 1];
    if (launcher <= 0 || gethostname(node, sizeof node) < 0)
        return;
    node[sizeof node - 1] = '\0';
    remove_of(base, node, launcher);
    char *dot = strchr(node, '.');
    if (!dot)
        return;
    *dot = '\0';
    remove_of(base, node, launcher);
}
