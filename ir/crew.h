/* crew.h - threads that somebody lends: ranges of work that may be shared.
 *
 * `ir` starts no threads.  Who has a pool hands it down as a crew; NULL works on the caller's own
 * thread.  Work is written so that its result does not depend on how a range is cut. */
#ifndef SPC_IR_CREW_H
#define SPC_IR_CREW_H

#include <stdint.h>

typedef void (*ir_crew_work)(void *user, int64_t begin, int64_t end);

typedef struct ir_crew {
  int threads;
  /* 0 .. count - 1 in parts, side by side where that pays for work of so many ns altogether. */
  void (*share)(void *pool, int64_t count, int64_t ns, ir_crew_work work, void *user);
  void *pool;
} ir_crew;

static inline void ir_crew_for(const ir_crew *crew, int64_t count, int64_t ns, ir_crew_work work,
                               void *user) {
  if (crew && count > 1)
    crew->share(crew->pool, count, ns, work, user);
  else
    work(user, 0, count);
}

#endif
