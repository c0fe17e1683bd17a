/* queue.h - statements that wait for their turn, the earliest in the kernel first. */
#ifndef SPC_PASSES_QUEUE_H
#define SPC_PASSES_QUEUE_H

#include "passes/uses.h"

typedef struct pass_queue {
  pass_uses *uses;
  IR_VEC(int) rows; /* a heap by place */
} pass_queue;

void pass_queue_add(pass_queue *queue, int row); /* unless it waits already */
int pass_queue_take(pass_queue *queue);          /* -1: none waits */

#endif
