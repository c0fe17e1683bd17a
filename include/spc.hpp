/* spc.hpp - spc.h for C++11 and later: handles that free themselves, failures as exceptions.
 *
 *     spc::context context;                                          // the best back end that is here
 *     spc::program program = context.compile(text);                  // or load(path), or load(data, bytes)
 *     spc::plan plan = program.plan();                               // of the only kernel
 *     plan.run({spc::dense("x", x, {rows, 256}), ..., spc::dense("y", y, {rows, 256})});
 *
 * Header only; nothing here but what spc.h says, which is the contract: read it first.  Every handle is
 * moved, never copied, and must not outlive the one that it came from (a program its context, a plan its
 * program).  A call that fails throws spc::error with the message, the status and, where a program is at
 * fault, the rendered diagnostics.  Threads: as in spc.h. */
#ifndef SPC_HPP
#define SPC_HPP

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "spc.h"

namespace spc {

/* ---- errors -------------------------------------------------------------------------------------- */
/* what() is the message, with the diagnostics behind it where there are any. */
class error : public std::runtime_error {
public:
  error(spc_status status, const std::string &message, const std::string &diagnostics)
      : std::runtime_error(diagnostics.empty() ? message : message + "\n" + diagnostics), status_(status),
        message_(message), diagnostics_(diagnostics) {}
  spc_status status() const noexcept { return status_; }
  const std::string &message() const noexcept { return message_; }
  const std::string &diagnostics() const noexcept { return diagnostics_; }

private:
  spc_status status_;
  std::string message_, diagnostics_;
};

namespace detail {
inline spc_error fresh() {
  spc_error err = SPC_ERROR_INIT;
  return err;
}

inline void check(spc_status status, const spc_error &err) {
  if (status != SPC_OK) throw error(status, err.message, err.diagnostics);
}

/* A handle of the C interface and how it is freed. */
template <class T, void (*Free)(T *)> class handle {
public:
  handle() noexcept : at_(nullptr) {}
  explicit handle(T *at) noexcept : at_(at) {}
  handle(handle &&other) noexcept : at_(other.release()) {}
  handle &operator=(handle &&other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  handle(const handle &) = delete;
  handle &operator=(const handle &) = delete;
  ~handle() { Free(at_); }

  T *get() const noexcept { return at_; } /* for calls of spc.h; still owned here */
  T *release() noexcept {
    T *at = at_;
    at_ = nullptr;
    return at;
  }
  void reset(T *at = nullptr) noexcept {
    Free(at_);
    at_ = at;
  }
  explicit operator bool() const noexcept { return at_ != nullptr; }

private:
  T *at_;
};

template <class T> struct dtype;
template <> struct dtype<double> { static const char *name() { return "f64"; } };
template <> struct dtype<float> { static const char *name() { return "f32"; } };
template <> struct dtype<std::int64_t> { static const char *name() { return "i64"; } };
template <> struct dtype<std::int32_t> { static const char *name() { return "i32"; } };
template <> struct dtype<std::int16_t> { static const char *name() { return "i16"; } };
template <> struct dtype<std::int8_t> { static const char *name() { return "i8"; } };
template <> struct dtype<std::uint8_t> { static const char *name() { return "u8"; } };
template <> struct dtype<bool> { static const char *name() { return "b1"; } };
} // namespace detail

/* ---- tensors ------------------------------------------------------------------------------------- */
/* An spc_tensor that refers to the caller's arrays and owns none: they, and the texts, must live until the
 * run is over.  Level arrays of a sparse format are given with pos() and crd(). */
class tensor : public spc_tensor {
public:
  tensor(const char *as_declared, const char *type, void *array, std::int64_t room,
         const std::vector<std::int64_t> &sizes)
      : spc_tensor() {
    struct_size = sizeof(spc_tensor);
    name = as_declared;
    dtype = type;
    values = array;
    value_count = room;
    if (sizes.size() > static_cast<std::size_t>(SPC_MAX_RANK))
      throw error(SPC_INVALID_ARGUMENT, std::string("tensor `") + name + "` has more than 8 axes", "");
    rank = static_cast<int>(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); i++) shape[i] = sizes[i];
  }
  /* Elements from one row to the next of a dense tensor whose rows are padded; its array is as long as that takes, by
   * rows or (dense_t) by columns. */
  tensor &with_pitch(std::int64_t elements) {
    pitch = elements;
    for (int axis = 0; axis < rank; axis += rank > 1 ? rank - 1 : 1) {
      std::int64_t rows = 1;
      for (int i = 0; i < rank; i++)
        if (i != axis) rows *= shape[i];
      if (rows > 0 && shape[axis] > 0 && elements >= shape[axis]) hold((rows - 1) * elements + shape[axis]);
    }
    return *this;
  }
  /* Elements from one place of each axis to the next, for anything else that lies with padding. */
  tensor &with_strides(const std::vector<std::int64_t> &elements) {
    if (elements.size() != static_cast<std::size_t>(rank))
      throw error(SPC_INVALID_ARGUMENT, std::string("tensor `") + name + "` has a stride for each axis", "");
    std::int64_t last = 1;
    for (std::size_t i = 0; i < elements.size(); i++) {
      strides[i] = elements[i];
      last += shape[i] > 1 ? (shape[i] - 1) * elements[i] : 0;
    }
    hold(last);
    return *this;
  }
  tensor &with_pos(int level, std::int32_t *at, std::int64_t count) {
    pos[level_of(level)] = at;
    pos_count[level] = count;
    return *this;
  }
  tensor &with_crd(int level, void *at, std::int64_t count) {
    crd[level_of(level)] = at;
    crd_count[level] = count;
    return *this;
  }

private:
  void hold(std::int64_t elements) {
    if (value_count && value_count < elements) value_count = elements;
  }
  int level_of(int level) const {
    if (level < 0 || level >= SPC_MAX_LEVELS)
      throw error(SPC_INVALID_ARGUMENT, std::string("tensor `") + name + "` has no such level", "");
    return level;
  }
};

/* Elements of a row-major array of these sizes. */
inline std::int64_t elements(const std::vector<std::int64_t> &sizes) {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count *= size;
  return count;
}

/* A dense tensor, row-major.  const arrays are inputs: spc only reads those.  A plain `float *` takes f32,
 * and so on; bf16, f16 and f8 are named: dense("x", "bf16", bits, {64, 256}). */
inline tensor dense(const char *name, const char *dtype, void *values, const std::vector<std::int64_t> &sizes) {
  return tensor(name, dtype, values, elements(sizes), sizes);
}
inline tensor dense(const char *name, const char *dtype, const void *values,
                    const std::vector<std::int64_t> &sizes) {
  return tensor(name, dtype, const_cast<void *>(values), elements(sizes), sizes);
}
template <class T> tensor dense(const char *name, T *values, const std::vector<std::int64_t> &sizes) {
  return dense(name, detail::dtype<T>::name(), static_cast<void *>(values), sizes);
}
template <class T> tensor dense(const char *name, const T *values, const std::vector<std::int64_t> &sizes) {
  return dense(name, detail::dtype<T>::name(), static_cast<const void *>(values), sizes);
}
/* A vector's own elements; they must be as many as the sizes say. */
template <class T> tensor dense(const char *name, std::vector<T> &values, const std::vector<std::int64_t> &sizes) {
  if (static_cast<std::int64_t>(values.size()) != elements(sizes))
    throw error(SPC_INVALID_ARGUMENT, std::string("tensor `") + name + "` has another number of values", "");
  return dense(name, values.data(), sizes);
}
template <class T>
tensor dense(const char *name, const std::vector<T> &values, const std::vector<std::int64_t> &sizes) {
  return dense(name, const_cast<std::vector<T> &>(values), sizes);
}
/* A tensor of rank 0. */
template <class T> tensor scalar(const char *name, T *value) { return dense(name, value, {}); }

/* A matrix `as csr`: rows + 1 positions, and a column and a value an entry. */
template <class T>
tensor csr(const char *name, std::int64_t rows, std::int64_t cols, const std::vector<std::int32_t> &pos,
           const std::vector<std::int32_t> &crd, const std::vector<T> &values) {
  tensor t(name, detail::dtype<T>::name(), const_cast<T *>(values.data()),
           static_cast<std::int64_t>(values.size()), {rows, cols});
  t.with_pos(1, const_cast<std::int32_t *>(pos.data()), static_cast<std::int64_t>(pos.size()));
  t.with_crd(1, const_cast<std::int32_t *>(crd.data()), static_cast<std::int64_t>(crd.size()));
  return t;
}

/* ---- plans --------------------------------------------------------------------------------------- */
using sizes = std::vector<std::pair<std::string, std::int64_t>>;

namespace detail {
inline std::vector<spc_size> size_list(const sizes &given) {
  std::vector<spc_size> list;
  for (const auto &one : given) list.push_back({one.first.c_str(), one.second});
  return list;
}
inline std::vector<spc_tensor> tensor_list(std::initializer_list<tensor> given) {
  return std::vector<spc_tensor>(given.begin(), given.end());
}
} // namespace detail

class plan : public detail::handle<spc_plan, spc_plan_free> {
public:
  using handle::handle;

