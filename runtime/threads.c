/* threads.c - the pool that runs parts of a range on several cores.
 *
 * A range is cut into parts whose bounds depend on the range and the pool's size alone, so a
 * function whose parts write different memory gives the same bits whoever runs them.  Parts are
 * handed out by one atomic counter; there are a few more than threads, because sparse rows differ
 * in length.  One run at a time owns the pool: a caller that finds it taken works alone, on its own
 * thread, and so does work that calls the pool again.
 *
 * A thread that has nothing left looks for a moment before it sleeps: stages follow each other within
 * microseconds, and a caller that slept would be woken as slowly as any other.
 *
 * How long a thread takes from being woken to its first part is measured at every job, so that a
 * caller who knows how long its work takes can ask whether sharing it pays.  Where the other cores
 * are busy that is long, and less is shared. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "runtime/plan.h"

enum { MOST_THREADS = 256, PARTS_A_THREAD = 16 };
enum {
  FIRST_WAKE_NS = 10000,
  LEAST_WAKE_NS = 1000,
  MOST_WAKE_NS = 200000, /* however busy the cores are: a job of a millisecond is shared */
  LOOKS_NS = 30000, /* before it sleeps: about what waking it takes */
  WAKES_PAID = 2,
  TRIED_AGAIN = 256
};

typedef struct job {
  int64_t lo, hi, parts;
  void (*work)(void *user, int64_t begin, int64_t end);
  void *user;
  atomic_llong next;  /* the part that nobody has taken yet */
  atomic_llong woken; /* when the first thread came, ns; 0: none has */
} job;

struct rt_pool {
  pthread_mutex_t owner; /* held by the run that owns the pool */
  pthread_mutex_t lock;  /* guards what follows */
  pthread_cond_t begun, ended;
  job *current;        /* NULL between jobs */
  atomic_ullong generation; /* counts jobs, so that a thread takes part in each once */
  atomic_int busy;          /* threads inside the current job */
  atomic_bool closing;
  int threads, workers; /* workers = threads - 1: the caller is the last one */
  atomic_llong wake_ns; /* from waking to the first part, about the median of late */
  atomic_uint declined; /* jobs that were said not to pay, since the last one that ran */
  pthread_t worker[];
};

int64_t rt_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- a job ---------------------------------------------------------------------------------- */
/* Parts differ by at most one element: the first `extra` are one longer. */
static int64_t part_begin(const job *j, int64_t part) {
  int64_t count = j->hi - j->lo, each = count / j->parts, extra = count % j->parts;
  return j->lo + part * each + (part < extra ? part : extra);
}

static void take_parts(job *j) {
  for (;;) {
    int64_t part = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
    if (part >= j->parts) return;
    j->work(j->user, part_begin(j, part), part_begin(j, part + 1));
  }
}

