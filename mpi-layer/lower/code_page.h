/* code_page.h - the page of code at VDSO_ADDRESS (vdso.S), made anew by every launch. */
#ifndef BELAY_MPI_LAYER_LOWER_CODE_PAGE_H
#define BELAY_MPI_LAYER_LOWER_CODE_PAGE_H

#include "common/util/error.h"

/* Map belay-vdso.so, which lies at `path`, and note where its parts are (vk.h). Returns 0, or -1 with err. */
int code_page_map(const char *path, struct belay_error *err);

#endif
