#include "node-agent/member/words.h"

#include "node-agent/member/member_state.h"

void say(struct line_member *member, enum peer_kind kind, const char *reason)
{
    say_message(member, (struct peer_message){.kind = kind, .reason = reason});
}

void say_of_line(struct line_member *member, enum peer_kind kind, uint64_t line, const char *reason)
{
    say_message(member, (struct peer_message){.kind = kind, .line = line, .reason = reason});
}

void say_measured(struct line_member *member, enum peer_kind kind, uint64_t line, const char *reason,
                  const struct peer_measures *measures)
{
    say_message(member,
                (struct peer_message){.kind = kind, .line = line, .reason = reason, .measures = *measures});
}

void say_aborted(struct line_member *member, const char *reason)
{
    if (member->mirror)
        member->times.sent = mirror_sent(member->mirror, member->line);
    const struct peer_measures measures = times_tell(&member->times, member->ranks, member->count);
    if (member->line)
        say_measured(member, PEER_ABORTED, member->line, reason, &measures);
}

void say_notice(struct line_member *member, const char *text)
{
    say(member, PEER_NOTICE, text);
}

void say_message(struct line_member *member, struct peer_message message)
{
    if (!member->link)
        return;
    message.role = PEER_MEMBER;
    message.node = member->node;
    message.epoch = member->epoch;
    link_say(member->link, &message);
}
