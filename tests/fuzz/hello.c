/*
 * Hellos of the fabric and of relays. The first byte chooses whose: a stranger's as it is, or that of a peer
 * which has the key, for what comes behind the MAC.
 */
#include <sodium.h>

#include "common/secure/hello.h"
#include "tests/fuzz/target.h"

#define MAC_BYTES crypto_auth_hmacsha256_BYTES

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const struct hello_terms terms = {.mode = FABRIC_MODE_AUTHENTICATE,
                                             .job = "job",
                                             .epoch = 7,
                                             .self = {FABRIC_ROLE_MEMBER, 2, 1002},
                                             .address = {.bytes = "there", .count = 5}};
    struct hello hello = {.kind = HELLO_NONE};
    if (count == 0)
        return 0;
    bool has_key = bytes[0] & 1 && count == 1 + HELLO_BYTES;
    uint8_t *copy = target_copy(bytes + 1, count - 1);
    if (has_key)
        crypto_auth_hmacsha256(copy + HELLO_BYTES - MAC_BYTES, copy, HELLO_BYTES - MAC_BYTES, terms.key);
    enum hello_verdict verdict = hello_check(&terms, copy, count - 1, &hello);
    must(verdict < HELLO_VERDICTS && hello_verdict_text(verdict));
    must(verdict != HELLO_OK ||
         (hello.kind >= HELLO_FIRST && hello.kind <= HELLO_CONFIRM && hello.mode == terms.mode &&
          hello.epoch == terms.epoch && hello.to.node == terms.self.node && hello.address.count > 0 &&
          hello.address.count <= FABRIC_ADDRESS_BYTES));
    free(copy);
    return 0;
}
