/*
 * streams.h - standard input, output and error of a job's ranks, in memory that outlives them: one memfd per
 * job, which the agent owns (the keeper holds it, too) and the ranks and the arbiter map.
 *
 *   page 0                     struct streams
 *   STREAMS_SLOT_BYTES * (1+R) struct streams_rank of rank R in a page, then the two rings
 *   STREAMS_INPUT_OFFSET       all of the job's standard input so far
 *
 * Output. A rank counts what it writes from the start of the program: a position that is part of its image.
 * Here is how far it ever came. After a restart it is behind that: what it writes up to there has been
 * written before, and is only compared, by a digest of everything up to a position. Programs print times, so
 * the text may have become longer or shorter: how far it came is told in whole lines, and bytes of the one
 * that has begun; where it is there again, it is at the end. What is new goes to the ring, whence the arbiter
 * takes it to its own standard output; or, where output is left to the launcher, to the descriptor, and is
 * counted then. `ends[turn]` is changed as a whole: the other one is filled, then `turn` is switched. So what
 * a rank was writing when it was killed is there completely or not at all.
 *
 * Input. The arbiter stores its standard input here and hands it to the launcher. After a restart it does so
 * again, from the position that rank 0 had reached.
 *
 * The memfd's size is sealed. All of the ranks may write to all of it, at any time: the arbiter keeps its own
 * counts for itself, writes them here only for the arbiter that may follow it, and looks whether what a rank
 * says can be.
 *
 * A descriptor wakes the arbiter: an eventfd that is written to by whoever finds `is_reader_asleep`.
 */
#ifndef BELAY_COMMON_WIRE_STREAMS_H
#define BELAY_COMMON_WIRE_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#define STREAMS_MAGIC 0x736d616572747362ull /* "bstreams" */
#define STREAMS_VERSION 4u
#define STREAMS_PAGE_BYTES 4096ul
#define STREAMS_SLOT_BYTES (4ul << 20)
#define STREAMS_RING_BYTES (1ul << 20) /* the most that a rank is ahead of the arbiter */
#define STREAMS_INPUT_OFFSET (1ul << 44)
#define STREAMS_BYTES (1ul << 46) /* of the memfd; sparse */
#define STREAMS_INPUT_MAX (STREAMS_BYTES - STREAMS_INPUT_OFFSET)
#define STREAMS_PER_RANK 2 /* standard output, standard error */
#define STREAMS_MAX_RANKS (1u << 20)

struct stream_end {
    uint64_t bytes;  /* written so far */
    uint64_t digest; /* FNV-1a of all of them */
    uint64_t lines;  /* whole ones among them */
    uint64_t begun;  /* bytes of the line that has begun */
};

struct stream {
    struct stream_end ends[2]; /* R */
    uint32_t turn;             /* R: which of them counts */
    uint32_t reserved;
    uint64_t taken; /* arbiter: bytes that are out; never beyond the end */
};

struct streams_rank {
    struct stream streams[STREAMS_PER_RANK];
};

struct streams {
    uint64_t magic;            /* agent */
    uint32_t version;          /* agent */
    uint32_t ranks;            /* agent: slots, 0: not known yet */
    uint32_t is_reader_asleep; /* arbiter sets it, whoever wakes it clears it */
    uint32_t input_has_ended;  /* arbiter */
    uint64_t input_bytes;      /* arbiter: stored so far */
    uint64_t input_from;       /* rank 0: position from which it goes on ... */
    uint32_t input_epoch;      /* ... in this epoch (valid as soon as it is the current one) */
    uint32_t is_other_told;    /* R: some rank's output was not the same again, and the user knows it */
};

/* Offsets in the memfd. */
#define STREAMS_SLOT(rank) (STREAMS_SLOT_BYTES * (1ul + (rank)))
#define STREAMS_RING(rank, stream) (STREAMS_SLOT(rank) + STREAMS_PAGE_BYTES + STREAMS_RING_BYTES * (stream))

#define STREAM_DIGEST_START 0xcbf29ce484222325ull

/* Where the end is after more bytes. */
static inline struct stream_end stream_end_after(struct stream_end end, const char *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        end.digest = (end.digest ^ (unsigned char)bytes[i]) * 0x100000001b3ull;
        end.begun++;
        if (bytes[i] == '\n') {
            end.lines++;
            end.begun = 0;
        }
    }
    end.bytes += count;
    return end;
}

static inline bool stream_is_behind(const struct stream_end *position, const struct stream_end *end)
{
    return position->lines < end->lines || (position->lines == end->lines && position->begun < end->begun);
}

static inline struct stream_end stream_end_now(const struct stream *stream)
{
    return stream->ends[__atomic_load_n(&stream->turn, __ATOMIC_ACQUIRE) & 1];
}

#endif
