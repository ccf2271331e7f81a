# BELAY_HDF5_PARALLEL: parallel HDF5 (HDF5_PARALLEL_CFLAGS, HDF5_PARALLEL_LIBS), snapshots of the example
# programs.
AC_DEFUN([BELAY_HDF5_PARALLEL],
  [BELAY_MODULE([HDF5_PARALLEL], [hdf5-openmpi >= 1.10], [HDF5 parallel],
     [required], [snapshots of the example programs], [libhdf5-openmpi-dev])])
