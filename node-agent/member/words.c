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

static void say_given_up(struct line_member *member, const char *reason, bool is_refuted)
{
    if (member->mirror)
        member->times.sent = mirror_sent(member->mirror, member->line);
    if (member->line == 0)
        return;
    say_message(member, (struct peer_message){
                            .kind = PEER_ABORTED,
                            .line = member->line,
                            .reason = reason,
                            .is_refuted = is_refuted,
                            .measures = times_tell(&member->times, member->ranks, member->count),
                        });
}

void say_aborted(struct line_member *member, const char *reason)
{
    say_given_up(member, reason, false);
}

void say_refuted(struct line_member *member, const char *reason)
{
    say_given_up(member, reason, true);
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
