#include "node-agent/shared/object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct object *objects_get(struct objects *objects, const struct object_key *key, const char *path)
{
    struct object *object = objects_find(objects, key);
    if (object)
        return object;
    object = calloc(1, sizeof *object);
    if (!object || !(object->path = strdup(path ? path : ""))) {
        free(object);
        errno = ENOMEM;
        return NULL;
    }
    object->key = *key;
    object->record.kind = (uint32_t)key->kind;
    object->record.device = key->device;
    object->record.inode = key->inode;
    content_init(&object->content);
    HASH_ADD(hh, objects->all, key, sizeof object->key, object);
    return object;
}

struct object *objects_find(const struct objects *objects, const struct object_key *key)
{
    struct object *object;
    HASH_FIND(hh, objects->all, key, sizeof *key, object);
    return object;
}

int object_set_path(struct object *object, const char *path)
{
    char *copy = strdup(path);
    if (!copy)
        return -1;
    free(object->path);
    object->path = copy;
    return 0;
}

void objects_remove(struct objects *objects, struct object *object)
{
    HASH_DELETE(hh, objects->all, object);
    content_release(&object->content);
    free(object->path);
    free(object);
}

size_t objects_count(const struct objects *objects)
{
    return HASH_COUNT(objects->all);
}

void objects_release(struct objects *objects)
{
    struct object *object, *next;
    int code = errno;
    HASH_ITER(hh, objects->all, object, next)
    objects_remove(objects, object);
    errno = code;
}
