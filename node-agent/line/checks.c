#include "node-agent/line/checks.h"

#include <errno.h>
#include <stdlib.h>

static Belay__Wire__PartKind kind_of(enum verify_kind kind)
{
    static const Belay__Wire__PartKind kinds[] = {
        [VERIFY_IMAGE] = BELAY__WIRE__PART_KIND__PART_IMAGE,
        [VERIFY_SHARED] = BELAY__WIRE__PART_KIND__PART_SHARED,
        [VERIFY_PARITY] = BELAY__WIRE__PART_KIND__PART_PARITY,
        [VERIFY_TABLES] = BELAY__WIRE__PART_KIND__PART_TABLES,
    };
    return kinds[kind];
}

static Belay__Wire__PartResult result_of(enum verify_result result)
{
    return result == VERIFY_AGREES    ? BELAY__WIRE__PART_RESULT__PART_AGREES
           : result == VERIFY_DIFFERS ? BELAY__WIRE__PART_RESULT__PART_DIFFERS
                                      : BELAY__WIRE__PART_RESULT__PART_UNKNOWN;
}

static void fill(const struct verified *part, Belay__Wire__PartCheck *check)
{
    belay__wire__part_check__init(check);
    check->kind = kind_of(part->kind);
    check->rank = part->rank;
    check->line = part->line;
    check->result = result_of(part->result);
    check->bytes = part->bytes;
    if (part->result == VERIFY_AGREES)
        check->root =
            (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)&part->root, .len = sizeof part->root};
    else
        check->text = (char *)(uintptr_t)part->err.text;
}

void checks_answer(struct connection *connection, const struct job *job, const struct verified *list,
                   uint32_t count, const struct belay_error *err)
{
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__Verified verified = BELAY__WIRE__VERIFIED__INIT;
    Belay__Wire__PartCheck *checks = calloc((size_t)count + 1, sizeof *checks);
    Belay__Wire__PartCheck **parts = calloc((size_t)count + 1, sizeof *parts);
    if (err) {
        connection_reply_error(connection, err->code, err->text);
    } else if (!checks || !parts) {
        connection_reply_error(connection, ENOMEM, "the agent is out of memory");
    } else {
        for (uint32_t i = 0; i < count; i++) {
            parts[i] = &checks[i];
            fill(&list[i], parts[i]);
        }
        verified.job = (char *)(uintptr_t)job->name;
        verified.node = job->config->node;
        verified.epoch = job->epoch_number;
        verified.line = count > 0 ? list[0].line : 0;
        verified.parts = parts;
        verified.n_parts = count;
        reply.body_case = BELAY__WIRE__REPLY__BODY_VERIFIED;
        reply.verified = &verified;
        connection_reply(connection, &reply, NULL, 0);
    }
    free(checks);
    free(parts);
}
