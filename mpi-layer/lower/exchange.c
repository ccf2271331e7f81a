/* exchange.c - see exchange.h. */
#include "mpi-layer/lower/exchange.h"

#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/wire/board_client.h"

#define LOOK_MS 2000 /* for what has been said already */

/* What is asked of the server. If nobody waits for the answer any more, it is never freed: the answer may
 * come. */
struct question {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool is_answered;
    pmix_status_t status;
    uint32_t number;                /* the answer, if it is a number */
    char text[EXCHANGE_TEXT_BYTES]; /* the answer, if it is a text; "": it is none, or too long */
};

/* Whoever else takes part is of the same version of Belay. */
static const char *const board_keys[BOARD_KEYS] = {
    [BOARD_HOST] = "belay.host", [BOARD_LISTEN] = "belay.listen", [BOARD_EPOCH] = "belay.epoch"};
_Static_assert(BOARD_TEXT_BYTES == EXCHANGE_TEXT_BYTES, "texts of both fit the other");

static pmix_proc_t self;
static bool is_open;
static int board = -1; /* -1: PMIx is used */

static int fail(const char *what, pmix_status_t status, struct belay_error *err)
{
    return belay_error_set(err, EIO, "PMIx %s: %s", what, PMIx_Error_string(status));
}

static enum board_key key_on_board(const char *name)
{
    enum board_key key = BOARD_HOST;
    while (key + 1 < BOARD_KEYS && strcmp(board_keys[key], name) != 0)
        key++;
    return key;
}

bool exchange_has_board(void)
{
    return getenv(BOARD_VARIABLE);
}

int exchange_open(uint32_t rank, struct belay_error *err)
{
    if (exchange_has_board()) {
        board = board_open(getenv(BOARD_VARIABLE), rank, err);
        return board < 0 ? -1 : 0;
    }
    pmix_status_t status = PMIx_Init(&self, NULL, 0);
    if (status != PMIX_SUCCESS)
        return fail("does not begin", status, err);
    is_open = true;
    if (self.rank != rank)
        return belay_error_set(err, EINVAL, "PMIx says that this is rank %u, and the launcher rank %u",
                               self.rank, rank);
    return 0;
}

int exchange_put(const char *key, const char *text, struct belay_error *err)
{
    pmix_value_t value;
    if (board >= 0)
        return board_put(board, key_on_board(key), text, err);
    PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
    PMIX_VALUE_DESTRUCT(&value);
    if (status == PMIX_SUCCESS)
        status = PMIx_Commit();
    return status == PMIX_SUCCESS ? 0 : fail("takes no text", status, err);
}

static struct question *ask(void)
{
    struct question *question = calloc(1, sizeof *question);
    if (!question)
        return NULL;
    pthread_mutex_init(&question->lock, NULL);
    pthread_cond_init(&question->answered, NULL);
    return question;
}

/* In PMIx's thread. */
static void on_over(pmix_status_t status, void *context)
{
    struct question *question = context;
    pthread_mutex_lock(&question->lock);
    question->status = status;
    question->is_answered = true;
    pthread_cond_signal(&question->answered);
    pthread_mutex_unlock(&question->lock);
}

/* The same. The value is PMIx's. */
static void on_value(pmix_status_t status, pmix_value_t *value, void *context)
{
    struct question *question = context;
    if (status == PMIX_SUCCESS && value && value->type == PMIX_UINT32)
        question->number = value->data.uint32;
    if (status == PMIX_SUCCESS && value && value->type == PMIX_STRING && value->data.string &&
        strlen(value->data.string) < sizeof question->text)
        strcpy(question->text, value->data.string);
    on_over(status, question);
}

/* Returns the status; PMIX_ERR_TIMEOUT: there is no answer yet. */
static pmix_status_t await(struct question *question, int timeout_ms)
{
    struct timespec until;
    int code = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    pthread_mutex_lock(&question->lock);
    while (!question->is_answered && code != ETIMEDOUT)
        code = pthread_cond_timedwait(&question->answered, &question->lock, &until);
    pmix_status_t status = question->is_answered ? question->status : PMIX_ERR_TIMEOUT;
    pthread_mutex_unlock(&question->lock);
    return status;
}

