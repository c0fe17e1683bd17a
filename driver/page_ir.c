/* page_ir.c - the program before and after each pass, side by side, changed lines marked.
 *
 * Lines are compared by their longest common subsequence between what both begin and end with;
 * where that is too long to be worth a table of lengths, all of it counts as changed.  Only changes
 * and a few lines around them are shown. */
#include <stdlib.h>

#include "driver/page.h"

enum { CONTEXT = 3, MOST_CELLS = 4000000 };

typedef struct lines {
  const char **at;
  size_t *length;
  int count;
} lines;

/* A row of the table: a line of either side, or of both (the same one); -1: none. */
typedef struct row {
  int left, right;
} row;
typedef struct rows {
  IR_VEC(row) list;
  int changes;
} rows;

static lines split(ir_arena *arena, const char *text) {
  lines l = {0};
  int count = 1;
  for (const char *c = text; *c; c++) count += *c == '\n';
  l.at = IR_NEW_ARRAY(arena, const char *, count);
  l.length = IR_NEW_ARRAY(arena, size_t, count);
  while (*text) {
    size_t length = strcspn(text, "\n");
    l.at[l.count] = text;
    l.length[l.count++] = length;
    text += length + (text[length] == '\n');
  }
  return l;
}

static bool same(const lines *a, int i, const lines *b, int k) {
  return a->length[i] == b->length[k] && !memcmp(a->at[i], b->at[k], a->length[i]);
}

static void add(ir_arena *arena, rows *out, int left, int right) {
  row r = {left, right};
  IR_PUSH(arena, &out->list, r);
  out->changes += left < 0 || right < 0;
}

/* length[i][k]: of the longest common subsequence of a[i..] and b[k..]. */
static void walk(ir_arena *arena, const lines *a, int a0, int a1, const lines *b, int b0, int b1,
                 rows *out) {
  int n = a1 - a0, m = b1 - b0, i = 0, k = 0;
  bool small = (int64_t)(n + 1) * (m + 1) <= MOST_CELLS;
  int *length = small ? calloc((size_t)(n + 1) * (size_t)(m + 1), sizeof *length) : NULL;
#define LENGTH(I, K) length[(size_t)(I) * (size_t)(m + 1) + (size_t)(K)]
  for (int x = n; length && x-- > 0;)
    for (int y = m; y-- > 0;)
      LENGTH(x, y) = same(a, a0 + x, b, b0 + y)             ? LENGTH(x + 1, y + 1) + 1
                     : LENGTH(x + 1, y) >= LENGTH(x, y + 1) ? LENGTH(x + 1, y)
                                                            : LENGTH(x, y + 1);
  while (length && i < n && k < m) {
    if (same(a, a0 + i, b, b0 + k))
      add(arena, out, a0 + i, b0 + k), i++, k++;
    else if (LENGTH(i + 1, k) >= LENGTH(i, k + 1))
      add(arena, out, a0 + i++, -1);
    else
      add(arena, out, -1, b0 + k++);
  }
#undef LENGTH
  for (; i < n; i++) add(arena, out, a0 + i, -1);
  for (; k < m; k++) add(arena, out, -1, b0 + k);
  free(length);
}

static rows compare(ir_arena *arena, const lines *a, const lines *b) {
  rows out = {0};
  int head = 0, tail = 0;
  while (head < a->count && head < b->count && same(a, head, b, head)) head++;
  while (tail < a->count - head && tail < b->count - head &&
         same(a, a->count - 1 - tail, b, b->count - 1 - tail))
    tail++;
  for (int i = 0; i < head; i++) add(arena, &out, i, i);
  walk(arena, a, head, a->count - tail, b, head, b->count - tail, &out);
  for (int i = tail; i > 0; i--) add(arena, &out, a->count - i, b->count - i);
  return out;
}

/* ---- as a table ------------------------------------------------------------------------------ */
static bool is_change(const row *r) { return r->left < 0 || r->right < 0; }

static bool is_near(const rows *r, int i) {
  for (int k = i - CONTEXT; k <= i + CONTEXT; k++)
    if (k >= 0 && k < r->list.count && is_change(&r->list.at[k])) return true;
  return false;
}

