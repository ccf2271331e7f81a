/*
 * spoil.h - for fault points: makes another image of an image, as a node would that lies or errs.
 */
#ifndef BELAY_COMMON_IMAGE_SPOIL_H
#define BELAY_COMMON_IMAGE_SPOIL_H

/* Change a bit of the first page of an image or a delta, and its sum with it: all sums still fit. What has no
 * pages stays as it is. */
void image_spoil(int fd);

#endif
