/* tools.c - see tools.h. */
#include "mpi-layer/entry/tools.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct symbols {
    const Elf64_Sym *table;
    const char *names;
    uint32_t count;
};

/* The number of symbols is told by the hash table only: one more than the last of the longest chain's. */
static uint32_t count_symbols(const uint32_t *hash)
{
    uint32_t buckets = hash[0], first = hash[1], filters = hash[2], last = 0;
    const uint32_t *bucket = hash + 4 + 2 * filters, *chain = bucket + buckets;
    for (uint32_t i = 0; i < buckets; i++)
        if (bucket[i] > last)
            last = bucket[i];
    if (last < first)
        return 0;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

static struct symbols symbols_of(const struct link_map *object)
{
    struct symbols symbols = {NULL, NULL, 0};
    for (const Elf64_Dyn *d = object->l_ld; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            symbols.table = (const Elf64_Sym *)d->d_un.d_ptr;
        else if (d->d_tag == DT_STRTAB)
            symbols.names = (const char *)d->d_un.d_ptr;
        else if (d->d_tag == DT_GNU_HASH)
            symbols.count = count_symbols((const uint32_t *)d->d_un.d_ptr);
    }
    return symbols;
}

/* Where the object lies that defines the name, NULL: nowhere. */
static const void *base_of(const char *name)
{
    Dl_info info;
    const void *address = dlsym(RTLD_DEFAULT, name);
    return address && dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* Does the object define a function of MPI, one whose PMPI_ name is libmpi's? */
static bool is_tool(const struct link_map *object, const void *libmpi)
{
    struct symbols symbols = symbols_of(object);
    for (uint32_t i = 0; i < symbols.count; i++) {
        const Elf64_Sym *symbol = &symbols.table[i];
        const char *name = symbols.names + symbol->st_name;
        char real[128];
        if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC ||
            strncmp(name, "MPI_", 4))
            continue;
        snprintf(real, sizeof real, "P%s", name);
        if (base_of(real) == libmpi)
            return true;
    }
    return false;
}

/* The list with a library in front of it or behind it; the old one is freed. NULL is the empty list. */
static char *join(char *list, const char *name, bool is_first)
{
    char *longer = NULL;
    if (!list)
        return strdup(name);
    if (asprintf(&longer, "%s %s", is_first ? name : list, is_first ? list : name) < 0)
        return list;
    free(list);
    return longer;
}

/* It has to be the first of all libraries, and ends the program where it is not. */
static bool is_sanitizer(const struct link_map *object)
{
    const char *slash = strrchr(object->l_name, '/'), *name = slash ? slash + 1 : object->l_name;
    return !strncmp(name, "libasan.so", strlen("libasan.so"));
}

void tools_export(void)
{
    const void *libmpi = base_of("PMPI_Init");
    void *program = dlopen(NULL, RTLD_LAZY);
    struct link_map *map = NULL;
    char *list = NULL;
    bool is_before = true; /* libmpi */
    if (!libmpi || !program || dlinfo(program, RTLD_DI_LINKMAP, &map))
        return;
    while ((map = map->l_next)) { /* the program itself comes first */
        is_before = is_before && (const void *)map->l_addr != libmpi;
        if (!strchr(map->l_name, '/')) /* the kernel's vdso */
            continue;
        if (is_sanitizer(map))
            list = join(list, map->l_name, true);
        else if (is_before && is_tool(map, libmpi))
            list = join(list, map->l_name, false);
    }
    if (list)
        setenv("BELAY_LINKED_TOOLS", list, 1);
    free(list);
}
