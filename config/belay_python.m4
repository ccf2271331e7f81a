# BELAY_PYTHON: Python 3 for the wrapper generator and the integration tests, and its pytest.
# The system's interpreter comes first: it is the one that Debian's python3-pytest belongs to.
AC_DEFUN([BELAY_PYTHON],
  [AS_IF([test -z "$PYTHON" && test -x /usr/bin/python3], [PYTHON=/usr/bin/python3])
   AM_PATH_PYTHON([3.9], [], [:])
   AS_IF([test "x$PYTHON" != x:],
     [BELAY_FOUND([Python], [$PYTHON_VERSION])],
     [BELAY_MISSING([Python], [required], [generates the MPI wrappers], [python3])])
   AC_MSG_CHECKING([for pytest])
   AS_IF(["$PYTHON" -c "import pytest" >/dev/null 2>&1 && test "x$PYTHON" != x:],
     [AC_MSG_RESULT([yes])
      BELAY_FOUND([pytest], [$("$PYTHON" -c 'import pytest; print(pytest.__version__)')])],
     [AC_MSG_RESULT([no])
      BELAY_MISSING([pytest], [optional], [integration tests], [python3-pytest])])])
