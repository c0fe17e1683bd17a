/* driver.c - libcuda.so.1 as far as runtime/cuda_driver.h names it, in front of the emulated device.
 *
 * A launch runs the grid before it returns; while a stream is captured it is written down, and a graph runs what was written.
 * A kernel that faults makes its launch fail with 719, whose text says what happened; so does the standard error output.
 *   SPC_EMULATED_DEVICE=80   the device says that it is sm_80 (default 90)
 * Usage: SPC_CUDA_LIB=libemulated-cuda.so SPC_NVRTC_LIB=libemulated-nvrtc.so ... */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "emulator.h"
#include "runtime/cuda_driver.h"

/* A function named emulated_FIELD here, and as the driver names it in the library. */
#define DECLARE(FIELD, NAME, PARAMETERS)                                                           \
  __attribute__((visibility("default"))) cu_result emulated_##FIELD PARAMETERS __asm__(NAME);
RT_DRIVER_FUNCTIONS(DECLARE)
#undef DECLARE

enum {
  INVALID = 1,
  NO_MEMORY = 2,
  NO_IMAGE = 200,
  NO_CONTEXT = 201,
  NOT_FOUND = 500,
  FAILED = 719,
  CAPTURE_UNSAFE = 900,
  CAPTURE_BROKEN = 901
};
enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76, SHARED_OPTIN = 97, MAX_DYNAMIC_SHARED = 8 };
enum { STATIC_SHARED = 48 << 10, MOST_SHARED = 232448, MOST_THREADS = 1024, POISON = 0xff };
enum { GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 };

struct cu_module {
  em_module *module;
  cu_function *functions;
};
struct cu_function {
  em_kernel *kernel;
  int most_shared;
  cu_function *next;
};

typedef enum node_kind { LAUNCH, FILL, UPLOAD } node_kind;
typedef struct node {
  struct node *next;
  node_kind kind;
  em_machine machine; /* `parameters`: its own copy */
  cu_address to;
  const void *from;
  unsigned char byte;
  size_t bytes;
} node;

struct cu_graph {
  node *first, *last;
};
struct cu_graph_exec {
  cu_graph graph;
};
struct cu_stream {
  cu_graph *graph; /* under way; NULL: runs */
  int mode;
  atomic_int broken;
};
struct cu_event {
  struct timespec at;
};

static void keep_fault(const char *text);

/* ---- contexts and captures ------------------------------------------------------------------- */
static char context; /* there is one, and it has nothing in it */
static _Thread_local cu_context *current;
static _Thread_local int own_mode = GLOBAL;
static _Thread_local cu_stream *own_capture; /* of the thread-local mode */
static cu_stream *_Atomic global_capture;    /* of the global mode */

/* What a call that takes memory, loads or waits does to a capture. */
static cu_result unsafe(bool default_stream) {
  cu_stream *all = atomic_load(&global_capture);
  if (!current) return NO_CONTEXT;
  if (all && (own_mode != RELAXED || default_stream)) {
    atomic_store(&all->broken, 1);
    return CAPTURE_UNSAFE;
  }
  if (own_capture && (own_mode != RELAXED || default_stream)) {
    atomic_store(&own_capture->broken, 1);
    return CAPTURE_UNSAFE;
  }
  return 0;
}
#define UNLESS_UNSAFE(DEFAULT_STREAM)                                                              \
  {                                                                                                \
    cu_result unsafe_ = unsafe(DEFAULT_STREAM);                                                    \
    if (unsafe_) return unsafe_;                                                                   \
  }

/* ---- the device ------------------------------------------------------------------------------ */
cu_result emulated_init(unsigned flags) { return flags ? INVALID : 0; }
cu_result emulated_driver_version(int *version) { return *version = 13000, 0; }
cu_result emulated_device_count(int *count) { return *count = 1, 0; }
cu_result emulated_device_get(int *device, int number) { return *device = number, number ? INVALID : 0; }
cu_result emulated_device_name(char *name, int length, int device) {
  if (device || length < 1) return INVALID;
  snprintf(name, (size_t)length, "emulated device");
  return 0;
}
cu_result emulated_device_attribute(int *value, int attribute, int device) {
  const char *text = getenv("SPC_EMULATED_DEVICE");
  int capability = text && atoi(text) >= 80 ? atoi(text) : 90;
  switch (attribute) {
    case MULTIPROCESSORS: return *value = em_units(), device ? INVALID : 0;
    case MAJOR: return *value = capability / 10, 0;
    case MINOR: return *value = capability % 10, 0;
    case SHARED_OPTIN: return *value = capability >= 90 ? MOST_SHARED : 166912, 0;
    default: return INVALID;
  }
}
cu_result emulated_context_retain(cu_context **to, int device) { return *to = (cu_context *)(void *)&context, device ? INVALID : 0; }
cu_result emulated_context_release(int device) { return device ? INVALID : 0; }
cu_result emulated_context_set(cu_context *to) { return current = to, 0; }

