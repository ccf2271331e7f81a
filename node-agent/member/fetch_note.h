/*
 * fetch_note.h - what members say of images that one fetches from another (fetch.h, lend.h): as a word, and
 * as the tag in front of an image.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_FETCH_NOTE_H
#define BELAY_NODE_AGENT_MEMBER_FETCH_NOTE_H

#include <stdint.h>

#define FETCH_NOTE_MAGIC 0x63746566u

enum fetch_note_kind {
    FETCH_NOTE_NONE = 0,
    FETCH_NOTE_WANT,    /* a word: send this image */
    FETCH_NOTE_IMAGE,   /* a tag: this is it */
    FETCH_NOTE_REFUSED, /* a word: it is not sent; error tells why */
    /* Of an image whose rank runs while it comes (load.h): */
    FETCH_NOTE_WANT_TABLES,  /* a word: send all but its pages, and keep it until FETCH_NOTE_LOADED */
    FETCH_NOTE_TABLES,       /* a tag: that is it */
    FETCH_NOTE_WANT_PAGES,   /* a word: send these bytes of its pages (packed.h) */
    FETCH_NOTE_PAGES,        /* a tag: these are the bytes */
    FETCH_NOTE_LOADED,       /* a word: no more of it is wanted */
    FETCH_NOTE_WANT_TOUCHED, /* a word: send which parts of it the rank has written lately */
    FETCH_NOTE_TOUCHED,      /* a tag: these are they, an array of struct fetch_touched */
};

struct fetch_note {
    uint32_t magic;
    uint32_t kind; /* enum fetch_note_kind */
    uint32_t epoch;
    uint32_t part, ranks; /* part of the store; ranks of the world */
    int32_t error;        /* REFUSED: errno */
    uint32_t has_shared;  /* IMAGE, of a rank: what its group shares has its number, and is wanted, too */
    uint32_t is_bound;    /* TABLES: the rank's group shares something: all of its image has to come first */
    uint64_t line;
    uint64_t offset, bytes; /* WANT_PAGES, PAGES; bytes of WANT_TOUCHED: of all its pages; else 0 */
};

/* Units of an image, by address, which ascend (store/touched.h). The first one of a set has 0 bytes: no set
 * is empty. */
struct fetch_touched {
    uint64_t address, bytes;
};
#define FETCH_TOUCHED_MAX (1u << 20) /* of them in a set */

#endif
