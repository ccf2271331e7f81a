#include "cmd/domain_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/escape.h"
#include "coord/domains.h"

#define NO_DOMAIN UINT32_MAX
#define LINES_MAX 100000u /* of a file of hosts */

static const char blanks[] = " \t\r\n";

/* A file that is being read. */
struct reading {
    const char *path;
    unsigned line;
    const char *const *names;
    uint32_t count;
    struct domains *domains;
    struct belay_error *err;
};

static int refuse(const struct reading *reading, const char *what, const char *word)
{
    char shown[ESCAPE_PATH_BYTES], name[ESCAPE_PATH_BYTES];
    return belay_error_set(reading->err, EINVAL, "--failure-domains %.200s, line %u: %.100s %s",
                           escape_text(shown, sizeof shown, reading->path), reading->line,
                           escape_text(name, sizeof name, word), what);
}

/* The number of the domain; a new one is added. There are at most as many as nodes: others are not kept. */
static uint32_t find_domain(struct domains *domains, const char *name)
{
    uint32_t number = 0;
    while (number < domains->count && strcmp(domains->names[number], name) != 0)
        number++;
    if (number == domains->count) {
        snprintf(domains->names[number], sizeof domains->names[number], "%s", name);
        domains->count++;
    }
    return number;
}

static int take_host(struct reading *reading, const char *domain, const char *host)
{
    struct domains *domains = reading->domains;
    uint32_t node = 0;
    while (node < reading->count && strcmp(reading->names[node], host) != 0)
        node++;
    if (node == reading->count)
        return 0;
    bool is_again = domains->of[node] != NO_DOMAIN && strcmp(domains->names[domains->of[node]], domain) != 0;
    if (is_again)
        return refuse(reading, "is in another domain already", host);
    if (domains->of[node] == NO_DOMAIN)
        domains->of[node] = find_domain(domains, domain);
    return 0;
}

/* Changes the line. */
static int take_line(struct reading *reading, char *line)
{
    char *rest = NULL;
    line[strcspn(line, "#")] = '\0';
    const char *domain = strtok_r(line, blanks, &rest), *host;
    if (!domain)
        return 0;
    if (strlen(domain) >= DOMAIN_NAME_BYTES)
        return refuse(reading, "is too long for the name of a domain", domain);
    host = strtok_r(NULL, blanks, &rest);
    if (!host)
        return refuse(reading, "has no host", domain);
    for (; host; host = strtok_r(NULL, blanks, &rest))
        if (take_host(reading, domain, host) < 0)
            return -1;
    return 0;
}

static int take_file(struct reading *reading, FILE *file)
{
    char *line = NULL;
    size_t room = 0;
    int rc = 0;
    errno = 0;
    for (; rc == 0 && getline(&line, &room, file) >= 0; errno = 0)
        rc = ++reading->line > LINES_MAX ? refuse(reading, "is too much for a file of hosts", "this")
                                         : take_line(reading, line);
    if (rc == 0 && errno != 0)
        rc = belay_error_errno(reading->err, "--failure-domains %.200s", reading->path);
    free(line);
    return rc;
}

int domain_file_read(const char *path, const char *const *names, uint32_t count, struct domains *domains,
                     struct belay_error *err)
{
    struct reading reading = {.path = path, .names = names, .count = count, .domains = domains, .err = err};
    FILE *file = fopen(path, "re");
    if (!file)
        return belay_error_errno(err, "--failure-domains %.200s", path);
    domains->count = 0;
    for (uint32_t node = 0; node < PLACEMENT_NODES_MAX; node++)
        domains->of[node] = NO_DOMAIN;
    int rc = take_file(&reading, file);
    fclose(file);
    for (uint32_t node = 0; rc == 0 && node < count; node++)
        if (domains->of[node] == NO_DOMAIN)
            rc = belay_error_set(err, EINVAL, "--failure-domains %.200s: node %.100s is in no domain", path,
                                 names[node]);
    return rc;
}

int domains_check(const struct domains *domains, const char *path, uint32_t count, struct parity_code code,
                  struct belay_error *err)
{
    uint32_t nodes[PLACEMENT_NODES_MAX], large = 0;
    for (uint32_t node = 0; node < count; node++)
        nodes[node] = node;
    uint32_t size = domains_find_large(nodes, count, domains->of, code, &large);
    if (size == 0)
        return 0;
    if (code.parity > 0)
        return belay_error_set(
            err, ERANGE,
            "--failure-domains %.200s: %u of the job's %u nodes are in domain %.100s, more "
            "than all sets of nodes together may lose",
            path, size, count, domains->names[large]);
    return belay_error_set(
        err, ERANGE,
        "--failure-domains %.200s: %u of the job's %u nodes are in domain %.100s, so that not all "
        "of them can have their copies in another one",
        path, size, count, domains->names[large]);
}
