/*
 * tool_interface - the MPI tool information interface, begun before MPI: variables are found by name once and
 * used by number and handle ever after; values that were written stay; counters go on.
 *
 * To be run with OMPI_MCA_pml_monitoring_enable=1, which gives Open MPI counters of collectives.
 */
#include <mpi.h>
#include <string.h>

#include "tests/programs/program.h"

#define WRITTEN "coll_tuned_bcast_algorithm_segmentsize"
#define ENUMERATED "coll_tuned_allreduce_algorithm"
#define CATEGORY "ompi_coll_tuned"
#define COUNTER "coll_monitoring_a2a_count"
#define LEVEL "pml_ob1_unexpected_msgq_length"
#define NAME_BYTES 256
#define MAX_ITEMS 64

struct tool {
    struct program program;
    MPI_Comm comm;
    int written, enumerated, category, counter; /* numbers */
    MPI_T_cvar_handle written_handle;
    MPI_T_enum enumeration;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle count, level;
    long step;
};

static void check(const struct tool *t, int code, const char *what)
{
    if (code != MPI_SUCCESS)
        fail(&t->program, "step %ld: %s gave %d", t->step, what, code);
}

static void find_cvars(struct tool *t)
{
    int length = 0, verbosity, bind, scope, count;
    MPI_Datatype type;
    check(t, MPI_T_cvar_get_index(WRITTEN, &t->written), "the number of " WRITTEN);
    check(t, MPI_T_cvar_get_index(ENUMERATED, &t->enumerated), "the number of " ENUMERATED);
    check(t, MPI_T_category_get_index(CATEGORY, &t->category), "the number of " CATEGORY);
    check(t,
          MPI_T_cvar_get_info(t->enumerated, NULL, &length, &verbosity, &type, &t->enumeration, NULL, &length,
                              &bind, &scope),
          "an enumeration");
    check(t, MPI_T_cvar_handle_alloc(t->written, NULL, &t->written_handle, &count), "a handle");
    if (count != 1 || type != MPI_INT || t->enumeration == MPI_T_ENUM_NULL)
        fail(&t->program, "variables are not what they should be");
}

static void find_pvars(struct tool *t)
{
    int index, count;
    check(t, MPI_T_pvar_get_index(COUNTER, MPI_T_PVAR_CLASS_COUNTER, &t->counter), "the number of " COUNTER);
    check(t, MPI_T_pvar_session_create(&t->session), "a session");
    check(t, MPI_T_pvar_handle_alloc(t->session, t->counter, &t->comm, &t->count, &count), "a counter");
    check(t, MPI_T_pvar_start(t->session, t->count), "its start");
    if (MPI_T_pvar_get_index(LEVEL, MPI_T_PVAR_CLASS_SIZE, &index) == MPI_SUCCESS)
        check(t, MPI_T_pvar_handle_alloc(t->session, index, &t->comm, &t->level, &count), "a level");
    if (count > MAX_ITEMS)
        fail(&t->program, "%d levels", count);
}

/* A number means the same variable for as long as the program runs. */
static void use_numbers(struct tool *t)
{
    char name[NAME_BYTES];
    int length = NAME_BYTES, verbosity, bind, scope, again = -1;
    MPI_Datatype type;
    MPI_T_enum enumeration;
    check(t,
          MPI_T_cvar_get_info(t->written, name, &length, &verbosity, &type, &enumeration, NULL, NULL, &bind,
                              &scope),
          "a variable");
    digest_add(&t->program.digest, name, strlen(name));
    check(t, MPI_T_cvar_get_index(WRITTEN, &again), "its number");
    if (strcmp(name, WRITTEN) || again != t->written || type != MPI_INT)
        fail(&t->program, "step %ld: number %d is %s, whose number is %d", t->step, t->written, name, again);
    check(t, MPI_T_pvar_get_index(COUNTER, MPI_T_PVAR_CLASS_COUNTER, &again), "a counter's number");
    if (again != t->counter)
        fail(&t->program, "step %ld: number %d is %d now", t->step, t->counter, again);
}

