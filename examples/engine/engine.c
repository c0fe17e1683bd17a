/* engine.c - how an inference engine calls spc: compiled once, then run for any batch and any mask.
 *
 * Usage: engine [ffn.spx].  One plan, one workspace, as large as the largest batch takes; a run
 * allocates nothing, so it can stand in a loop that must not stall.  On a GPU the same calls take
 * device pointers and a CUstream, and may be captured into a graph; here memory is the host's. */
#include <spc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, D = 256, F = 1024 };

static int failed(const spc_error *err) {
  fprintf(stderr, "%s\n%s", err->message, err->diagnostics);
  return 1;
}

static unsigned short bf16(float value) { /* towards zero: good enough for made-up weights */
  unsigned bits;
  memcpy(&bits, &value, sizeof bits);
  return (unsigned short)(bits >> 16);
}

static spc_tensor matrix(const char *name, long rows, long columns) {
  spc_tensor t;
  memset(&t, 0, sizeof t);
  t.struct_size = sizeof t;
  t.name = name;
  t.dtype = "bf16";
  t.rank = 2;
  t.shape[0] = rows;
  t.shape[1] = columns;
  t.value_count = rows * columns;
  t.values = malloc((size_t)t.value_count * 2);
  return t;
}

static void fill(spc_tensor *t, unsigned seed, float offset) {
  unsigned short *values = (unsigned short *)t->values;
  long i;
  for (i = 0; i < t->value_count; i++) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = bf16((float)(seed >> 8) / (float)(1 << 24) - offset);
  }
}

static void rows(spc_tensor *t, long count) { /* the first rows of an array */
  t->shape[0] = count;
  t->value_count = count * t->shape[1];
}

/* What the run found: nothing waits for it, on a GPU neither. */
static void print_guards(const spc_plan *plan) {
  static const char *const branches[] = {"did not look", "took the sparse way", "took the dense way"};
  spc_guard_info guard;
  int i;
  guard.struct_size = sizeof guard;
  for (i = 0; !spc_plan_guard(plan, i, &guard, NULL); i++)
    printf("    %.1f %% of `%s` is covered, dense pays from %.1f %%: it %s\n", 100 * guard.cover,
           guard.tensor, 100 * guard.break_even, branches[guard.branch]);
}

int main(int argc, char **argv) {
  static const long batches[] = {1, 64, 7, 0, 33};
  spc_error err = SPC_ERROR_INIT;
  spc_context_options options;
  spc_program_options program_options;
  spc_size fixed[2] = {{"D", D}, {"F", F}}, usual[2] = {{"T", 1}, {"T", MOST}};
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
  spc_tensor t[4];
  void *workspace;
  size_t bytes, i;
  double sum;
  long k;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.backend = "cpu";
  memset(&program_options, 0, sizeof program_options);
  program_options.struct_size = sizeof program_options;
  program_options.fixed = fixed;
  program_options.fixed_count = 2;
  program_options.usual = usual; /* code for one token and for many: each run takes the nearer one */
  program_options.usual_count = 2;

  /* Once: compile, load, find out how much workspace the largest batch takes. */
  if (spc_context_new(&options, &context, &err)) return failed(&err);
  if (spc_program_from_file(context, argc > 1 ? argv[1] : "examples/ffn.spx", &program_options,
                            &program, &err))
    return failed(&err);
  if (spc_plan_new(program, NULL, NULL, 0, &plan, &err) || spc_plan_prepare(plan, &err))
    return failed(&err);
  t[0] = matrix("x", MOST, D);
  t[1] = matrix("W1", D, F);
  t[2] = matrix("W2", F, D);
  t[3] = matrix("y", MOST, D);
  fill(&t[0], 1, 0.5f);
  fill(&t[1], 2, 0.5f);
  fill(&t[2], 3, 0.5f);
  if (spc_workspace(plan, t, 4, &bytes, &err)) return failed(&err);
  workspace = aligned_alloc(256, bytes + 256 - bytes % 256);
  printf("%lu bytes of workspace serve every batch up to %d tokens\n", (unsigned long)bytes, MOST);

  /* For ever: other batch sizes, other data, other zeros. */
  for (i = 0; i < sizeof batches / sizeof *batches; i++) {
    rows(&t[0], batches[i]);
    rows(&t[3], batches[i]);
    if (spc_enqueue(plan, t, 4, workspace, bytes, NULL, &err)) return failed(&err);
    for (sum = 0, k = 0; k < t[3].value_count; k++) sum += ((unsigned short *)t[3].values)[k] != 0;
    printf("%3ld tokens: %.0f of %ld results are not zero\n", batches[i], sum,
           (long)t[3].value_count);
    print_guards(plan);
  }

  for (i = 0; i < 4; i++) free(t[i].values);
  free(workspace);
  spc_plan_free(plan);
  spc_program_free(program);
  spc_context_free(context);
  return 0;
}
