/*
 * transports.c - see transports.h.
 *
 * Found out by effect: components that MPI_Init has looked at and not chosen are unloaded again, so those
 * that are mapped afterwards are in use.
 */
#include "mpi-layer/lower/transports.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 256
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Byte transfer layers under ob1, in the order in which Open MPI prefers them; "self" goes without saying. */
static const struct {
    const char *component, *text;
} layers[] = {
    {"mca_btl_vader", "shared memory"}, {"mca_btl_ugni", "uGNI"},     {"mca_btl_openib", "verbs"},
    {"mca_btl_usnic", "usNIC"},         {"mca_btl_ofi", "libfabric"}, {"mca_btl_tcp", "tcp"},
};
/* Matching transport layers under cm. */
static const struct {
    const char *component, *text;
} matching[] = {
    {"mca_mtl_ofi", " libfabric"},
    {"mca_mtl_portals4", " portals4"},
    {"mca_mtl_psm", " psm"},
    {"mca_mtl_psm2", " psm2"},
};

static bool is_mapped(const char *component)
{
    char line[4096], name[64];
    bool is = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    snprintf(name, sizeof name, "/%s.so", component);
    while (maps && !is && fgets(line, sizeof line, maps))
        is = strstr(line, name) != NULL;
    if (maps)
        fclose(maps);
    return is;
}

static void append(char text[TEXT_BYTES], const char *more)
{
    strncat(text, more, TEXT_BYTES - 1 - strlen(text));
}

/* The name of an enumeration's value. */
static void name_of(MPI_T_enum names, int number, char name[TEXT_BYTES])
{
    int items = 0, none = 0, item;
    MPI_T_enum_get_info(names, &items, NULL, &none);
    for (int i = 0; i < items; i++) {
        int bytes = TEXT_BYTES;
        if (MPI_T_enum_get_item(names, i, &item, name, &bytes) == MPI_SUCCESS && item == number)
            return;
    }
    snprintf(name, TEXT_BYTES, "%d", number);
}

/* How the shared memory transport copies large messages, after what it has found to work. */
static void read_single_copy(char name[TEXT_BYTES])
{
    int provided, index, verbosity, bind, scope, count, number = 0, none = 0;
    MPI_Datatype type;
    MPI_T_enum names = MPI_T_ENUM_NULL;
    MPI_T_cvar_handle handle;
    snprintf(name, TEXT_BYTES, "unknown");
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS)
        return;
    if (!MPI_T_cvar_get_index("btl_vader_single_copy_mechanism", &index) &&
        !MPI_T_cvar_get_info(index, NULL, &none, &verbosity, &type, &names, NULL, &none, &bind, &scope) &&
        names != MPI_T_ENUM_NULL && !MPI_T_cvar_handle_alloc(index, NULL, &handle, &count)) {
        if (!MPI_T_cvar_read(handle, &number))
            name_of(names, number, name);
        MPI_T_cvar_handle_free(&handle);
    }
    MPI_T_finalize();
}

static void add_layers(char text[TEXT_BYTES])
{
    const char *separator = "ob1 over ";
    for (size_t i = 0; i < COUNT(layers); i++) {
        if (!is_mapped(layers[i].component))
            continue;
        append(text, separator);
        append(text, layers[i].text);
        if (!strcmp(layers[i].component, "mca_btl_vader")) {
            char name[TEXT_BYTES];
            read_single_copy(name);
            append(text, " (single copy: ");
            append(text, name);
            append(text, ")");
        }
        separator = ", ";
    }
}

static void describe(char text[TEXT_BYTES])
{
    text[0] = 0;
    if (is_mapped("mca_pml_ucx")) {
        append(text, "ucx");
    } else if (is_mapped("mca_pml_cm")) {
        append(text, "cm over");
        for (size_t i = 0; i < COUNT(matching); i++)
            append(text, is_mapped(matching[i].component) ? matching[i].text : "");
    } else {
        add_layers(text);
    }
}

int transports_print(void)
{
    char text[TEXT_BYTES];
    int rank, code = MPI_Init(NULL, NULL);
    if (code != MPI_SUCCESS)
        return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    describe(text);
    if (rank == 0)
        puts(text);
    MPI_Finalize();
    return 0;
}