static void use_category(struct tool *t)
{
    char name[NAME_BYTES];
    int length = NAME_BYTES, none = 0, cvars, pvars, categories, members[2 * MAX_ITEMS], is_in = 0, stamp;
    check(t, MPI_T_category_get_info(t->category, name, &length, NULL, &none, &cvars, &pvars, &categories),
          "a category");
    check(t, MPI_T_category_get_cvars(t->category, 2 * MAX_ITEMS, members), "its variables");
    for (int i = 0; i < cvars && i < 2 * MAX_ITEMS; i++)
        is_in += members[i] == t->written;
    if (strcmp(name, CATEGORY) || is_in != 1)
        fail(&t->program, "step %ld: number %d is %s with %d of it", t->step, t->category, name, is_in);
    check(t, MPI_T_category_get_pvars(t->category, 0, members), "none of its counters");
    check(t, MPI_T_category_get_categories(t->category, 0, members), "none of its categories");
    check(t, MPI_T_category_changed(&stamp), "the time of change");
}

static void use_enumeration(struct tool *t)
{
    char name[NAME_BYTES];
    int length = NAME_BYTES, items, value;
    check(t, MPI_T_enum_get_info(t->enumeration, &items, name, &length), "an enumeration");
    digest_add_number(&t->program.digest, (uint64_t)items);
    for (int i = 0; i < items; i++) {
        length = NAME_BYTES;
        check(t, MPI_T_enum_get_item(t->enumeration, i, &value, name, &length), "an item");
        digest_add(&t->program.digest, name, strlen(name));
    }
}

/* Written every tenth step, by a handle of its own every twentieth; read in each. */
static void use_value(struct tool *t)
{
    int value = -1, expected = 1024 * (1 + (int)(t->step / 10)), count;
    MPI_T_cvar_handle other = MPI_T_CVAR_HANDLE_NULL;
    if (t->step % 20 == 0)
        check(t, MPI_T_cvar_handle_alloc(t->written, NULL, &other, &count), "another handle");
    if (t->step % 10 == 0 || t->step == 1)
        check(t, MPI_T_cvar_write(other ? other : t->written_handle, &expected), "writing");
    if (other)
        check(t, MPI_T_cvar_handle_free(&other), "freeing a handle");
    check(t, MPI_T_cvar_read(t->written_handle, &value), "reading");
    if (value != expected)
        fail(&t->program, "step %ld: %d was written, %d was read", t->step, expected, value);
}

/* One collective a step, counted by the library below. */
static void use_counter(struct tool *t)
{
    unsigned long long counted = 0, expected = (unsigned long long)t->step;
    unsigned levels[MAX_ITEMS]; /* one for each rank */
    long sum, one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, t->comm);
    check(t, MPI_T_pvar_read(t->session, t->count, &counted), "reading a counter");
    if (counted != expected)
        fail(&t->program, "step %ld: %llu collectives were counted", t->step, counted);
    if (t->level)
        check(t, MPI_T_pvar_read(t->session, t->level, levels), "reading a level");
    digest_add_number(&t->program.digest, (uint64_t)sum + counted);
}

static void end(struct tool *t)
{
    check(t, MPI_T_pvar_stop(t->session, t->count), "stopping");
    check(t, MPI_T_pvar_handle_free(t->session, &t->count), "freeing a counter");
    if (t->level)
        check(t, MPI_T_pvar_handle_free(t->session, &t->level), "freeing a level");
    check(t, MPI_T_pvar_session_free(&t->session), "freeing a session");
    check(t, MPI_T_cvar_handle_free(&t->written_handle), "freeing a handle");
    MPI_Comm_free(&t->comm);
    if (t->count || t->session || t->written_handle)
        fail(&t->program, "handles are there after the end");
    check(t, MPI_T_finalize(), "MPI_T_finalize");
}

int main(int argc, char **argv)
{
    static struct tool t = {.program = {.steps = 200}};
    int provided;
    check(&t, MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), "MPI_T_init_thread");
    MPI_Init(&argc, &argv);
    program_begin(&t.program, "tool_interface", argc, argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &t.comm);
    find_cvars(&t);
    find_pvars(&t);
    for (t.step = 1; t.step <= t.program.steps; t.step++) {
        use_numbers(&t);
        use_category(&t);
        use_enumeration(&t);
        use_value(&t);
        use_counter(&t);
        program_step(&t.program, t.step);
    }
    end(&t);
    program_end(&t.program);
    MPI_Finalize();
    return 0;
}
