# BELAY_CPU: Belay places address spaces, patches call sites and switches the FS base of x86-64 Linux.
AC_DEFUN([BELAY_CPU],
  [AC_REQUIRE([AC_CANONICAL_HOST])
   AS_CASE([$host],
     [x86_64-*-linux-gnu], [],
     [AC_MSG_ERROR([Belay runs on x86-64 Linux with glibc only, not on $host])])])
