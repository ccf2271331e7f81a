#include "node-agent/shared/made.h"

#include <sys/mman.h>

#include "common/wire/descriptor.h"

struct made_list {
    uint32_t count; /* entries that are whole */
    struct renewed_id ids[MADE_IDS_MAX];
};

int made_list_make_memory(struct belay_error *err)
{
    return descriptor_make_memory("belay-renewed", sizeof(struct made_list), err);
}

struct made_list *made_list_map(int fd, struct belay_error *err)
{
    if (descriptor_check_memory(fd, sizeof(struct made_list), "the list of renewed objects", err) < 0)
        return NULL;
    void *memory = mmap(NULL, sizeof(struct made_list), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED)
        return memory;
    belay_error_errno(err, "cannot map the list of renewed objects");
    return NULL;
}

void made_list_unmap(struct made_list *list)
{
    if (list)
        munmap(list, sizeof *list);
}

/* An entry counts once it is whole. */
void made_list_note(struct made_list *list, const struct renewed_id *made)
{
    const struct renewed_id *ids;
    uint32_t count = list ? made_list_read(list, &ids) : 0, i = 0;
    while (i < count && (list->ids[i].kind != made->kind || list->ids[i].id != made->id))
        i++;
    if (!list || i == MADE_IDS_MAX)
        return;
    if (i == count)
        list->ids[i] = *made;
    __atomic_store_n(&list->ids[i].kernel_id, made->kernel_id, __ATOMIC_RELEASE);
    if (i == count)
        __atomic_store_n(&list->count, count + 1, __ATOMIC_RELEASE);
}

uint32_t made_list_read(const struct made_list *list, const struct renewed_id **ids)
{
    uint32_t count = __atomic_load_n(&list->count, __ATOMIC_ACQUIRE);
    *ids = list->ids;
    return count < MADE_IDS_MAX ? count : MADE_IDS_MAX;
}
