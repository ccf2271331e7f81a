/*
 * code.c - machine code that the program writes itself, in memory that it makes executable in several ways.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"

#define FUNCTIONS 6

static struct function {
    unsigned char *writable, *executable; /* executable NULL: none */
    bool is_always_writable;
    uint32_t value;
} functions[FUNCTIONS];

/* mov $value, %eax; ret */
static void write_code(struct function *f)
{
    unsigned char code[6] = {0xb8, 0, 0, 0, 0, 0xc3};
    f->value = (uint32_t)roll();
    memcpy(code + 1, &f->value, sizeof f->value);
    if (!f->is_always_writable)
        mprotect(f->writable, PAGE, PROT_READ | PROT_WRITE);
    memcpy(f->writable + 16, code, sizeof code);
    if (!f->is_always_writable)
        mprotect(f->writable, PAGE, PROT_READ | PROT_EXEC);
}

static uint32_t call(const struct function *f)
{
    uint32_t (*function)(void);
    const unsigned char *at = f->executable + 16;
    memcpy(&function, &at, sizeof function);
    return function();
}

static void drop(struct function *f)
{
    if (f->executable)
        munmap(f->executable, PAGE);
    if (f->executable && f->writable != f->executable)
        munmap(f->writable, PAGE);
    f->executable = NULL;
}

static struct function *renew(void)
{
    struct function *f = &functions[pick(FUNCTIONS)];
    drop(f);
    say(" %d", (int)(f - functions));
    return f;
}

static void act_make(void)
{
    struct function *f = renew();
    f->is_always_writable = chance(50);
    int protection = PROT_READ | PROT_WRITE | (f->is_always_writable ? PROT_EXEC : 0);
    f->writable = f->executable = mmap(NULL, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    write_code(f);
    say(" %x", call(f));
}

/* Two mappings of the same memory, one to write to and one to execute. */
static void act_make_twice(void)
{
    struct function *f = renew();
    int fd = memfd_create("code", MFD_CLOEXEC);
    if (ftruncate(fd, PAGE) == 0) {
        f->writable = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        f->executable = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
        f->is_always_writable = true;
        write_code(f);
        say(" %x", call(f));
    }
    close(fd);
}

static void act_rewrite(void)
{
    struct function *f = &functions[pick(FUNCTIONS)];
    say(" %d", (int)(f - functions));
    if (!f->executable)
        return;
    bool is_parents =
        world.is_child && f->writable != f->executable; /* who shares it, and would find it changed */
    if (!is_parents)
        write_code(f);
    say(" %x", call(f));
}

static void act_drop(void)
{
    renew();
}

/* A library that comes and goes; its function may be called in another step than the one that loaded it. */
static void act_library(void)
{
    static void *library;
    static char *(*hash)(const char *text, const char *salt);
    if (!library) {
        library = dlopen("libcrypt.so.1", RTLD_NOW);
        hash = library ? (char *(*)(const char *, const char *))dlsym(library, "crypt") : NULL;
        answer(hash ? 0 : -1);
    } else if (hash && chance(70)) {
        const char *text = hash("history", "$1$salt");
        say(" %s", text ? text : "none");
    } else {
        answer(dlclose(library));
        library = NULL;
    }
}

static const struct operation operations[] = {
    {"library", 3, act_library}, {"make", 4, act_make}, {"make_twice", 2, act_make_twice},
    {"rewrite", 5, act_rewrite}, {"drop", 1, act_drop}, {NULL, 0, NULL},
};

static void observe(void)
{
    for (int i = 0; i < FUNCTIONS; i++) {
        if (!functions[i].executable)
            continue;
        uint32_t value = call(&functions[i]);
        note("%d returns %x", i, value);
        if (value != functions[i].value)
            wrong("function %d", i);
    }
}

const struct kind kind_code = {"code", operations, .observe = observe};
