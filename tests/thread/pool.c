/* pool.c - the thread pool under ThreadSanitizer: a plain main, because Criterion does not start
 * there. Built by tests/CMakeLists.txt; exit code 0 when every element was visited exactly once. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/plan.h"

enum { MOST = 4096, CALLERS = 3, ROUNDS = 200 };

typedef struct visit {
  rt_pool *pool;
  int64_t lo;
  int count[MOST]; /* not atomic: parts must not overlap */
} visit;

static void count_part(void *user, int64_t begin, int64_t end) {
  visit *v = user;
  for (int64_t i = begin; i < end; i++) v->count[i - v->lo]++;
}

static atomic_int nested_sum;
static void add_part(void *user, int64_t begin, int64_t end) {
  (void)user;
  atomic_fetch_add(&nested_sum, (int)(end - begin));
}
static void nested_part(void *user, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) rt_pool_for(user, 0, 10, 1, add_part, NULL);
}

static int check_range(visit *v, int64_t lo, int64_t size, int64_t least) {
  v->lo = lo;
  for (int i = 0; i < MOST; i++) v->count[i] = 0;
  rt_pool_for(v->pool, lo, lo + size, least, count_part, v);
  for (int64_t i = 0; i < MOST; i++)
    if (v->count[i] != (i < size))
      return fprintf(stderr, "element %d of %d: %d visits\n", (int)i, (int)size, v->count[i]);
  return 0;
}

static void *caller(void *user) {
  visit *v = calloc(1, sizeof *v);
  long bad = 0;
  v->pool = user;
  for (int round = 0; round < ROUNDS; round++)
    bad |= check_range(v, round - 50, (round * 37) % MOST, 1 + round % 5);
  free(v);
  return (void *)bad;
}

/* Long work is shared whatever waking takes, none is when there is nobody to wake. */
static int check_pays(void) {
  rt_pool *one = rt_pool_new(1), *two = rt_pool_new(2);
  bool bad = rt_pool_pays(NULL, 1000000000) || rt_pool_pays(one, 1000000000) ||
             !rt_pool_pays(two, 1000000000) || rt_pool_pays(two, 100);
  int tried = 0;
  visit *v = calloc(1, sizeof *v);
  v->pool = two;
  for (int i = 0; i < 1000; i++) {
    bad |= check_range(v, 0, 8, 1) != 0; /* jobs of nothing: waking is measured, up and down */
    bad |= !rt_pool_pays(two, 1000000000) || rt_pool_pays(two, 100);
  }
  for (int i = 0; i < 1000; i++) tried += rt_pool_pays(two, 100); /* now and then, after all */
  free(v);
  rt_pool_free(one);
  rt_pool_free(two);
  return bad || !tried || tried == 1000;
}

int main(void) {
  int bad = check_pays();
  for (int threads = 1; threads <= 5; threads++) {
    rt_pool *pool = rt_pool_new(threads);
    pthread_t id[CALLERS];
    for (int i = 0; i < CALLERS; i++) pthread_create(&id[i], NULL, caller, pool);
    for (int i = 0; i < CALLERS; i++) {
      void *result;
      pthread_join(id[i], &result);
      bad |= result != NULL;
    }
    atomic_store(&nested_sum, 0);
    rt_pool_for(pool, 0, 100, 1, nested_part, pool);
    bad |= atomic_load(&nested_sum) != 1000;
    rt_pool_free(pool);
  }
  bad |= caller(NULL) != NULL; /* no pool: the calling thread does it */
  printf(bad ? "pool: failed\n" : "pool: ok\n");
  return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
