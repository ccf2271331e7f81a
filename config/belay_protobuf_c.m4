# BELAY_PROTOBUF_C: protobuf-c, the control messages: library and compiler (PROTOC_C).
AC_DEFUN([BELAY_PROTOBUF_C],
  [BELAY_MODULE([PROTOBUF_C], [libprotobuf-c >= 1.3], [protobuf-c],
     [required], [control messages], [libprotobuf-c-dev])
   AC_PATH_PROG([PROTOC_C], [protoc-c])
   AS_IF([test -n "$PROTOC_C"],
     [BELAY_FOUND([protoc-c], [$PROTOC_C])],
     [BELAY_MISSING([protoc-c], [required], [compiles the control messages], [protobuf-c-compiler])])])
