/*
 * driver.c - main() of a fuzz target where there is no libFuzzer: replays a corpus, and then inputs that are
 * made of it by damage, always the same ones.
 *
 *   TARGET FOLDER [ROUNDS]
 *
 * BELAY_FUZZ_SEED and BELAY_FUZZ_ROUNDS as in common/test/fuzz.h. An input that ends the process is in the
 * file fuzz-TARGET.input of the working directory.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/test/fuzz.h"
#include "tests/fuzz/target.h"

#define FILES_MAX 1024
#define ROOM 65536u

struct input {
    size_t count;
    uint8_t *bytes;
};

static uint8_t *kept; /* the present input: a file, so that it is there when the process has ended */
static size_t *kept_count;

static void keep_inputs(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && ftruncate(fd, sizeof(size_t) + ROOM) == 0);
    void *map = mmap(NULL, sizeof(size_t) + ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(map != MAP_FAILED);
    kept_count = map;
    kept = (uint8_t *)map + sizeof(size_t);
    close(fd);
}

static void run(const uint8_t *bytes, size_t count)
{
    *kept_count = count;
    memcpy(kept, bytes, count);
    LLVMFuzzerTestOneInput(bytes, count);
}

static int is_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static size_t read_corpus(const char *folder, struct input *inputs)
{
    struct dirent **names;
    int count = scandir(folder, &names, is_file, alphasort);
    must(count > 0 && count <= FILES_MAX); /* a corpus that is not there shows nothing */
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        FILE *file = fopen(path, "rb");
        must(file);
        inputs[i].bytes = malloc(ROOM);
        must(inputs[i].bytes);
        inputs[i].count = fread(inputs[i].bytes, 1, ROOM, file);
        fclose(file);
        free(names[i]);
    }
    free(names);
    return (size_t)count;
}

int main(int argc, char **argv)
{
    static struct input inputs[FILES_MAX];
    static uint8_t damaged[ROOM];
    char path[256];
    if (argc < 2) {
        fprintf(stderr, "usage: %s FOLDER [ROUNDS]\n", argv[0]);
        return 64;
    }
    const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
    snprintf(path, sizeof path, "fuzz-%s.input", name);
    keep_inputs(path);
    struct fuzz fuzz = fuzz_begin(name);
    size_t count = read_corpus(argv[1], inputs);
    unsigned rounds = fuzz_rounds(argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 20000);
    for (size_t i = 0; i < count; i++)
        run(inputs[i].bytes, inputs[i].count);
    for (unsigned round = 0; round < rounds; round++) {
        const struct input *input = &inputs[fuzz_below(&fuzz, count)];
        size_t length = input->count;
        memcpy(damaged, input->bytes, length);
        fuzz_damage(&fuzz, damaged, &length, ROOM);
        run(damaged, length);
    }
    printf("%s: %zu files, %u damaged inputs\n", name, count, rounds);
    for (size_t i = 0; i < count; i++)
        free(inputs[i].bytes);
    unlink(path);
    return 0;
}
