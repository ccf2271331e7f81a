#include "node-agent/shared/sysv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

#include "common/wire/shares.h"

#ifndef MSG_COPY
#define MSG_COPY 040000
#endif
/* Of one message; the kernel's own limit is 8 KiB unless it was raised. */
#define TEXT_BYTES_MAX (16u << 20)

union semaphores { /* the caller of semctl(2) has to define it */
    int value;
    struct semid_ds *set;
    unsigned short *values;
};

static bool note_segment(struct object *object, int id);
static bool note_sems(struct object *object, int id);
static bool note_messages(struct object *object, int id);
static char *copy_messages(int id, size_t *bytes);
static void take_permissions(struct shared_record *record, const struct ipc_perm *perm);
static bool fail(struct object *object);
static bool is_still_there(const struct shared_record *record);
static int make(struct shared_record *record);
static bool is_ours(const struct shared_record *record);
static int make_with(const struct shared_record *record, int flags);
static int set_permissions(const struct shared_record *record);
static int put_sems(const struct shared_record *record, const char *contents);
static int put_messages(const struct shared_record *record, const char *contents);

bool sysv_note(struct object *object)
{
    int id = (int)(uint32_t)object->key.inode;
    object->record.kernel_id = id;
    if (!object->has_id)
        object->record.id = id;
    switch (object->key.kind) {
    case SHARED_SEGMENT:
        return note_segment(object, id);
    case SHARED_SEMS:
        return note_sems(object, id);
    case SHARED_MESSAGES:
        return note_messages(object, id);
    }
    return false;
}

int sysv_renew(struct shared_record *record, const char *contents, struct made_list *made,
               struct belay_error *err)
{
    static const char *const names[] = {[SHARED_SEGMENT] = "memory segment",
                                        [SHARED_SEMS] = "semaphores",
                                        [SHARED_MESSAGES] = "message queue"};
    int rc = 0;
    if (!is_still_there(record)) {
        int id = make(record);
        if (id < 0)
            return belay_error_errno(err, "cannot make the System V %s of id %d and key 0x%x again",
                                     names[record->kind], record->id, (unsigned)record->key);
        record->kernel_id = id;
        made_list_note(made, &(struct renewed_id){record->kind, record->id, id});
    }
    rc = set_permissions(record);
    if (rc == 0 && record->kind == SHARED_SEMS)
        rc = put_sems(record, contents);
    if (rc == 0 && record->kind == SHARED_MESSAGES)
        rc = put_messages(record, contents);
    return rc == 0 ? 0
                   : belay_error_errno(err, "cannot put the System V %s of id %d back", names[record->kind],
                                       record->id);
}

char *sysv_attach(const struct shared_record *record, struct belay_error *err)
{
    char *memory = shmat(record->kernel_id, NULL, 0);
    if (memory != (char *)-1)
        return memory;
    belay_error_errno(err, "cannot attach the System V memory segment of id %d", record->id);
    return NULL;
}

int sysv_remove(uint32_t kind, int32_t id)
{
    int rc = -1;
    errno = 0;
    if (kind == SHARE_SEGMENT)
        rc = shmctl(id, IPC_RMID, NULL);
    else if (kind == SHARE_SEMS)
        rc = semctl(id, 0, IPC_RMID);
    else if (kind == SHARE_MESSAGES)
        rc = msgctl(id, IPC_RMID, NULL);
    return rc == 0 || errno == EINVAL || errno == EIDRM ? 0 : -1;
}

int sysv_remove_key(uint32_t kind, int32_t key, uint64_t since_ns)
{
    struct shmid_ds segment = {.shm_ctime = 0};
    struct semid_ds set = {.sem_ctime = 0};
    struct msqid_ds queue = {.msg_ctime = 0};
    const struct ipc_perm *perm = &queue.msg_perm;
    time_t made = 0;
    int id = -1, rc = -1;
    if (kind == SHARE_SEGMENT && (id = shmget(key, 0, 0)) >= 0) {
        rc = shmctl(id, IPC_STAT, &segment);
        perm = &segment.shm_perm;
        made = segment.shm_ctime;
    } else if (kind == SHARE_SEMS && (id = semget(key, 0, 0)) >= 0) {
        rc = semctl(id, 0, IPC_STAT, (union semaphores){.set = &set});
        perm = &set.sem_perm;
        made = set.sem_ctime;
    } else if (kind == SHARE_MESSAGES && (id = msgget(key, 0)) >= 0) {
        rc = msgctl(id, IPC_STAT, &queue);
        made = queue.msg_ctime;
    }
    bool is_ours = rc == 0 && perm->cuid == geteuid() && (uint64_t)made >= since_ns / 1000000000u;
    return is_ours ? sysv_remove(kind, id) : 0;
}

