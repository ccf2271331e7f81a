/*
 * render.h - jobs and lines for people (tables) and for programs (JSON, keys as in belay-status.1).
 *
 * JSON values belong to the caller (json_decref); NULL when memory is short.
 */
#ifndef BELAY_CMD_RENDER_H
#define BELAY_CMD_RENDER_H

#include <jansson.h>
#include <stdio.h>

#include "common/wire/belay.pb-c.h"

/* A JSON string. Of a text that is not UTF-8 (a path may be) each byte that is of no character is a '?'. */
json_t *render_text_json(const char *text);

/* Sizes are told in MiB. */
#define RENDER_MIB (1024.0 * 1024.0)
static inline double render_mib(uint64_t bytes)
{
    return (double)bytes / RENDER_MIB;
}

json_t *render_line_json(const Belay__Wire__LineStatus *line);
json_t *render_job_json(const Belay__Wire__JobStatus *status);

/* Print a value (and release it) on stdout, in ASCII. Returns 0, or -1 if it is NULL or cannot be written. */
int render_print_json(json_t *value);

void render_job_text(FILE *stream, const Belay__Wire__JobStatus *status);
void render_line_text(FILE *stream, const Belay__Wire__LineStatus *line);

/* The table of `belay list`: header and one row. */
void render_list_header(FILE *stream);
void render_list_row(FILE *stream, const Belay__Wire__JobStatus *status);

#endif
