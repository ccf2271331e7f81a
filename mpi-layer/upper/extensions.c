/* extensions.c - functions of Open MPI's own that its mpi-ext.h declares. */
#include <mpi.h>

#include <mpi-ext.h> /* it does not include mpi.h */

#include "mpi-layer/api/api.gen.h"

/* Memory of devices is in no image: programs are to send from the host's, as without CUDA in the library. */
int MPIX_Query_cuda_support(void)
{
    return 0;
}

/* Where the process is bound now; the texts are not kept by anybody. */
int OMPI_Affinity_str(ompi_affinity_fmt_t fmt_type, char ompi_bound[OMPI_AFFINITY_STRING_MAX],
                      char current_binding[OMPI_AFFINITY_STRING_MAX], char exists[OMPI_AFFINITY_STRING_MAX])
{
    wrapper_enter_anytime();
    unsigned long upper = lower_enter();
    int (*real)(ompi_affinity_fmt_t, char *, char *, char *) = GATE->symbol("OMPI_Affinity_str");
    int code = real ? real(fmt_type, ompi_bound, current_binding, exists) : MPI_ERR_UNSUPPORTED_OPERATION;
    lower_leave(upper);
    wrapper_leave();
    return code;
}
