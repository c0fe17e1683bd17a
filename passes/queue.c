/* queue.c - a binary heap of rows. */
#include "passes/queue.h"

static bool is_earlier(const pass_queue *queue, int i, int j) {
  const pass_use *list = queue->uses->list.at;
  return list[queue->rows.at[i]].place < list[queue->rows.at[j]].place;
}

static void swap(pass_queue *queue, int i, int j) {
  int row = queue->rows.at[i];
  queue->rows.at[i] = queue->rows.at[j];
  queue->rows.at[j] = row;
}

void pass_queue_add(pass_queue *queue, int row) {
  pass_use *use = &queue->uses->list.at[row];
  if (use->queued) return;
  use->queued = true;
  IR_PUSH(queue->uses->arena, &queue->rows, row);
  for (int at = queue->rows.count - 1; at > 0 && is_earlier(queue, at, (at - 1) / 2);
       at = (at - 1) / 2)
    swap(queue, at, (at - 1) / 2);
}

static void sink(pass_queue *queue) {
  for (int at = 0, below; (below = 2 * at + 1) < queue->rows.count; at = below) {
    if (below + 1 < queue->rows.count && is_earlier(queue, below + 1, below)) below++;
    if (!is_earlier(queue, below, at)) return;
    swap(queue, below, at);
  }
}

int pass_queue_take(pass_queue *queue) {
  if (!queue->rows.count) return -1;
  int row = queue->rows.at[0];
  queue->rows.at[0] = queue->rows.at[--queue->rows.count];
  sink(queue);
  queue->uses->list.at[row].queued = false;
  return row;
}