/* ---- memory ---------------------------------------------------------------------------------- */
static cu_result allocate(void **to, size_t bytes) {
  UNLESS_UNSAFE(false);
  if (!bytes) return INVALID;
  *to = em_memory_allocate(bytes, POISON);
  return *to ? 0 : NO_MEMORY;
}
cu_result emulated_allocate(cu_address *address, size_t bytes) {
  void *memory = NULL;
  cu_result result = allocate(&memory, bytes);
  *address = (cu_address)(uintptr_t)memory;
  return result;
}
cu_result emulated_release(cu_address address) {
  UNLESS_UNSAFE(false);
  return !address || em_memory_release((void *)(uintptr_t)address) ? 0 : INVALID;
}
cu_result emulated_host_allocate(void **host, size_t bytes, unsigned flags) { return (void)flags, allocate(host, bytes); }
cu_result emulated_host_release(void *host) {
  UNLESS_UNSAFE(false);
  return em_memory_release(host) ? 0 : INVALID;
}
cu_result emulated_host_address(cu_address *address, void *host, unsigned flags) {
  *address = (cu_address)(uintptr_t)host;
  return flags || !em_memory_holds(*address, 1) ? INVALID : 0;
}
static cu_result copy(void *to, const void *from, size_t bytes, const void *device) {
  if (!bytes) return 0;
  if (!em_memory_holds((uint64_t)(uintptr_t)device, bytes)) return INVALID;
  memcpy(to, from, bytes);
  return 0;
}
cu_result emulated_upload(cu_address to, const void *from, size_t bytes) {
  UNLESS_UNSAFE(true);
  return copy((void *)(uintptr_t)to, from, bytes, (void *)(uintptr_t)to);
}
cu_result emulated_download(void *to, cu_address from, size_t bytes) {
  UNLESS_UNSAFE(true);
  return copy(to, (const void *)(uintptr_t)from, bytes, (const void *)(uintptr_t)from);
}

/* ---- what goes into a stream ----------------------------------------------------------------- */
static cu_result run_node(const node *n) {
  if (n->kind == UPLOAD) return copy((void *)(uintptr_t)n->to, n->from, n->bytes, (void *)(uintptr_t)n->to);
  if (n->kind == FILL) {
    if (n->bytes && !em_memory_holds(n->to, n->bytes)) return INVALID;
    memset((void *)(uintptr_t)n->to, n->byte, n->bytes);
    return 0;
  }
  em_machine machine = n->machine;
  static _Thread_local char said[sizeof machine.error];
  if (em_run(&machine)) return 0;
  if (strcmp(said, machine.error)) fprintf(stderr, "emulated device: %s\n", machine.error);
  snprintf(said, sizeof said, "%s", machine.error);
  keep_fault(machine.error);
  return FAILED;
}

static node *copy_of(const node *n) {
  node *c = malloc(sizeof *c);
  *c = *n;
  c->next = NULL;
  if (n->kind != LAUNCH) return c;
  size_t bytes = n->machine.kernel->parameter_bytes;
  c->machine.parameters = aligned_alloc(64, (bytes + 64) / 64 * 64);
  memcpy(c->machine.parameters, n->machine.parameters, bytes);
  return c;
}
static void free_nodes(node *n) {
  while (n) {
    node *next = n->next;
    if (n->kind == LAUNCH) free(n->machine.parameters);
    free(n);
    n = next;
  }
}
static void append(cu_graph *g, const node *n) {
  node *c = copy_of(n);
  if (g->last) g->last->next = c;
  else g->first = c;
  g->last = c;
}

static cu_result enqueue(cu_stream *stream, const node *n) {
  if (!current) return NO_CONTEXT;
  if (!stream || !stream->graph) return !stream && atomic_load(&global_capture) ? unsafe(true) : run_node(n);
  append(stream->graph, n);
  return 0;
}

cu_result emulated_upload_on(cu_address to, const void *from, size_t bytes, cu_stream *stream) {
  return enqueue(stream, &(node){.kind = UPLOAD, .to = to, .from = from, .bytes = bytes});
}
cu_result emulated_fill(cu_address to, unsigned char byte, size_t bytes, cu_stream *stream) {
  return enqueue(stream, &(node){.kind = FILL, .to = to, .byte = byte, .bytes = bytes});
}

