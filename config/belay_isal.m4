# BELAY_ISAL: ISA-L, parity and Reed-Solomon arithmetic.
AC_DEFUN([BELAY_ISAL],
  [BELAY_MODULE([ISAL], [libisal >= 2.28], [ISA-L],
     [required], [parity and Reed-Solomon arithmetic], [libisal-dev])])