static void rest(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

static void look_for_job(rt_pool *pool, unsigned long long seen) {
  for (int64_t end = rt_now_ns() + LOOKS_NS; rt_now_ns() < end; rest())
    if (atomic_load(&pool->generation) != seen || atomic_load(&pool->closing)) return;
}

static void look_for_end(rt_pool *pool) {
  for (int64_t end = rt_now_ns() + LOOKS_NS; rt_now_ns() < end; rest())
    if (!atomic_load(&pool->busy)) return;
}

static void *worker_main(void *user) {
  rt_pool *pool = user;
  unsigned long long seen = 0;
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    while (!pool->closing && (!pool->current || pool->generation == seen))
      pthread_cond_wait(&pool->begun, &pool->lock);
    if (pool->closing) break;
    seen = pool->generation;
    job *j = pool->current;
    pool->busy++;
    pthread_mutex_unlock(&pool->lock);
    long long nobody = 0;
    atomic_compare_exchange_strong(&j->woken, &nobody, rt_now_ns());
    take_parts(j);
    pthread_mutex_lock(&pool->lock);
    if (--pool->busy == 0) pthread_cond_signal(&pool->ended);
    pthread_mutex_unlock(&pool->lock);
    look_for_job(pool, seen);
    pthread_mutex_lock(&pool->lock);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

/* An eighth up or down: a thread that came very late once says little.  Where nobody came before
 * all was done, waking takes at least as long as that. */
static void note_wake(rt_pool *pool, const job *j, int64_t begun) {
  int64_t woken = atomic_load(&j->woken), took = (woken ? woken : rt_now_ns()) - begun;
  int64_t wake = atomic_load_explicit(&pool->wake_ns, memory_order_relaxed);
  atomic_store_explicit(&pool->declined, 0, memory_order_relaxed);
  if (!woken && took < wake) return;
  wake += took > wake ? wake / 8 : -wake / 8;
  wake = wake < LEAST_WAKE_NS ? LEAST_WAKE_NS : wake > MOST_WAKE_NS ? MOST_WAKE_NS : wake;
  atomic_store_explicit(&pool->wake_ns, wake, memory_order_relaxed);
}

/* The caller works too; when it finds no part left, only threads that are inside still matter. */
static void run_job(rt_pool *pool, job *j) {
  int64_t begun = rt_now_ns();
  pthread_mutex_lock(&pool->lock);
  pool->current = j;
  pool->generation++;
  pthread_cond_broadcast(&pool->begun);
  pthread_mutex_unlock(&pool->lock);
  take_parts(j);
  pthread_mutex_lock(&pool->lock);
  pool->current = NULL; /* nobody enters any more */
  pthread_mutex_unlock(&pool->lock);
  look_for_end(pool);
  pthread_mutex_lock(&pool->lock);
  while (pool->busy) pthread_cond_wait(&pool->ended, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
  note_wake(pool, j, begun);
}

bool rt_pool_pays(rt_pool *pool, int64_t work_ns) {
  if (!pool || !pool->workers) return false;
  int64_t saved = work_ns - work_ns / pool->threads;
  int64_t wake = atomic_load_explicit(&pool->wake_ns, memory_order_relaxed);
  if (saved > WAKES_PAID * wake) return true;
  /* That may have been a busy hour: it is measured again now and then. */
  return atomic_fetch_add_explicit(&pool->declined, 1, memory_order_relaxed) >= TRIED_AGAIN;
}

void rt_pool_for(rt_pool *pool, int64_t lo, int64_t hi, int64_t least,
                 void (*work)(void *user, int64_t begin, int64_t end), void *user) {
  if (hi <= lo) return;
  if (least < 1) least = 1;
  int64_t parts = (hi - lo) / least;
  if (pool && parts > (int64_t)PARTS_A_THREAD * pool->threads)
    parts = (int64_t)PARTS_A_THREAD * pool->threads;
  if (!pool || !pool->workers || parts < 2 || pthread_mutex_trylock(&pool->owner)) {
    work(user, lo, hi);
    return;
  }
  job j = {.lo = lo, .hi = hi, .parts = parts, .work = work, .user = user};
  atomic_init(&j.next, 0);
  atomic_init(&j.woken, 0);
  run_job(pool, &j);
  pthread_mutex_unlock(&pool->owner);
}

/* ---- the pool ------------------------------------------------------------------------------- */
int rt_pool_size(const rt_pool *pool) { return pool ? pool->threads : 1; }

static int cores(void) {
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online < 1 ? 1 : online > MOST_THREADS ? MOST_THREADS : (int)online;
}

/* Fewer threads than asked for are no fault: the caller's own is always there. */
rt_pool *rt_pool_new(int threads) {
  if (threads <= 0) threads = cores();
  if (threads > MOST_THREADS) threads = MOST_THREADS;
  rt_pool *pool = calloc(1, sizeof *pool + (size_t)threads * sizeof(pthread_t));
  if (!pool) return NULL;
  pthread_mutex_init(&pool->owner, NULL);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->begun, NULL);
  pthread_cond_init(&pool->ended, NULL);
  atomic_init(&pool->generation, 0);
  atomic_init(&pool->busy, 0);
  atomic_init(&pool->closing, false);
  atomic_init(&pool->wake_ns, FIRST_WAKE_NS);
  atomic_init(&pool->declined, 0);
  while (pool->workers < threads - 1 &&
         !pthread_create(&pool->worker[pool->workers], NULL, worker_main, pool))
    pool->workers++;
  pool->threads = pool->workers + 1;
  return pool;
}

void rt_pool_free(rt_pool *pool) {
  if (!pool) return;
  pthread_mutex_lock(&pool->lock);
  pool->closing = true;
  pthread_cond_broadcast(&pool->begun);
  pthread_mutex_unlock(&pool->lock);
  for (int i = 0; i < pool->workers; i++) pthread_join(pool->worker[i], NULL);
  pthread_cond_destroy(&pool->begun);
  pthread_cond_destroy(&pool->ended);
  pthread_mutex_destroy(&pool->lock);
  pthread_mutex_destroy(&pool->owner);
  free(pool);
}