/* ---- modules and launches -------------------------------------------------------------------- */
cu_result emulated_module_load(cu_module **to, const void *image) {
  char error[300] = "it is no PTX: kernels for the emulated device are compiled by libemulated-nvrtc.so";
  UNLESS_UNSAFE(false);
  const char *text = image;
  em_module *parsed = text[0] == '/' || text[0] == '.' ? em_module_parse(text, error, sizeof error) : NULL;
  if (!parsed) {
    fprintf(stderr, "emulated device: a module is not loaded: %s\n", error);
    keep_fault(error);
    return NO_IMAGE;
  }
  *to = calloc(1, sizeof **to);
  (*to)->module = parsed;
  return 0;
}
cu_result emulated_module_unload(cu_module *m) {
  UNLESS_UNSAFE(false);
  for (cu_function *f = m->functions, *next; f; f = next) {
    next = f->next;
    free(f);
  }
  em_module_free(m->module);
  free(m);
  return 0;
}
cu_result emulated_module_function(cu_function **to, cu_module *m, const char *name) {
  em_kernel *kernel = em_module_kernel(m->module, name);
  if (!kernel) return NOT_FOUND;
  cu_function *f = calloc(1, sizeof *f);
  *f = (cu_function){kernel, STATIC_SHARED, m->functions};
  *to = m->functions = f;
  return 0;
}
cu_result emulated_function_attribute(cu_function *f, int attribute, int value) {
  if (attribute != MAX_DYNAMIC_SHARED || value < 0 || value + (int)f->kernel->shared_bytes > MOST_SHARED) return INVALID;
  f->most_shared = value;
  return 0;
}

static cu_result machine_of(const cu_launch_config *c, const cu_function *f, em_machine *m) {
  enum { CLUSTER_DIMENSION = 4 };
  const em_kernel *k = f->kernel;
  *m = (em_machine){.kernel = k, .shared_bytes = c->shared_bytes};
  memcpy(m->cluster, k->cluster, sizeof m->cluster);
  for (unsigned a = 0; a < c->attribute_count; a++) {
    unsigned size[3];
    memcpy(size, &c->attributes[a].value, sizeof size);
    for (int d = 0; d < 3 && c->attributes[a].id == CLUSTER_DIMENSION; d++) m->cluster[d] = (int)size[d];
  }
  for (int d = 0; d < 3; d++) {
    m->grid[d] = (int)c->grid[d];
    m->block[d] = (int)c->block[d];
    if (m->grid[d] < 1 || m->block[d] < 1 || m->cluster[d] < 1 || m->grid[d] % m->cluster[d]) return INVALID;
  }
  int threads = m->block[0] * m->block[1] * m->block[2], blocks = m->cluster[0] * m->cluster[1] * m->cluster[2];
  if (threads > MOST_THREADS || (k->most_threads && threads > k->most_threads) || blocks > EM_MOST_CLUSTER) return INVALID;
  return (int)c->shared_bytes > f->most_shared ? INVALID : 0;
}

cu_result emulated_launch(const cu_launch_config *c, cu_function *f, void **parameters, void **extra) {
  node n = {.kind = LAUNCH};
  unsigned char room[4096] __attribute__((aligned(64)));
  if (extra || f->kernel->parameter_bytes > sizeof room) return INVALID;
  cu_result result = machine_of(c, f, &n.machine);
  if (result) return result;
  for (int p = 0; p < f->kernel->parameter_count; p++) {
    if (!parameters[p]) memset(room + f->kernel->parameters[p].at, POISON, f->kernel->parameters[p].bytes);
    else memcpy(room + f->kernel->parameters[p].at, parameters[p], f->kernel->parameters[p].bytes);
  }
  n.machine.parameters = room;
  return enqueue(c->stream, &n);
}

/* Refuses what the driver refuses. */
cu_result emulated_tensor_map(spc_tensor_map *to, int element, unsigned rank, void *base, const unsigned long long *extent,
                              const unsigned long long *stride, const unsigned *box, const unsigned *step, int interleave,
                              int swizzle, int promotion, int fill) {
  static const int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  em_tensor_map map = {.base = (uint64_t)(uintptr_t)base, .rank = (uint8_t)rank, .element = (uint8_t)element, .magic = EM_MAP_MAGIC};
  if (rank < 1 || rank > 5 || element < 0 || element > 12 || swizzle < 0 || swizzle > 3 || interleave || fill || map.base % 16)
    return INVALID;
  (void)promotion;
  map.swizzle = (uint8_t)(swizzle ? 16 << swizzle : 0);
  for (unsigned d = 0; d < rank; d++) {
    if (!extent[d] || extent[d] > 1ull << 32 || !box[d] || box[d] > 256 || step[d] != 1) return INVALID;
    map.extent[d] = (uint32_t)extent[d];
    map.box[d] = (uint16_t)box[d];
    if (d + 1 == rank) break;
    if (stride[d] % 16 || stride[d] >= 1ull << 40) return INVALID;
    map.stride[d] = stride[d];
  }
  unsigned row = box[0] * (unsigned)bytes[element];
  if (row % 16 || (map.swizzle && row > map.swizzle)) return INVALID;
  memset(to, 0, sizeof *to);
  memcpy(to, &map, sizeof map);
  return 0;
}

