# BELAY_FOUND(LABEL, DETAIL), BELAY_MISSING(LABEL, required|optional, PURPOSE, DEBIAN-PACKAGE)
# BELAY_REQUIRE_ALL, BELAY_SUMMARY
#
# Every probe ends with one of the first two. Nothing fails at once: BELAY_REQUIRE_ALL, when all probes
# have run, refuses with everything that is missing, so that a user does not go through one failure per
# package. BELAY_SUMMARY is the last step of configure.

AC_DEFUN([BELAY_FOUND],
  [belay_summary="$belay_summary
  $(printf '%-18s yes  %s' "$1" "$2")"])

AC_DEFUN([BELAY_MISSING],
  [belay_summary="$belay_summary
  $(printf '%-18s no   %s' "$1" "$2: $3 (Debian package: $4)")"
   AS_IF([test "x$2" = xrequired], [belay_missing="$belay_missing $4"])])

AC_DEFUN([BELAY_REQUIRE_ALL],
  [AS_IF([test -n "$belay_missing"],
     [AS_ECHO(["
$PACKAGE_NAME $PACKAGE_VERSION$belay_summary
"])
      AC_MSG_ERROR([missing Debian packages:$belay_missing (scripts/install-deps installs them)])])])

AC_DEFUN([BELAY_SUMMARY],
  [AS_IF([test "x$silent" != xyes],
     [AS_ECHO(["
$PACKAGE_NAME $PACKAGE_VERSION$belay_summary

  prefix             $prefix
  compiler           $CC $CFLAGS
  language, warnings $BELAY_CFLAGS
  sanitizers         $belay_sanitizers
"])])])

# BELAY_MODULE(PREFIX, MODULE [>= VERSION], LABEL, required|optional, PURPOSE, DEBIAN-PACKAGE)
# A library that pkg-config knows: PREFIX_CFLAGS, PREFIX_LIBS, and have_PREFIX set to yes or no.
AC_DEFUN([BELAY_MODULE],
  [AC_REQUIRE([PKG_PROG_PKG_CONFIG])
   PKG_CHECK_MODULES([$1], [$2],
     [have_$1=yes
      BELAY_FOUND([$3], [$($PKG_CONFIG --modversion m4_bpatsubst([$2], [ .*], []))])],
     [have_$1=no
      BELAY_MISSING([$3], [$4], [$5], [$6])])])
