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

static pmix_proc_t self;
static bool is_open;

static int fail(const char *what, pmix_status_t status, struct belay_error *err)
{
    return belay_error_set(err, EIO, "PMIx %s: %s", what, PMIx_Error_string(status));
}

int exchange_open(uint32_t rank, struct belay_error *err)
{
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

int exchange_get(uint32_t rank, const char *key, char text[EXCHANGE_TEXT_BYTES], struct belay_error *err)
{
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
    struct question *answer = get(rank, PMIX_HOSTNAME, &status);
    snprintf(name, name_bytes, "%s", answer && answer->text[0] ? answer->text : "?");
    free(answer);
}

uint32_t exchange_count_here(void)
{
    pmix_status_t status;
    struct question *answer = get(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, &status);
    uint32_t count = answer ? answer->number : 0;
    free(answer);
    return count;
}

void exchange_close(void)
{
    if (!is_open)
        return;
    is_open = false;
    PMIx_Finalize(NULL, 0);
}