static bool note_segment(struct object *object, int id)
{
    struct shmid_ds segment;
    if (shmctl(id, IPC_STAT, &segment) < 0)
        return fail(object);
    take_permissions(&object->record, &segment.shm_perm);
    if (segment.shm_perm.mode & SHM_DEST)
        object->record.flags |= SHARED_IS_REMOVED;
    void *memory = shmat(id, NULL, SHM_RDONLY);
    if (memory == (void *)-1)
        return fail(object);
    object->content.memory = memory;
    object->content.is_attached = true;
    object->content.bytes = segment.shm_segsz;
    return true;
}

static bool note_sems(struct object *object, int id)
{
    struct semid_ds set;
    if (semctl(id, 0, IPC_STAT, (union semaphores){.set = &set}) < 0)
        return fail(object);
    take_permissions(&object->record, &set.sem_perm);
    unsigned short *values = calloc(set.sem_nsems, sizeof *values);
    if (!values || semctl(id, 0, GETALL, (union semaphores){.values = values}) < 0) {
        free(values);
        return fail(object);
    }
    object->content.memory = (const char *)values;
    object->content.bytes = set.sem_nsems * sizeof *values;
    return true;
}

static bool note_messages(struct object *object, int id)
{
    struct msqid_ds queue;
    size_t bytes;
    if (msgctl(id, IPC_STAT, &queue) < 0)
        return fail(object);
    take_permissions(&object->record, &queue.msg_perm);
    object->record.limit_bytes = queue.msg_qbytes;
    char *messages = copy_messages(id, &bytes);
    if (!messages)
        return fail(object);
    object->content.memory = messages;
    object->content.bytes = bytes;
    return true;
}

/* One after the other, without taking them out. NULL with errno. */
static char *copy_messages(int id, size_t *bytes)
{
    struct msgbuf *message = malloc(sizeof *message + TEXT_BYTES_MAX);
    char *all = malloc(1);
    size_t used = 0;
    for (long i = 0; message && all; i++) {
        ssize_t got = msgrcv(id, message, TEXT_BYTES_MAX, i, IPC_NOWAIT | MSG_COPY);
        if (got < 0 && errno == ENOMSG)
            break;
        size_t padded = got < 0 ? 0 : ((size_t)got + 7) & ~(size_t)7;
        char *larger = got < 0 ? NULL : realloc(all, used + sizeof(struct shared_message) + padded);
        if (!larger) {
            free(all);
            all = NULL;
            break;
        }
        struct shared_message head = {message->mtype, (uint64_t)got};
        all = larger;
        memcpy(all + used, &head, sizeof head);
        memset(all + used + sizeof head, 0, padded);
        memcpy(all + used + sizeof head, message->mtext, (size_t)got);
        used += sizeof head + padded;
    }
    free(message);
    *bytes = used;
    return all;
}

static void take_permissions(struct shared_record *record, const struct ipc_perm *perm)
{
    record->mode = perm->mode & 0777;
    record->uid = perm->uid;
    record->gid = perm->gid;
    record->key = perm->__key;
}

static bool fail(struct object *object)
{
    object->is_gone = errno == EINVAL || errno == EIDRM;
    return false;
}

/* Ids are not used again for very long; a removed segment lives on while a forked child has it. */
static bool is_still_there(const struct shared_record *record)
{
    struct shmid_ds segment;
    struct semid_ds set;
    struct msqid_ds queue;
    switch (record->kind) {
    case SHARED_SEGMENT:
        return shmctl(record->kernel_id, IPC_STAT, &segment) == 0 && segment.shm_segsz == record->bytes &&
               !(segment.shm_perm.mode & SHM_DEST) == !(record->flags & SHARED_IS_REMOVED);
    case SHARED_SEMS:
        return semctl(record->kernel_id, 0, IPC_STAT, (union semaphores){.set = &set}) == 0 &&
               set.sem_nsems * sizeof(unsigned short) == record->bytes;
    case SHARED_MESSAGES:
        return msgctl(record->kernel_id, IPC_STAT, &queue) == 0;
    }
    return false;
}

