/* A program of an older header (-I tests/abi/FOLDER) on the library of today: every call that the
 * header has, structs as large as they were then.  Usage: old_program BACKEND.  Exit code 0: all well. */
#include <spc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, COLUMNS = 7 };
static const char text[] =
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as csr; in x: f32[M];"
    " out y[i] = sum[j] A[i,j] * x[j]; out z[i,j] = 2 * A[i,j] as like(A); }";

static int pos[ROWS + 1] = {0, 2, 2, 3, 5, 6}, crd[6] = {0, 6, 3, 1, 2, 5};
static float values[6] = {1, 2, 3, 4, 5, 6}, x[COLUMNS] = {1, 1, 1, 1, 1, 1, 1}, y[ROWS], z[6];
static spc_tensor tensors[4];

static int failed(int line, const spc_error *err) {
  printf("line %d: %s\n%s\n", line, err->message, err->diagnostics);
  return 1;
}
#define MUST(call)                                                                                 \
  if (call) return failed(__LINE__, &err)
#define EXPECT(condition)                                                                          \
  if (!(condition)) return printf("line %d: %s\n", __LINE__, #condition), 1

static void set(spc_tensor *t, const char *name, int rank, long rows, long columns, void *at, long count) {
  memset(t, 0, sizeof *t);
  t->struct_size = sizeof *t;
  t->name = name;
  t->dtype = "f32";
  t->rank = rank;
  t->shape[0] = rows;
  t->shape[1] = columns;
  t->values = at;
  t->value_count = count;
}

static void set_all(void) {
  set(&tensors[0], "A", 2, ROWS, COLUMNS, values, 6);
  tensors[0].pos[1] = pos;
  tensors[0].crd[1] = crd;
  tensors[0].pos_count[1] = ROWS + 1;
  tensors[0].crd_count[1] = 6;
  set(&tensors[1], "x", 1, COLUMNS, 0, x, COLUMNS);
  set(&tensors[2], "y", 1, ROWS, 0, y, ROWS);
  set(&tensors[3], "z", 2, ROWS, COLUMNS, z, 6);
}

static int is_right(void) {
  return y[0] == 3 && y[1] == 0 && y[2] == 3 && y[3] == 9 && y[4] == 6 && z[0] == 2 && z[5] == 12;
}

static int use(const char *backend) {
  spc_error err = SPC_ERROR_INIT;
  spc_context_options options;
  spc_program_options program_options;
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
  struct {
    spc_tensor_info info;
    char behind[64]; /* the library writes no more than the struct holds */
  } guarded;
  size_t i, bytes;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.backend = backend;
  options.threads = 2;
  memset(&program_options, 0, sizeof program_options);
  program_options.struct_size = sizeof program_options;
  program_options.reproducible = 1;
  EXPECT(spc_version_number() >= SPC_VERSION_NUMBER);
  EXPECT(!strcmp(spc_status_name(SPC_OK), "ok"));
  MUST(spc_context_new(&options, &context, &err));
  EXPECT(!strcmp(spc_context_backend(context), backend));
  MUST(spc_program_from_text(context, text, strlen(text), &program_options, &program, &err));
  EXPECT(spc_program_kernel_count(program) == 1 && !strcmp(spc_program_kernel_name(program, 0), "k"));
  MUST(spc_plan_new(program, "k", NULL, 0, &plan, &err));
  EXPECT(spc_plan_tensor_count(plan) == 4);
  memset(&guarded, 0x77, sizeof guarded);
  guarded.info.struct_size = sizeof guarded.info;
  MUST(spc_plan_tensor(plan, 0, &guarded.info, &err));
  EXPECT(!strcmp(guarded.info.format, "csr") && guarded.info.level_count == 2);
  for (i = 0; i < sizeof guarded.behind; i++) EXPECT(guarded.behind[i] == 0x77);
  set_all();
  tensors[2].rank = 0;
  MUST(spc_plan_shapes(plan, tensors, 4, &err));
  EXPECT(tensors[2].rank == 1 && tensors[2].shape[0] == ROWS && tensors[3].value_count == 6);
  MUST(spc_run(plan, tensors, 4, &err));
  EXPECT(is_right());
  tensors[1].shape[0]--;
  EXPECT(spc_run(plan, tensors, 4, &err) == SPC_INVALID_INPUT && err.status == SPC_INVALID_INPUT && err.message[0]);
  tensors[1].shape[0]++;
  if (strcmp(backend, "interp")) {
    void *workspace;
    memset(y, 0, sizeof y);
    memset(z, 0, sizeof z);
    MUST(spc_plan_prepare(plan, &err));
    MUST(spc_workspace(plan, tensors, 4, &bytes, &err));
    workspace = aligned_alloc(256, bytes + 256 - bytes % 256);
    MUST(spc_enqueue(plan, tensors, 4, workspace, bytes, NULL, &err));
    EXPECT(is_right());
    free(workspace);
  }
  spc_plan_free(plan);
  spc_program_free(program);
  spc_context_free(context);
  return 0;
}

int main(int argc, char **argv) { return argc == 2 ? use(argv[1]) : 2; }
