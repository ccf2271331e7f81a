/*
 * interpose_file.h - what the MPI library does to files of MPI-IO passes through here, so that they can be
 * put back (vk_undo.h).
 *
 * belay-launch exports pwrite(), pwritev(), ftruncate() and aio_write(), which stand in front of the C
 * library's: a write to a watched file is noted before it is made. All other files of the library (its shared
 * memory, its session folder) are none of ours. close() ends what is known of a descriptor. Lower FS.
 */
#ifndef BELAY_MPI_LAYER_LOWER_INTERPOSE_FILE_H
#define BELAY_MPI_LAYER_LOWER_INTERPOSE_FILE_H

/*
 * Watch the file at path, which the library has open / has closed. Watches of one file count. The result
 * is for interpose_unwatch(); NULL: there is no such file, or no memory. interpose_unwatch() accepts NULL.
 */
void *interpose_watch(const char *path);
void interpose_unwatch(void *watch);

#endif
