#include "common/util/array.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 16 };

int array_reserve_sized(void *items, size_t element_bytes, size_t needed, size_t *room)
{
    void *array; /* of whatever type, so that it is copied, not cast */
    if (needed <= *room)
        return 0;
    size_t more = *room ? 2 * *room : FIRST_ROOM;
    more = more < needed ? needed : more;
    memcpy(&array, items, sizeof array);
    array = reallocarray(array, more, element_bytes);
    if (!array)
        return -1;
    memcpy(items, &array, sizeof array);
    *room = more;
    return 0;
}
