/*
 * tool_index.c - numbers of variables and categories, and the functions of categories; see tool.h.
 *
 * The library numbers what it registers in the order in which its components are opened, which another start
 * may do in another order. To the application a number means the same variable as long as the program runs:
 * names are noted at each line, and from the first restart on numbers are translated.
 */
#include "mpi-layer/upper/tool.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"

struct space {
    char **names;          /* by ours, up to `named`; NULL: there was no such variable at the last line */
    int *classes;          /* MPI_T_PVAR_CLASS_..., beside them */
    int named;             /* ... */
    bool is_translated;    /* there was a restart; else both numbers are the same */
    int *real, count;      /* by ours */
    int *ours, real_count; /* by the library's number */
};

static struct space spaces[TOOL_SPACES];
static int stamp, stamp_base; /* of categories: the last one told; what is added to the library's */

static int real_count(enum tool_space space)
{
    int count = 0;
    if (space == TOOL_CVAR)
        lower_MPI_T_cvar_get_num(&count);
    else if (space == TOOL_PVAR)
        lower_MPI_T_pvar_get_num(&count);
    else
        lower_MPI_T_category_get_num(&count);
    return count;
}

bool tool_real_name(enum tool_space space, int real, char name[TOOL_NAME_BYTES], int *class)
{
    int length = TOOL_NAME_BYTES, none = 0, a, b, c, d, e, code;
    void *type;
    MPI_T_enum enumeration;
    if (space == TOOL_CVAR)
        code = lower_MPI_T_cvar_get_info(real, name, &length, &a, &type, &enumeration, NULL, &none, &b, &c);
    else if (space == TOOL_PVAR)
        code = lower_MPI_T_pvar_get_info(real, name, &length, &a, class, &type, &enumeration, NULL, &none, &b,
                                         &c, &d, &e);
    else
        code = lower_MPI_T_category_get_info(real, name, &length, NULL, &none, &a, &b, &c);
    return code == MPI_SUCCESS;
}

static int real_by_name(enum tool_space space, const char *name, int class)
{
    int index = -1, code;
    if (space == TOOL_CVAR)
        code = lower_MPI_T_cvar_get_index(name, &index);
    else if (space == TOOL_PVAR)
        code = lower_MPI_T_pvar_get_index(name, class, &index);
    else
        code = lower_MPI_T_category_get_index(name, &index);
    return code == MPI_SUCCESS ? index : -1;
}

/* A copy with room for more, in place of the old one. NULL: out of memory, the old one stays. */
static void *grow(void *old, size_t old_bytes, size_t bytes)
{
    void *block = arena_alloc(bytes + 1);
    if (block && old)
        memcpy(block, old, old_bytes);
    if (block)
        arena_free(old);
    return block;
}

/* ---- translation ---- */

static void pair(struct space *s, int ours, int real)
{
    s->real[ours] = real;
    if (real >= 0)
        s->ours[real] = ours;
}

/* Numbers for what the library has registered since; they follow ours. */
static void number_new(enum tool_space space)
{
    struct space *s = &spaces[space];
    int count = real_count(space), more = count - s->real_count;
    if (more <= 0)
        return;
    int *real = grow(s->real, (size_t)s->count * sizeof *real, (size_t)(s->count + more) * sizeof *real);
    s->real = real ? real : s->real;
    int *ours =
        real ? grow(s->ours, (size_t)s->real_count * sizeof *ours, (size_t)count * sizeof *ours) : NULL;
    if (!ours)
        return;
    s->ours = ours;
    while (s->real_count < count)
        pair(s, s->count++, s->real_count++);
}

int tool_count(enum tool_space space)
{
    if (!spaces[space].is_translated)
        return real_count(space);
    number_new(space);
    return spaces[space].count;
}

int tool_real_index(enum tool_space space, int ours)
{
    if (ours < 0 || ours >= tool_count(space))
        return -1;
    return spaces[space].is_translated ? spaces[space].real[ours] : ours;
}

int tool_our_index(enum tool_space space, int real)
{
    const struct space *s = &spaces[space];
    tool_count(space);
    return !s->is_translated ? real : real < s->real_count ? s->ours[real] : -1;
}

int tool_find(enum tool_space space, int ours, int *code)
{
    int real = tool_is_ready() ? tool_real_index(space, ours) : -1;
    *code = !tool_is_ready() ? MPI_T_ERR_NOT_INITIALIZED : real < 0 ? MPI_T_ERR_INVALID_INDEX : MPI_SUCCESS;
    return real;
}

int tool_get_num(enum tool_space space, int (*get)(int *), int *count)
{
    wrapper_enter_anytime();
    int code = get(count);
    if (code == MPI_SUCCESS)
        *count = tool_count(space);
    wrapper_leave();
    return code;
}

/* ---- lines and restarts ---- */

static bool note_name(enum tool_space space, int ours)
{
    struct space *s = &spaces[space];
    char name[TOOL_NAME_BYTES];
    int real = tool_real_index(space, ours);
    if (s->names[ours] || real < 0 || !tool_real_name(space, real, name, &s->classes[ours]))
        return true;
    s->names[ours] = arena_alloc(strlen(name) + 1);
    return s->names[ours] && strcpy(s->names[ours], name);
}