  int tensor_count() const noexcept { return spc_plan_tensor_count(get()); }
  spc_tensor_info tensor_info(int i) const {
    spc_tensor_info info = spc_tensor_info();
    info.struct_size = sizeof info;
    spc_error err = detail::fresh();
    detail::check(spc_plan_tensor(get(), i, &info, &err), err);
    return info;
  }

  /* Runs on arrays in host memory and returns when the results are there. */
  void run(spc_tensor *tensors, int count) {
    spc_error err = detail::fresh();
    detail::check(spc_run(get(), tensors, count, &err), err);
  }
  void run(std::vector<spc_tensor> &tensors) { run(tensors.data(), static_cast<int>(tensors.size())); }
  void run(std::initializer_list<tensor> tensors) {
    std::vector<spc_tensor> list = detail::tensor_list(tensors);
    run(list);
  }
  /* As run; false where a result needs more room than it has: the counts of `tensors` say how much. */
  bool try_run(std::vector<spc_tensor> &tensors) {
    spc_error err = detail::fresh();
    spc_status status = spc_run(get(), tensors.data(), static_cast<int>(tensors.size()), &err);
    if (status != SPC_CAPACITY) detail::check(status, err);
    return status == SPC_OK;
  }
  /* Shapes and counts of the results, from the shapes of the inputs. */
  void shapes(std::vector<spc_tensor> &tensors) {
    spc_error err = detail::fresh();
    detail::check(spc_plan_shapes(get(), tensors.data(), static_cast<int>(tensors.size()), &err), err);
  }

