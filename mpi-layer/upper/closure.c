/* closure.c - see closure.h. */
#include "mpi-layer/upper/closure.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define CODE_BYTES 32
#define CODE_CHUNK 4096

union code {
    unsigned char bytes[CODE_BYTES];
    union code *next; /* of a free one */
};

static unsigned char *code_next, *code_end; /* executable memory not yet used */
static union code *code_free;               /* given back */

static unsigned char *code_take(void)
{
    union code *code = code_free;
    if (code) {
        code_free = code->next;
        return code->bytes;
    }
    if (code_next + CODE_BYTES > code_end) {
        void *chunk =
            mmap(NULL, CODE_CHUNK, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (chunk == MAP_FAILED)
            return NULL;
        code_next = chunk;
        code_end = code_next + CODE_CHUNK;
    }
    code_next += CODE_BYTES;
    return code_next - CODE_BYTES;
}

closure_f *closure_new(closure_f *target, const void *bound)
{
    uint64_t target_address = (uint64_t)(uintptr_t)target, bound_address = (uint64_t)(uintptr_t)bound;
    unsigned char *code = code_take();
    if (!code)
        return NULL;
    memcpy(code, "\x49\xb8", 2);
    memcpy(code + 2, &bound_address, 8);
    memcpy(code + 10, "\x48\xb8", 2);
    memcpy(code + 12, &target_address, 8);
    memcpy(code + 20, "\xff\xe0", 2);
    return (closure_f *)(uintptr_t)code;
}

void closure_free(closure_f *closure)
{
    union code *code = (union code *)(uintptr_t)closure;
    if (!code)
        return;
    code->next = code_free;
    code_free = code;
}
