// Handlers in C++, written against the header that jaxlib ships, and compiled by the test beside this file.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// Sums the rows of x, times a factor, plus an offset for each row.
static ffi::Error RowSums(ffi::ScratchAllocator scratch, ffi::BufferR2<ffi::F32> x, float factor, bool negate,
                          std::string_view mode, ffi::Span<const int64_t> offsets, ffi::ResultBufferR1<ffi::F32> y) {
  if (mode == "fail") {
    return ffi::Error::InvalidArgument("asked to fail by the attribute 'mode'");
  }
  auto dims = x.dimensions();
  if (offsets.size() != static_cast<size_t>(dims[0])) {
    return ffi::Error(ffi::ErrorCode::kOutOfRange, "as many offsets as rows are needed");
  }
  std::optional<void *> memory = scratch.Allocate(dims[0] * sizeof(float), 64);
  if (!memory) {
    return ffi::Error::Internal("no scratch memory");
  }
  float *sums = static_cast<float *>(*memory);
  for (int64_t i = 0; i < dims[0]; i++) {
    sums[i] = static_cast<float>(offsets[i]);
    for (int64_t j = 0; j < dims[1]; j++) {
      sums[i] += factor * x.typed_data()[i * dims[1] + j];
    }
    y->typed_data()[i] = negate ? -sums[i] : sums[i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(row_sums, RowSums,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Arg<ffi::BufferR2<ffi::F32>>()
                                  .Attr<float>("factor")
                                  .Attr<bool>("negate")
                                  .Attr<std::string_view>("mode")
                                  .Attr<ffi::Span<const int64_t>>("offsets")
                                  .Ret<ffi::BufferR1<ffi::F32>>());

// Moves each array of a tuple one place on; the arrays may be of any type.
static ffi::Error Rotate(ffi::RemainingArgs args, ffi::RemainingRets rets) {
  if (args.size() != rets.size()) {
    return ffi::Error::InvalidArgument("as many results as operands are needed");
  }
  for (size_t i = 0; i < args.size(); i++) {
    auto from = args.get<ffi::AnyBuffer>(i);
    auto to = rets.get<ffi::AnyBuffer>((i + 1) % args.size());
    if (!from || !to || from->size_bytes() != (*to)->size_bytes()) {
      return ffi::Error::InvalidArgument("all arrays must be of one size");
    }
    const char *source = static_cast<const char *>(from->untyped_data());
    std::copy(source, source + from->size_bytes(), static_cast<char *>((*to)->untyped_data()));
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(rotate_all, Rotate, ffi::Ffi::Bind().RemainingArgs().RemainingRets());

// Doubles a number on the thread pool and says so by a future.
static ffi::Future Later(ffi::ThreadPool pool, ffi::BufferR0<ffi::F64> x, ffi::ResultBufferR0<ffi::F64> y) {
  ffi::Promise promise;
  ffi::Future future(promise);
  const double *from = x.typed_data();
  double *to = y->typed_data();
  pool.Schedule([from, to, promise]() mutable {
    *to = 2 * *from;
    if (*from < 0) {
      promise.SetError(ffi::Error::InvalidArgument("too late for negative numbers"));
    } else {
      promise.SetAvailable();
    }
  });
  return future;
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(later, Later,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::BufferR0<ffi::F64>>()
                                  .Ret<ffi::BufferR0<ffi::F64>>());