  /* On the caller's memory and stream. */
  void prepare() {
    spc_error err = detail::fresh();
    detail::check(spc_plan_prepare(get(), &err), err);
  }
  std::size_t workspace(const std::vector<spc_tensor> &tensors) {
    std::size_t bytes = 0;
    spc_error err = detail::fresh();
    detail::check(spc_workspace(get(), tensors.data(), static_cast<int>(tensors.size()), &bytes, &err), err);
    return bytes;
  }
  /* Makes a workspace that the plan keeps: enqueue(tensors, nullptr, 0, stream) uses it. */
  void reserve(const std::vector<spc_tensor> &tensors) {
    spc_error err = detail::fresh();
    detail::check(spc_plan_reserve(get(), tensors.data(), static_cast<int>(tensors.size()), &err), err);
  }
  /* What const inputs give, made once; spc_packed(packed, bytes) hands it to runs.  Returns the bytes it
   * takes; with packed nullptr only that. */
  std::size_t pack(const std::vector<spc_tensor> &tensors, void *packed = nullptr, std::size_t bytes = 0,
                   void *stream = nullptr) {
    spc_error err = detail::fresh();
    detail::check(spc_plan_pack(get(), tensors.data(), static_cast<int>(tensors.size()), packed, &bytes, stream, &err),
                  err);
    return bytes;
  }
  void enqueue(const std::vector<spc_tensor> &tensors, void *workspace, std::size_t bytes,
               void *stream = nullptr) {
    spc_error err = detail::fresh();
    detail::check(spc_enqueue(get(), tensors.data(), static_cast<int>(tensors.size()), workspace, bytes, stream, &err),
                  err);
  }
};

/* ---- programs ------------------------------------------------------------------------------------ */
class program : public detail::handle<spc_program, spc_program_free> {
public:
  using handle::handle;