static void put_line(page *p, const lines *from, int i, const char *mark) {
  ir_text_printf(&p->out, "<td class=\"ir%s\">", i < 0 ? "" : mark);
  if (i >= 0) page_putn(p, from->at[i], from->length[i]);
  page_raw(p, "</td>");
}

static void put_row(page *p, const lines *a, int left, const lines *b, int right, bool changed) {
  page_raw(p, "<tr>");
  put_line(p, a, left, changed ? " drop" : "");
  put_line(p, b, right, changed ? " add" : "");
  page_raw(p, "</tr>\n");
}

/* Lines that went stand beside lines that came. */
static int put_changes(page *p, const lines *a, const lines *b, const rows *r, int i) {
  int end = i, left = i, right = i;
  while (end < r->list.count && is_change(&r->list.at[end])) end++;
  for (;;) {
    while (left < end && r->list.at[left].left < 0) left++;
    while (right < end && r->list.at[right].right < 0) right++;
    if (left == end && right == end) return end;
    put_row(p, a, left < end ? r->list.at[left++].left : -1, b,
            right < end ? r->list.at[right++].right : -1, true);
  }
}

static void put_diff(page *p, const lines *a, const lines *b, const rows *r) {
  page_raw(p, "<table class=\"diff\"><thead><tr><th scope=\"col\">before</th><th "
              "scope=\"col\">after</th></tr>"
              "</thead><tbody>\n");
  for (int i = 0; i < r->list.count;) {
    const row *one = &r->list.at[i];
    if (is_change(one)) {
      i = put_changes(p, a, b, r, i);
    } else if (is_near(r, i)) {
      put_row(p, a, one->left, b, one->right, false);
      i++;
    } else {
      int begin = i;
      while (i < r->list.count && !is_near(r, i)) i++;
      ir_text_printf(&p->out, "<tr class=\"gap\"><td colspan=\"2\">%d line%s as before</td></tr>\n",
                     i - begin, i - begin == 1 ? "" : "s");
    }
  }
  page_raw(p, "</tbody></table>\n");
}

static const char *meaning_of(page *p, const char *title) {
  size_t length = strcspn(title, " ");
  const pass_row *found = pass_find(ir_strndup(p->arena, title, length));
  return found ? found->meaning : "";
}

static void put_pass(page *p, const page_dump *before, const page_dump *after) {
  const char *title = !strncmp(after->title, "after ", 6) ? after->title + 6 : after->title;
  lines a = split(p->arena, before->text), b = split(p->arena, after->text);
  rows r = compare(p->arena, &a, &b);
  page_raw(p, "<details><summary><b>");
  page_put(p, title);
  page_raw(p, "</b> <span class=\"soft\">");
  page_put(p, meaning_of(p, title));
  if (r.changes)
    ir_text_printf(&p->out, "</span><span class=\"tag\">%d changed lines</span></summary>\n",
                   r.changes);
  else
    page_raw(p, "</span><span class=\"tag\">changes nothing</span></summary>\n<p "
                "class=\"same\">The program "
                "is as it was before.</p>");
  if (r.changes) put_diff(p, &a, &b, &r);
  page_raw(p, "</details>\n");
}

void page_pipeline(page *p) {
  page_raw(
      p,
      "<section id=\"pipeline\"><h2>The pipeline</h2>\n<p>The program before and after each pass; "
      "lines that went are marked on the left, lines that came on the right. Each is text that "
      "<code>spc run</code> reads.</p>\n");
  if (p->dumps.count) {
    page_raw(p, "<details><summary><b>before any pass</b><span class=\"tag\">the checked "
                "program</span></summary>\n"
                "<table class=\"diff\"><tbody>");
    lines whole = split(p->arena, p->dumps.at[0].text);
    for (int i = 0; i < whole.count; i++) {
      page_raw(p, "<tr>");
      put_line(p, &whole, i, "");
      page_raw(p, "</tr>\n");
    }
    page_raw(p, "</tbody></table></details>\n");
  }
  for (int i = 1; i < p->dumps.count; i++) put_pass(p, &p->dumps.at[i - 1], &p->dumps.at[i]);
  page_raw(p, "</section>\n");
}