/* ---- streams and graphs ---------------------------------------------------------------------- */
cu_result emulated_stream_new(cu_stream **to, unsigned flags) {
  (void)flags;
  UNLESS_UNSAFE(false);
  *to = calloc(1, sizeof **to);
  return *to ? 0 : NO_MEMORY;
}
cu_result emulated_stream_free(cu_stream *stream) { return free(stream), 0; }
cu_result emulated_stream_wait(cu_stream *stream) {
  if (stream && stream->graph) {
    atomic_store(&stream->broken, 1);
    return CAPTURE_UNSAFE;
  }
  UNLESS_UNSAFE(!stream);
  return 0;
}
cu_result emulated_capture_mode(int *mode) {
  int before = own_mode;
  own_mode = *mode;
  *mode = before;
  return 0;
}
cu_result emulated_capture_begin(cu_stream *stream, int mode) {
  if (!stream || stream->graph) return INVALID;
  stream->graph = calloc(1, sizeof *stream->graph);
  stream->mode = mode;
  atomic_store(&stream->broken, 0);
  if (mode == GLOBAL) atomic_store(&global_capture, stream);
  if (mode == THREAD_LOCAL) own_capture = stream;
  return 0;
}
cu_result emulated_capture_end(cu_stream *stream, cu_graph **to) {
  *to = NULL;
  if (!stream || !stream->graph) return INVALID;
  if (stream->mode == GLOBAL) atomic_store(&global_capture, NULL);
  if (stream->mode == THREAD_LOCAL) own_capture = NULL;
  cu_graph *graph = stream->graph;
  stream->graph = NULL;
  if (!atomic_load(&stream->broken)) return *to = graph, 0;
  free_nodes(graph->first);
  free(graph);
  return CAPTURE_BROKEN;
}
cu_result emulated_graph_instantiate(cu_graph_exec **to, cu_graph *graph, unsigned long long flags) {
  (void)flags;
  *to = calloc(1, sizeof **to);
  for (const node *n = graph->first; n; n = n->next) append(&(*to)->graph, n);
  return 0;
}
cu_result emulated_graph_launch(cu_graph_exec *exec, cu_stream *stream) {
  cu_result result = current ? 0 : NO_CONTEXT;
  for (const node *n = exec->graph.first; n && !result; n = n->next) result = enqueue(stream, n);
  return result;
}
cu_result emulated_graph_free(cu_graph *graph) {
  free_nodes(graph->first);
  free(graph);
  return 0;
}
cu_result emulated_graph_exec_free(cu_graph_exec *exec) {
  free_nodes(exec->graph.first);
  free(exec);
  return 0;
}

/* ---- events: the clock on the wall ----------------------------------------------------------- */
cu_result emulated_event_new(cu_event **to, unsigned flags) {
  (void)flags;
  *to = calloc(1, sizeof **to);
  return *to ? 0 : NO_MEMORY;
}
cu_result emulated_event_free(cu_event *event) { return free(event), 0; }
cu_result emulated_event_record(cu_event *event, cu_stream *stream) {
  (void)stream;
  return clock_gettime(CLOCK_MONOTONIC, &event->at) ? INVALID : 0;
}
cu_result emulated_event_wait(cu_event *event) {
  (void)event;
  UNLESS_UNSAFE(false);
  return 0;
}
cu_result emulated_event_elapsed(float *milliseconds, cu_event *begin, cu_event *end) {
  double seconds = (double)(end->at.tv_sec - begin->at.tv_sec), rest = (double)(end->at.tv_nsec - begin->at.tv_nsec);
  *milliseconds = (float)(seconds * 1e3 + rest / 1e6 + 1e-3);
  return 0;
}

/* ---- words ----------------------------------------------------------------------------------- */
static _Thread_local char last_fault[600];
static void keep_fault(const char *text) { snprintf(last_fault, sizeof last_fault, "%s", text); }

cu_result emulated_error_text(cu_result result, const char **text) {
  *text = result == INVALID          ? "a value that the device does not take"
          : result == NO_MEMORY      ? "no memory"
          : result == NO_CONTEXT     ? "no context is current"
          : result == CAPTURE_UNSAFE ? "not while a stream is captured"
          : result == CAPTURE_BROKEN ? "the capture was spoilt"
                                     : last_fault;
  return 0;
}
cu_result emulated_error_name(cu_result result, const char **text) {
  *text = result == FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_EMULATED";
  return 0;
}