int exchange_fence(int timeout_ms, struct belay_error *err)
{
    if (board >= 0)
        return 0;
    struct question *question = ask();
    bool collects = true;
    pmix_proc_t all;
    pmix_info_t info; /* until the answer is there */
    if (!question)
        return belay_error_set(err, ENOMEM, "no memory for a fence");
    PMIX_LOAD_PROCID(&all, self.nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collects, PMIX_BOOL);
    pmix_status_t status = PMIx_Fence_nb(&all, 1, &info, 1, on_over, question);
    if (status == PMIX_SUCCESS)
        status = await(question, timeout_ms);
    if (status == PMIX_ERR_TIMEOUT)
        return belay_error_set(err, ETIMEDOUT, "not all ranks have come within %d s", timeout_ms / 1000);
    free(question);
    return status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED ? 0
                                                                        : fail("has no fence", status, err);
}

/* Returns the answer, to be freed, or NULL with *status. */
static struct question *get(uint32_t rank, const char *key, pmix_status_t *status)
{
    struct question *question = ask();
    pmix_proc_t proc;
    *status = PMIX_ERR_NOMEM;
    if (!question)
        return NULL;
    PMIX_LOAD_PROCID(&proc, self.nspace, rank);
    *status = PMIx_Get_nb(&proc, key, NULL, 0, on_value, question);
    if (*status == PMIX_SUCCESS)
        *status = await(question, LOOK_MS);
    if (*status == PMIX_SUCCESS)
        return question;
    if (*status != PMIX_ERR_TIMEOUT)
        free(question);
    return NULL;
}

int exchange_get(uint32_t rank, const char *key, int timeout_ms, char text[EXCHANGE_TEXT_BYTES],
                 struct belay_error *err)
{
    if (board >= 0)
        return board_get(board, rank, key_on_board(key), timeout_ms, text, err);
    pmix_status_t status;
    struct question *answer = get(rank, key, &status);
    if (!answer)
        return belay_error_set(err, ENODATA, "rank %u has not said %s: %s", rank, key,
                               PMIx_Error_string(status));
    memcpy(text, answer->text, sizeof answer->text);
    free(answer);
    return 0;
}

void exchange_host_of(uint32_t rank, char *name, size_t name_bytes)
{
    pmix_status_t status;
    struct question *answer = board < 0 ? get(rank, PMIX_HOSTNAME, &status) : NULL;
    snprintf(name, name_bytes, "%s", answer && answer->text[0] ? answer->text : "?");
    free(answer);
}

/* "2(x3),1": tasks of the step on each of its nodes, of which this one is SLURM_NODEID. 0: not known. */
static uint32_t count_of_slurm(void)
{
    const char *number = getenv("SLURM_NODEID"), *at = getenv("SLURM_STEP_TASKS_PER_NODE");
    unsigned long node = number ? strtoul(number, NULL, 10) : 0;
    while (number && at && *at) {
        char *end;
        unsigned long tasks = strtoul(at, &end, 10), times = 1;
        if (end[0] == '(' && end[1] == 'x')
            times = strtoul(end + 2, &end, 10);
        if (node < times)
            return (uint32_t)tasks;
        node -= times;
        end += *end == ')';
        at = end + (*end == ',');
        if (end[0] != ',')
            break;
    }
    return 0;
}

uint32_t exchange_count_here(void)
{
    pmix_status_t status;
    if (board >= 0)
        return count_of_slurm();
    struct question *answer = get(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, &status);
    uint32_t count = answer ? answer->number : 0;
    free(answer);
    return count;
}

void exchange_close(void)
{
    if (board >= 0)
        close(board);
    board = -1;
    if (!is_open)
        return;
    is_open = false;
    PMIx_Finalize(NULL, 0);
}
