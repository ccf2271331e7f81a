/*
 * identity.h - who speaks to whom over a network, and what both know: as hellos and seals use it.
 */
#ifndef BELAY_COMMON_SECURE_IDENTITY_H
#define BELAY_COMMON_SECURE_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

#define FABRIC_KEY_BYTES 32u
#define FABRIC_SECRET_BYTES 32u
#define FABRIC_JOB_BYTES 16u      /* what tells jobs apart: any bytes, random best */
#define FABRIC_ADDRESS_BYTES 128u /* of an address at most */

enum fabric_mode {
    FABRIC_MODE_NONE = 0,
    FABRIC_MODE_AUTHENTICATE, /* everything carries a MAC */
    FABRIC_MODE_ENCRYPT,      /* and is encrypted */
};

enum fabric_role { FABRIC_ROLE_NONE = 0, FABRIC_ROLE_MEMBER, FABRIC_ROLE_ARBITER };

/* An agent. Its incarnation is of its memory: random, another one after the memory was lost. */
struct fabric_identity {
    enum fabric_role role;
    uint32_t node;
    uint64_t incarnation;
};

/* What only its members know of an epoch: the arbiter draws the secret anew for each. */
struct fabric_epoch {
    uint64_t number;
    uint8_t secret[FABRIC_SECRET_BYTES];
};

/* Where it listens: bytes of libfabric's, to be passed on as they are. */
struct fabric_address {
    uint8_t bytes[FABRIC_ADDRESS_BYTES];
    size_t count;
};

#endif
