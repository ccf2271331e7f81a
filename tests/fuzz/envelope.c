/* What ranks of other hosts publish by PMIx: the address of an envelope, or one. The first byte chooses. */
#include "common/secure/envelope.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct envelope_pair pair;
    static char address[ENVELOPE_ADDRESS_BYTES], plain[2 * ENVELOPE_SECRET_BYTES + 1];
    char text[ENVELOPE_TEXT_BYTES];
    uint8_t secret[ENVELOPE_SECRET_BYTES];
    struct belay_error err;
    if (count == 0)
        return 0;
    if (!address[0]) {
        must(envelope_make_pair(&pair, address, &err) == 0);
        memset(plain, 'a', sizeof plain - 1);
    }
    char *given = target_text(bytes + 1, count - 1);
    if (bytes[0] % 3 == 0) {
        if (envelope_seal(given, plain, text, &err) == 0)
            must(strlen(text) == sizeof text - 1);
    } else if (bytes[0] % 3 == 1) {
        if (envelope_seal(address, given, text, &err) == 0) /* a sound one comes as it went */
            must(envelope_open(&pair, text, secret, &err) == 0);
    } else {
        must(envelope_open(&pair, given, secret, &err) == -1); /* nobody can make one without the pair */
    }
    free(given);
    return 0;
}
