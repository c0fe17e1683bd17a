// A sparse product and its background compile from C++: rows of a csr matrix times a vector, then relu.
//     g++ -std=c++11 examples/cpp/scores.cpp $(pkg-config --cflags --libs spc) -o scores && ./scores
#include <spc.hpp>

#include <iostream>

static const char *const text = R"(spx 1;
dim N: dyn;  dim M: dyn;
kernel scores {
  in A: f32[N,M] as csr;  in x: f32[M];
  out y[i] = relu(sum[j] A[i,j] * x[j]);
}
)";

int main(int argc, char **argv) {
  try {
    spc::context context(argc > 1 ? argv[1] : "");
    spc::job job = context.begin(text); // the process may go on meanwhile
    spc::program program = job.take();
    spc::plan plan = program.plan();

    std::vector<std::int32_t> pos = {0, 2, 2, 3}, crd = {0, 2, 1};
    std::vector<float> values = {1, 2, -3}, x = {1, 10, 100}, y(3, -1.0f);
    plan.run({spc::csr("A", 3, 3, pos, crd, values), spc::dense("x", x, {3}), spc::dense("y", y, {3})});
    std::cout << context.backend() << ":";
    for (float value : y) std::cout << " " << value;
    std::cout << "\n";

    context.compile("spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = x[j]; }");
  } catch (const spc::error &e) {
    std::cout << e.what();
    return e.diagnostics().empty() ? 1 : 0; // the last program is wrong on purpose
  }
  return 1;
}
