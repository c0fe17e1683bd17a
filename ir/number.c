/* number.c - doubles as text, whatever the locale of the process is.
 *
 * The C library reads and writes decimals exactly but with the locale's decimal point.  The point
 * is found by printing 0.5, so that no process-wide state is asked for or changed. */
#include <math.h>
#include <stdlib.h>

#include "ir/number.h"

enum { MOST_DIGITS = 400 };

typedef struct point {
  char text[8];
  size_t length;
} point;

static point decimal_point(void) {
  char half[16];
  int length = snprintf(half, sizeof half, "%.1f", 0.5);
  point p = {.length = length > 2 && length < 10 ? (size_t)length - 2 : 1};
  memcpy(p.text, half + 1, p.length);
  return p;
}

static void use_dot(char *text) {
  point p = decimal_point();
  char *at = strstr(text, p.text);
  if (!at) return;
  *at = '.';
  memmove(at + 1, at + p.length, strlen(at + p.length) + 1);
}

const char *ir_number_print(double value, char buffer[IR_NUMBER_BYTES]) {
  if (isnan(value)) return strcpy(buffer, "nan");
  if (isinf(value)) return strcpy(buffer, value < 0 ? "-inf" : "inf");
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(buffer, IR_NUMBER_BYTES, "%.*g", digits, value);
    if (strtod(buffer, NULL) == value) break;
  }
  if (fabs(value) >= 1e5 && fabs(value) < 1e15 && value == floor(value))
    snprintf(buffer, IR_NUMBER_BYTES, "%.0f", value);
  use_dot(buffer);
  return buffer;
}

static size_t count_digits(const char *text, size_t length, size_t from) {
  size_t i = from;
  while (i < length && text[i] >= '0' && text[i] <= '9') i++;
  return i - from;
}

static bool is_decimal(const char *text, size_t length, size_t *dot) {
  size_t at = count_digits(text, length, 0);
  *dot = length;
  if (at == 0) return false;
  if (at < length && text[at] == '.') {
    *dot = at++;
    size_t fraction = count_digits(text, length, at);
    if (!fraction) return false;
    at += fraction;
  }
  if (at < length && (text[at] == 'e' || text[at] == 'E')) {
    at++;
    if (at < length && (text[at] == '+' || text[at] == '-')) at++;
    size_t exponent = count_digits(text, length, at);
    if (!exponent) return false;
    at += exponent;
  }
  return at == length;
}

bool ir_number_parse(const char *text, size_t length, double *value) {
  size_t dot;
  char local[MOST_DIGITS + 16];
  if (length > MOST_DIGITS || !is_decimal(text, length, &dot)) return false;
  point p = decimal_point();
  memcpy(local, text, dot);
  size_t end = dot;
  if (dot < length) {
    memcpy(local + end, p.text, p.length);
    end += p.length;
    memcpy(local + end, text + dot + 1, length - dot - 1);
    end += length - dot - 1;
  }
  local[end] = 0;
  *value = strtod(local, NULL);
  return true;
}
