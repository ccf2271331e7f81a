# BELAY_CC: the compiler's flags for all components.
#   BELAY_CFLAGS      language and warnings; every Makefile.am starts its AM_CFLAGS with it
#   SANITIZE_CFLAGS   --enable-sanitizers; for the daemon, the tools and the tests. Never for mpi-layer,
#                     whose code runs before and between two C libraries, where no run-time of a
#                     sanitizer can be.
AC_DEFUN([BELAY_CC],
  [AC_REQUIRE([AC_PROG_CC])
   BELAY_CFLAGS="-std=gnu11"
   m4_foreach_w([belay_flag],
     [-Wall -Wextra -Wmissing-prototypes -Wpointer-arith -Wstrict-prototypes -Wvla],
     [BELAY_CC_FLAG(belay_flag)
])
   AC_ARG_ENABLE([werror],
     [AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors])])
   AS_IF([test "x$enable_werror" = xyes], [BELAY_CFLAGS="$BELAY_CFLAGS -Werror"])

   AC_ARG_ENABLE([sanitizers],
     [AS_HELP_STRING([--enable-sanitizers], [build agent, tools and tests with ASan and UBSan])])
   SANITIZE_CFLAGS=
   belay_sanitizers=no
   AS_IF([test "x$enable_sanitizers" = xyes],
     [SANITIZE_CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
      belay_sanitizers="address, undefined (not in mpi-layer)"])
   AM_CONDITIONAL([SANITIZERS], [test "x$enable_sanitizers" = xyes])
   AC_SUBST([BELAY_CFLAGS])
   AC_SUBST([SANITIZE_CFLAGS])])

# Add one flag to BELAY_CFLAGS if the compiler takes it without a warning.
AC_DEFUN([BELAY_CC_FLAG],
  [AC_MSG_CHECKING([whether $CC takes $1])
   belay_saved_cflags=$CFLAGS
   CFLAGS="$CFLAGS -Werror $1"
   AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
     [AC_MSG_RESULT([yes])
      BELAY_CFLAGS="$BELAY_CFLAGS $1"],
     [AC_MSG_RESULT([no])])
   CFLAGS=$belay_saved_cflags])
