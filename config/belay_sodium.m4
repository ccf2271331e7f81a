# BELAY_SODIUM: libsodium, encryption of data between nodes.
AC_DEFUN([BELAY_SODIUM],
  [BELAY_MODULE([SODIUM], [libsodium >= 1.0.16], [libsodium],
     [optional], [encryption of data between nodes], [libsodium-dev])])
