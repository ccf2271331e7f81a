# BELAY_GDB: gdb, to look into a rank (GDB).
AC_DEFUN([BELAY_GDB],
  [AC_PATH_PROG([GDB], [gdb])
   AS_IF([test -n "$GDB"],
     [BELAY_FOUND([gdb], [$GDB])],
     [BELAY_MISSING([gdb], [optional], [looking into a running rank], [gdb])])])
