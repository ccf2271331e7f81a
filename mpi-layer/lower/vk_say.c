/* vk_say.c - a line of the virtual kernel on standard error. */
#include "mpi-layer/lower/vk.h"

#define LINE_BYTES 512

struct line {
    char text[LINE_BYTES];
    uint64_t used;
};

static void put(struct line *line, const char *text)
{
    while (*text && line->used < LINE_BYTES - 1)
        line->text[line->used++] = *text++;
}

static void put_number(struct line *line, uint64_t number, unsigned base)
{
    char digits[24];
    int at = sizeof digits - 1;
    digits[at] = 0;
    do
        digits[--at] = "0123456789abcdef"[number % base];
    while (number /= base);
    put(line, digits + at);
}

static void begin(struct line *line, const char *text)
{
    line->used = 0;
    put(line, "belay: rank ");
    put_number(line, GATE->control->rank, 10);
    put(line, ": ");
    put(line, text);
}

static void end(struct line *line)
{
    line->text[line->used++] = '\n';
    raw3(SYS_write, 2, line->text, line->used);
}

void vk_say(const char *before, uint64_t address, const char *behind)
{
    struct line line;
    begin(&line, before);
    if (address) {
        put(&line, "0x");
        put_number(&line, address, 16);
    }
    put(&line, behind);
    end(&line);
}

void vk_say_number(const char *before, uint64_t number)
{
    struct line line;
    begin(&line, before);
    put_number(&line, number, 10);
    end(&line);
}
