/* conversions.c - MPI_Comm_c2f, MPI_Comm_f2c and their like. */
#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/fortran/numbers.h"
#include "mpi-layer/upper/handle.h"
#include "mpi-layer/upper/probe.h"
#include "mpi-layer/upper/request.h"

/* Objects that begin with struct handle. */
#define CONVERSIONS(type, name, kind)                                                                        \
    MPI_Fint PMPI_##name##_c2f(type ours)                                                                    \
    {                                                                                                        \
        struct handle *handle = (struct handle *)(void *)ours;                                               \
        return handle ? numbers_of(kind, handle, &handle->number) : -1;                                      \
    }                                                                                                        \
    API_EXPORT(MPI_##name##_c2f);                                                                            \
    type PMPI_##name##_f2c(MPI_Fint number)                                                                  \
    {                                                                                                        \
        return (type)numbers_find(kind, number);                                                             \
    }                                                                                                        \
    API_EXPORT(MPI_##name##_f2c);

CONVERSIONS(MPI_Comm, Comm, HANDLE_COMM)
CONVERSIONS(MPI_Datatype, Type, HANDLE_DATATYPE)
CONVERSIONS(MPI_Errhandler, Errhandler, HANDLE_ERRHANDLER)
CONVERSIONS(MPI_File, File, HANDLE_FILE)
CONVERSIONS(MPI_Group, Group, HANDLE_GROUP)
CONVERSIONS(MPI_Info, Info, HANDLE_INFO)
CONVERSIONS(MPI_Op, Op, HANDLE_OP)
CONVERSIONS(MPI_Win, Win, HANDLE_WIN)

MPI_Fint PMPI_Request_c2f(MPI_Request ours)
{
    struct handle *predefined = (struct handle *)(void *)ours;
    if (!ours)
        return -1;
    int *stored = request_is_null(ours) ? &predefined->number : &request_of(ours)->number;
    return numbers_of(HANDLE_REQUEST, ours, stored);
}
API_EXPORT(MPI_Request_c2f);

MPI_Request PMPI_Request_f2c(MPI_Fint number)
{
    return numbers_find(HANDLE_REQUEST, number);
}
API_EXPORT(MPI_Request_f2c);

MPI_Fint PMPI_Message_c2f(MPI_Message ours)
{
    return ours ? numbers_of(HANDLE_MESSAGE, ours, probe_message_number(ours)) : -1;
}
API_EXPORT(MPI_Message_c2f);

MPI_Message PMPI_Message_f2c(MPI_Fint number)
{
    return numbers_find(HANDLE_MESSAGE, number);
}
API_EXPORT(MPI_Message_f2c);
