/* passes_a_meaning.h - interprets a program before and after the passes and compares the outputs.
 */
#ifndef SPC_TESTS_PASSES_A_MEANING_H
#define SPC_TESTS_PASSES_A_MEANING_H

#include <stdbool.h>

/* The first kernel of the text. `claims`: what propagate found becomes part of the program too. */
void a_check_meaning(const char *title, const char *text, bool claims, bool strict_nan);

#endif
