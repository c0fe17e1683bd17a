// The C++ wrapper, part by part: handles that move, tensors of every helper, errors, jobs.  Plain main, on the interpreter.
#include <spc.hpp>

#include <cstdio>
#include <cstring>
#include <type_traits>

static int faults;
#define EXPECT(condition) ((condition) ? void() : (std::printf("FAIL line %d: %s\n", __LINE__, #condition), void(faults++)))

template <class Work> static spc_status status_of(Work work) {
  try {
    work();
  } catch (const spc::error &e) {
    EXPECT(!e.message().empty() && std::strstr(e.what(), e.message().c_str()));
    return e.status();
  }
  return SPC_OK;
}

static_assert(!std::is_copy_constructible<spc::plan>::value, "a handle is not copied");
static_assert(std::is_nothrow_move_constructible<spc::program>::value, "a handle is moved");

int main() {
  spc::context context("interp", 1);
  EXPECT(context.backend() == "interp");
  const std::string two = "spx 1; dim N: dyn; dim M = 4; kernel one { in x: f32[N]; in a: f64[]; out y[i] = 2 * x[i]; }"
                          " kernel more { in A: f32[N,M] as csr; in B: f32[N,M] as csr; out C[i,j] = A[i,j] + B[i,j] as csr; }";
  spc::program program = context.compile(two);
  EXPECT(program.kernel_count() == 2 && program.kernel_name(0) == "one" && program.kernel_name(9).empty());
  spc::plan plan = program.plan("one");
  EXPECT(plan.tensor_count() == 3 && !std::strcmp(plan.tensor_info(0).name, "x"));

  // moves, and what a moved handle is
  spc::plan other = std::move(plan);
  EXPECT(!plan && other);
  plan = std::move(other);
  EXPECT(plan && !other);

  // runs: vectors, const inputs, scalars, shapes of results
  const std::vector<float> x = {1, 2, 3};
  std::vector<float> y(3);
  double a = 1;
  plan.run({spc::dense("x", x, {3}), spc::scalar("a", &a), spc::dense("y", y, {3})});
  EXPECT(y[2] == 6);
  std::vector<spc_tensor> list = {spc::dense("x", x.data(), {3}), spc::scalar("a", &a),
                                  spc::tensor("y", "f32", nullptr, 0, {})};
  plan.shapes(list);
  EXPECT(list[2].rank == 1 && list[2].shape[0] == 3 && list[2].value_count == 3);

  // results whose room is not known before
  spc::plan sum = program.plan("more");
  std::vector<std::int32_t> pos = {0, 1, 2}, crd = {0, 3};
  std::vector<float> values = {5, 6};
  spc::tensor result("C", "f32", nullptr, 0, {2, 4});
  list = {spc::csr("A", 2, 4, pos, crd, values), spc::csr("B", 2, 4, pos, crd, values), result};
  EXPECT(!sum.try_run(list) && list[2].value_count == 2);
  std::vector<std::int32_t> result_pos(3), result_crd(2);
  std::vector<float> result_values(2);
  list[2] = spc::tensor("C", "f32", result_values.data(), 2, {2, 4}).with_pos(1, result_pos.data(), 3).with_crd(1, result_crd.data(), 2);
  EXPECT(sum.try_run(list) && result_values[1] == 12 && result_crd[1] == 3);

  // what lies apart: rows, matrices of a batch, columns
  spc::program apart = context.compile("spx 1; dim B: dyn; dim N: dyn; dim M: dyn; kernel k { in x: f32[B,N,M]; in w: f32[N,M] as dense_t;"
                                       " out y[b,i,j] = x[b,i,j] + w[i,j]; }");
  std::vector<float> cube(48), wide(12), made(48, -1);
  for (int i = 0; i < 48; i++) cube[i] = static_cast<float>(i);
  apart.plan().run({spc::dense("x", cube.data(), {2, 3, 2}).with_strides({24, 5, 1}), spc::dense("w", wide.data(), {3, 2}).with_pitch(4),
                    spc::dense("y", made.data(), {2, 3, 2}).with_pitch(8)});
  EXPECT(made[0] == 0 && made[1] == 1 && made[2] == -1 && made[8] == 5 && made[24] == 24 && made[41] == 35 && made[42] == -1);
  EXPECT(status_of([&] { spc::dense("x", cube.data(), {2, 3, 2}).with_strides({24, 5}); }) == SPC_INVALID_ARGUMENT);

  // options
  spc::compile_options options;
  options.fixed = {{"M", 9}};
  options.reproducible = options.packed = true;
  EXPECT(context.compile(two, options).kernel_count() == 2);
  EXPECT(status_of([&] { program.plan("one", {{"Q", 3}}); }) == SPC_INVALID_ARGUMENT);

  // errors
  const std::string bad = "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = x[j]; }";
  try {
    context.compile(bad);
    EXPECT(false);
  } catch (const std::runtime_error &e) {
    EXPECT(std::strstr(e.what(), "E0201") && std::strstr(e.what(), "^"));
  }
  EXPECT(status_of([&] { context.load("/nowhere.spx"); }) == SPC_IO);
  EXPECT(status_of([&] { context.load("no bundle", 9); }) == SPC_IO);
  EXPECT(status_of([&] { spc::context abacus("abacus"); }) == SPC_INVALID_ARGUMENT);
  EXPECT(status_of([&] { program.plan(); }) == SPC_INVALID_ARGUMENT); // there are two kernels
  EXPECT(status_of([&] { plan.prepare(); }) == SPC_UNAVAILABLE);      // the interpreter's
  EXPECT(status_of([&] { spc::dense("x", y, {4}); }) == SPC_INVALID_ARGUMENT);
  EXPECT(status_of([&] { plan.run({}); }) == SPC_INVALID_ARGUMENT);
  EXPECT(status_of([&] { spc::tensor("t", "f32", nullptr, 0, {1, 1, 1, 1, 1, 1, 1, 1, 1}); }) == SPC_INVALID_ARGUMENT);
  EXPECT(status_of([&] { spc::tensor("t", "f32", nullptr, 0, {1}).with_pos(12, nullptr, 0); }) == SPC_INVALID_ARGUMENT);

  // jobs
  spc::job good = context.begin(two), wrong = context.begin(bad, options), never = context.begin(two);
  never.cancel();
  EXPECT(good.wait() && good.done() && good.take().kernel_count() == 2);
  EXPECT(status_of([&] { good.take(); }) == SPC_INVALID_ARGUMENT);
  EXPECT(status_of([&] { wrong.take(); }) == SPC_INVALID_INPUT || status_of([&] { wrong.take(); }) == SPC_INVALID_ARGUMENT);
  if (!faults) std::puts("the C++ wrapper: all is well");
  return faults != 0;
}
