/* vk_unkept.c - see vk_unkept.h. */
#include "mpi-layer/lower/vk_unkept.h"

#include "mpi-layer/lower/vk.h"

static const char *const texts[VK_UNKEPT_KINDS] = {
    [VK_UNKEPT_QUEUE] = "the program has opened a message queue (mq_open): lines do not keep what is in it, "
                        "and a restart finds that as it is then",
    [VK_UNKEPT_KEY] = "the program has given the kernel a key (add_key): a restart does not do so again",
    [VK_UNKEPT_LEASE] = "the program wants to be told of what others do with a file (F_SETLEASE, F_NOTIFY): "
                        "a restart does not ask for that again",
};

void vk_unkept_tell(enum vk_unkept kind, long result)
{
    const uint32_t bit = 1u << kind;
    if (result >= 0 && vk_is_own_process() && vk_is_rank() &&
        !(__atomic_fetch_or(&VK->unkept_told, bit, __ATOMIC_RELAXED) & bit))
        vk_say(texts[kind], 0, "");
}