  int kernel_count() const noexcept { return spc_program_kernel_count(get()); }
  std::string kernel_name(int i) const {
    const char *name = spc_program_kernel_name(get(), i);
    return name ? name : "";
  }
  /* Whether tuned code is there for plans to be made or prepared again; negative: waits for it. */
  bool tuned(std::int64_t microseconds = 0) const { return spc_program_tuned(get(), microseconds) != 0; }
  /* A plan of the only kernel. */
  spc::plan plan() { return make(nullptr, {}); }
  /* Of the one named; sizes that no tensor settles: program.plan("k", {{"N", 64}}). */
  spc::plan plan(const std::string &kernel, const sizes &given = {}) { return make(kernel.c_str(), given); }

private:
  spc::plan make(const char *kernel, const sizes &given) {
    std::vector<spc_size> list = detail::size_list(given);
    spc_plan *made = nullptr;
    spc_error err = detail::fresh();
    detail::check(spc_plan_new(get(), kernel, list.data(), static_cast<int>(list.size()), &made, &err), err);
    return spc::plan(made);
  }
};

/* How to compile.  `fixed` gives fixed dims other values. */
struct compile_options {
  sizes fixed;
  bool reproducible, batch_invariant, strict_nan;
  bool tiered;        /* generic code at once, tuned code when it has come: program.tuned() */
  bool packed;        /* const inputs are packed before runs */
  std::int64_t workspace_limit; /* bytes: runs that would take more go by rows; 0: as the library says */
  std::string padded; /* "x, y%8": tensors that may lie with padding when they are enqueued */
  sizes usual;        /* {{"T", 1}, {"T", 64}, {"T", 4096}}: sizes of one dynamic dim that code is made for; the nearest runs */
  compile_options() : reproducible(false), batch_invariant(false), strict_nan(false), tiered(false), packed(false), workspace_limit(0) {}
};

namespace detail {
struct options {
  std::vector<spc_size> fixed, usual;
  spc_program_options c;
  explicit options(const compile_options &given) : fixed(size_list(given.fixed)), usual(size_list(given.usual)), c() {
    c.struct_size = sizeof c;
    c.fixed = fixed.data();
    c.fixed_count = static_cast<int>(fixed.size());
    c.usual = usual.data();
    c.usual_count = static_cast<int>(usual.size());
    c.reproducible = given.reproducible;
    c.batch_invariant = given.batch_invariant;
    c.strict_nan = given.strict_nan;
    c.tiered = given.tiered;
    c.packed = given.packed;
    c.workspace_limit = given.workspace_limit;
    c.padded = given.padded.empty() ? nullptr : given.padded.c_str();
  }
};
} // namespace detail

/* A compile in the background; what it holds is cancelled and freed with it. */
class job : public detail::handle<spc_job, spc_job_free> {
public:
  using handle::handle;

  bool done() const { return spc_job_wait(get(), 0) != 0; }
  /* True when it is over; negative: waits to the end. */
  bool wait(std::int64_t microseconds = -1) const { return spc_job_wait(get(), microseconds) != 0; }
  void cancel() { spc_job_cancel(get()); }
  /* The program, once; waits for it.  Throws what compile would. */
  program take() {
    spc_program *made = nullptr;
    spc_error err = detail::fresh();
    wait();
    detail::check(spc_job_take(get(), &made, &err), err);
    return program(made);
  }
};

/* ---- contexts ------------------------------------------------------------------------------------ */
class context : public detail::handle<spc_context, spc_context_free> {
public:
  /* backend: "cuda", "cpu", "interp"; empty: the best that is here.  threads: of the CPU, 0: one a core. */
  explicit context(const std::string &backend = "", int threads = 0) {
    spc_context_options options = spc_context_options();
    options.struct_size = sizeof options;
    options.backend = backend.empty() ? nullptr : backend.c_str();
    options.threads = threads;
    open(options);
  }
  explicit context(const spc_context_options &options) { open(options); }

  std::string backend() const { return spc_context_backend(get()); }

  program compile(const std::string &text, const compile_options &given = compile_options()) {
    detail::options options(given);
    spc_program *made = nullptr;
    spc_error err = detail::fresh();
    detail::check(spc_program_from_text(get(), text.data(), text.size(), &options.c, &made, &err), err);
    return program(made);
  }
  /* A file of program text, or a bundle. */
  program load(const std::string &path, const compile_options &given = compile_options()) {
    detail::options options(given);
    spc_program *made = nullptr;
    spc_error err = detail::fresh();
    detail::check(spc_program_from_file(get(), path.c_str(), &options.c, &made, &err), err);
    return program(made);
  }
  /* A bundle in memory. */
  program load(const void *bundle, std::size_t bytes) {
    spc_program *made = nullptr;
    spc_error err = detail::fresh();
    detail::check(spc_program_from_bundle(get(), bundle, bytes, &made, &err), err);
    return program(made);
  }
  /* In the background. */
  job begin(const std::string &text, const compile_options &given = compile_options()) {
    detail::options options(given);
    spc_source source = {text.data(), text.size(), &options.c};
    spc_job *made = nullptr;
    spc_error err = detail::fresh();
    detail::check(spc_program_begin(get(), &source, 1, &made, &err), err);
    return job(made);
  }

private:
  void open(const spc_context_options &options) {
    spc_context *made = nullptr;
    spc_error err = detail::fresh();
    detail::check(spc_context_new(&options, &made, &err), err);
    reset(made);
  }
};

} // namespace spc
#endif