/*
 * An object of ours that has the key was made by an agent that is gone now: what the ranks had made after the
 * line was removed before.
 */
static int make(struct shared_record *record)
{
    int id = make_with(record, (int)record->mode | IPC_CREAT | IPC_EXCL);
    if (id >= 0 || errno != EEXIST)
        return id;
    record->kernel_id = make_with(record, 0);
    if (record->kernel_id >= 0 && is_still_there(record) && is_ours(record))
        return record->kernel_id;
    errno = EEXIST;
    return -1;
}

static bool is_ours(const struct shared_record *record)
{
    struct shmid_ds segment;
    struct semid_ds set;
    struct msqid_ds queue;
    switch (record->kind) {
    case SHARED_SEGMENT:
        return shmctl(record->kernel_id, IPC_STAT, &segment) == 0 && segment.shm_perm.cuid == geteuid();
    case SHARED_SEMS:
        return semctl(record->kernel_id, 0, IPC_STAT, (union semaphores){.set = &set}) == 0 &&
               set.sem_perm.cuid == geteuid();
    default:
        return msgctl(record->kernel_id, IPC_STAT, &queue) == 0 && queue.msg_perm.cuid == geteuid();
    }
}

/* A removed segment has lost its key. */
static int make_with(const struct shared_record *record, int flags)
{
    switch (record->kind) {
    case SHARED_SEGMENT:
        return shmget(record->flags & SHARED_IS_REMOVED ? IPC_PRIVATE : record->key, record->bytes, flags);
    case SHARED_SEMS:
        return semget(record->key, (int)(record->bytes / sizeof(unsigned short)), flags);
    case SHARED_MESSAGES:
        return msgget(record->key, flags);
    }
    errno = EINVAL;
    return -1;
}

/* Those of somebody else's object are his. */
static int set_permissions(const struct shared_record *record)
{
    struct shmid_ds segment = {.shm_perm = {.uid = record->uid, .gid = record->gid}};
    struct semid_ds set = {.sem_perm = {.uid = record->uid, .gid = record->gid}};
    struct msqid_ds queue = {.msg_perm = {.uid = record->uid, .gid = record->gid},
                             .msg_qbytes = record->limit_bytes};
    int rc;
    segment.shm_perm.mode = set.sem_perm.mode = queue.msg_perm.mode = (unsigned short)record->mode;
    if (record->kind == SHARED_SEGMENT)
        rc = shmctl(record->kernel_id, IPC_SET, &segment);
    else if (record->kind == SHARED_SEMS)
        rc = semctl(record->kernel_id, 0, IPC_SET, (union semaphores){.set = &set});
    else
        rc = msgctl(record->kernel_id, IPC_SET, &queue);
    return rc < 0 && errno == EPERM ? 0 : rc;
}

static int put_sems(const struct shared_record *record, const char *contents)
{
    unsigned short *values = (unsigned short *)(uintptr_t)(const void *)contents;
    return semctl(record->kernel_id, 0, SETALL, (union semaphores){.values = values});
}

static int put_messages(const struct shared_record *record, const char *contents)
{
    struct msgbuf *message = malloc(sizeof *message + TEXT_BYTES_MAX);
    int rc = message ? 0 : -1;
    while (message && msgrcv(record->kernel_id, message, TEXT_BYTES_MAX, 0, IPC_NOWAIT | MSG_NOERROR) >= 0)
        ;
    for (uint64_t at = 0; rc == 0 && at + sizeof(struct shared_message) <= record->bytes;) {
        struct shared_message head;
        memcpy(&head, contents + at, sizeof head);
        at += sizeof head;
        if (head.bytes > record->bytes - at || head.bytes > TEXT_BYTES_MAX) {
            errno = EINVAL;
            rc = -1;
            break;
        }
        message->mtype = head.type;
        memcpy(message->mtext, contents + at, head.bytes);
        rc = msgsnd(record->kernel_id, message, head.bytes, IPC_NOWAIT);
        at += (head.bytes + 7) & ~7ull;
    }
    free(message);
    return rc;
}
