# BELAY_HDF5: serial HDF5 (HDF5_CFLAGS, HDF5_LIBS), input of the example programs.
# Debian keeps serial and parallel builds side by side, and `hdf5.pc` may be either.
AC_DEFUN([BELAY_HDF5],
  [AC_REQUIRE([PKG_PROG_PKG_CONFIG])
   PKG_CHECK_MODULES([HDF5], [hdf5-serial >= 1.10],
     [belay_hdf5=hdf5-serial],
     [PKG_CHECK_MODULES([HDF5], [hdf5 >= 1.10], [belay_hdf5=hdf5], [belay_hdf5=])])
   AS_IF([test "x$belay_hdf5" = xhdf5], [BELAY_HDF5_REFUSE_PARALLEL])
   AS_IF([test -n "$belay_hdf5"],
     [BELAY_FOUND([HDF5 serial], [$($PKG_CONFIG --modversion $belay_hdf5)])],
     [BELAY_MISSING([HDF5 serial], [required], [input of the example programs], [libhdf5-dev])])])

# A parallel `hdf5.pc` is not what is asked for here.
AC_DEFUN([BELAY_HDF5_REFUSE_PARALLEL],
  [belay_saved_cppflags=$CPPFLAGS
   CPPFLAGS="$CPPFLAGS $HDF5_CFLAGS"
   AC_PREPROC_IFELSE([AC_LANG_SOURCE([[
#include <H5pubconf.h>
#ifdef H5_HAVE_PARALLEL
#error parallel
#endif
]])], [], [belay_hdf5=])
   CPPFLAGS=$belay_saved_cppflags])