static bool note_space(enum tool_space space)
{
    struct space *s = &spaces[space];
    int count = tool_count(space);
    if (count > s->named) {
        size_t named = (size_t)s->named, all = (size_t)count;
        char **names = grow(s->names, named * sizeof *names, all * sizeof *names);
        int *classes = names ? grow(s->classes, named * sizeof *classes, all * sizeof *classes) : NULL;
        s->names = names ? names : s->names;
        if (!classes)
            return false;
        s->classes = classes;
        s->named = count;
    }
    int i = 0;
    while (i < s->named && note_name(space, i))
        i++;
    return i == s->named;
}

bool tool_note_indices(void)
{
    for (int i = 0; i < TOOL_SPACES; i++)
        if (!note_space(i))
            return false;
    return true;
}

static void restore_space(enum tool_space space)
{
    struct space *s = &spaces[space];
    int count = real_count(space);
    arena_free(s->real);
    arena_free(s->ours);
    s->real = arena_alloc((size_t)(s->named + count) * sizeof *s->real + 1);
    s->ours = arena_alloc((size_t)count * sizeof *s->ours + 1);
    s->count = s->real_count = 0;
    s->is_translated = true;
    if (!s->real || !s->ours)
        return;
    memset(s->ours, -1, (size_t)count * sizeof *s->ours);
    for (s->real_count = count; s->count < s->named; s->count++) {
        const char *name = s->names[s->count];
        pair(s, s->count, name ? real_by_name(space, name, s->classes[s->count]) : -1);
    }
    for (int real = 0; real < count; real++)
        if (s->ours[real] < 0)
            pair(s, s->count++, real);
}

/* The application's knowledge of categories is out of date now, so the next stamp is a new one. */
void tool_restore_indices(void)
{
    for (int i = 0; i < TOOL_SPACES; i++)
        restore_space(i);
    stamp_base = stamp + 1;
}

/* ---- categories ---- */

int PMPI_T_category_get_num(int *num_cat)
{
    return tool_get_num(TOOL_CATEGORY, lower_MPI_T_category_get_num, num_cat);
}
API_EXPORT(MPI_T_category_get_num);

int PMPI_T_category_get_info(int cat_index, char *name, int *name_len, char *desc, int *desc_len,
                             int *num_cvars, int *num_pvars, int *num_categories)
{
    int code;
    wrapper_enter_anytime();
    int real = tool_find(TOOL_CATEGORY, cat_index, &code);
    if (code == MPI_SUCCESS)
        code = lower_MPI_T_category_get_info(real, name, name_len, desc, desc_len, num_cvars, num_pvars,
                                             num_categories);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_category_get_info);

int PMPI_T_category_get_index(const char *name, int *category_index)
{
    int real = -1;
    wrapper_enter_anytime();
    int code = lower_MPI_T_category_get_index(name, category_index ? &real : NULL);
    if (code == MPI_SUCCESS)
        *category_index = tool_our_index(TOOL_CATEGORY, real);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_category_get_index);

/* How many of the numbers of a category's members the library has written. */
static int written(enum tool_space space, int real, int len)
{
    int counts[TOOL_SPACES] = {0}, none = 0;
    lower_MPI_T_category_get_info(real, NULL, &none, NULL, &none, &counts[TOOL_CVAR], &counts[TOOL_PVAR],
                                  &counts[TOOL_CATEGORY]);
    return counts[space] < len ? counts[space] : len;
}

/* A category's members of a kind, by the library's function and then by our numbers. */
static int get_members(enum tool_space space, int (*get)(int, int, int *), int cat_index, int len,
                       int indices[])
{
    int code;
    wrapper_enter_anytime();
    int real = tool_find(TOOL_CATEGORY, cat_index, &code);
    if (code == MPI_SUCCESS)
        code = get(real, len, indices);
    int count = code == MPI_SUCCESS ? written(space, real, len) : 0;
    for (int i = 0; i < count; i++)
        indices[i] = tool_our_index(space, indices[i]);
    wrapper_leave();
    return code;
}

int PMPI_T_category_get_cvars(int cat_index, int len, int indices[])
{
    return get_members(TOOL_CVAR, lower_MPI_T_category_get_cvars, cat_index, len, indices);
}
API_EXPORT(MPI_T_category_get_cvars);

int PMPI_T_category_get_pvars(int cat_index, int len, int indices[])
{
    return get_members(TOOL_PVAR, lower_MPI_T_category_get_pvars, cat_index, len, indices);
}
API_EXPORT(MPI_T_category_get_pvars);

int PMPI_T_category_get_categories(int cat_index, int len, int indices[])
{
    return get_members(TOOL_CATEGORY, lower_MPI_T_category_get_categories, cat_index, len, indices);
}
API_EXPORT(MPI_T_category_get_categories);

int PMPI_T_category_changed(int *out)
{
    int real = 0;
    wrapper_enter_anytime();
    int code = lower_MPI_T_category_changed(&real);
    if (code == MPI_SUCCESS)
        *out = stamp = stamp_base + real;
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_category_changed);
