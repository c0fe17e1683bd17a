/* number.h - doubles as text, whatever the locale of the process is. */
#ifndef SPC_IR_NUMBER_H
#define SPC_IR_NUMBER_H

#include "ir/base.h"

enum { IR_NUMBER_BYTES = 40 };

/* The shortest decimal that reads back as the same double: "0.1", "1e-30", "-inf", "nan", "2". */
const char *ir_number_print(double value, char buffer[IR_NUMBER_BYTES]);
/* The double nearest to a decimal of the form 12, 0.5 or 1e-3 (no sign).  False when it is none. */
bool ir_number_parse(const char *text, size_t length, double *value);

#endif
