/* diag_escape.h - user text made safe for a terminal; private to the diagnostics files. */
#ifndef SPC_IR_DIAG_ESCAPE_H
#define SPC_IR_DIAG_ESCAPE_H

#include "ir/base.h"

/* One character at text[0] of at most `length` bytes: how many bytes it takes, how many columns it
 * is shown in, and what is shown (NUL-terminated): itself, a space for a tab, or an escape. */
typedef struct ir_shown {
  int bytes, columns;
  char text[16];
} ir_shown;
ir_shown ir_show_char(const char *text, size_t length);
const char *ir_show_text(ir_arena *arena, const char *text, size_t most_bytes); /* newlines kept */

#endif
