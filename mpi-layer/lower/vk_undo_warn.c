/* vk_undo_warn.c - files that cannot be protected; see vk_undo_note.h. */
#include "mpi-layer/lower/vk_undo_note.h"

#include <errno.h>

#include "common/util/escape.h"
#include "mpi-layer/lower/vk.h"

static bool has_warned[VK_UNDO_REASONS];

enum vk_undo_reason vk_undo_reason_of(long error)
{
    return error == -EFBIG ? VK_UNDO_LENGTH : VK_UNDO_NOT_WRITTEN;
}

static const char *text_of(enum vk_undo_reason reason)
{
    switch (reason) {
    case VK_UNDO_UNREADABLE:
        return "it cannot be read";
    case VK_UNDO_LIMIT:
        return "more would have to be kept of it than --undo-limit allows";
    case VK_UNDO_TOTAL:
        return "more would have to be kept for the job than --undo-total allows";
    case VK_UNDO_FULL:
        return "the file system of the undo folder would get too full (--undo-dir)";
    case VK_UNDO_MEMORY:
        return "too little memory would be left, which the undo folder is in (--undo-dir)";
    case VK_UNDO_NOT_WRITTEN:
        return "its old content could not be written to the undo folder, which may be full (--undo-dir)";
    case VK_UNDO_LENGTH:
        return "the hard limit of the length of files forbids to keep its old content (ulimit -f)";
    case VK_UNDO_NO_PATH:
        return "its path cannot be told, or is longer than 4095 bytes";
    case VK_UNDO_FOREIGN:
        return "it belongs to another user, and no link to it can be kept";
    default:
        return "it could not be kept";
    }
}

/* Once for each rank and reason: the first file tells what is to be done about it. */
static void warn(const char *path, enum vk_undo_reason reason)
{
    char text[ESCAPE_PATH_BYTES + 256], *at = text;
    if (has_warned[reason])
        return;
    has_warned[reason] = true;
    at = vk_text_put(at, "belay: ");
    escape_text(at, ESCAPE_PATH_BYTES, path);
    at += vk_text_length(at);
    at = vk_text_put(at, " is not protected: ");
    at = vk_text_put(at, text_of(reason));
    at = vk_text_put(at, "; a restart will find it as it is then\n");
    raw3(SYS_write, 2, text, at - text);
}

void vk_undo_give_up(const char *path, const struct file_id *id, enum vk_undo_reason reason)
{
    warn(path, reason);
    vk_undo_log(&(struct vk_undo_note){
        .kind = UNDO_UNPROTECTED, .mode = (uint32_t)reason, .id = *id, .path = path[0] == '/' ? path : "/"});
}
