// Result<T>: a value or an Error. A thin class over std::expected, because with libstdc++ 12 a plain
// std::expected can be dropped without a warning.
#pragma once

#include <expected>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace quarry {

template <typename T>
class [[nodiscard]] Result : public std::expected<T, Error> {
 public:
  using Base = std::expected<T, Error>;
  using Base::Base;
  Result() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): `return Error(…)` is how failures are written here.
  Result(Error error) : Base(std::unexpected(std::move(error))) {}

  // The same result; an error gets "context: " in front.
  Result Context(std::string_view context) && {
    if (this->has_value()) {
      return std::move(*this);
    }
    return Result(std::move(this->error()).Context(context));
  }
};

using Status = Result<void>;

// Success, written out: `return Ok();`.
inline Status Ok() {
  return {};
}

}  // namespace quarry

#define QUARRY_CONCAT_INNER(a, b) a##b
#define QUARRY_CONCAT(a, b) QUARRY_CONCAT_INNER(a, b)

// Returns the error of `expr` from the enclosing function, if it has one.
#define QUARRY_TRY(expr)                       \
  do {                                         \
    auto quarry_status = (expr);               \
    if (!quarry_status.has_value()) {          \
      return std::move(quarry_status.error()); \
    }                                          \
  } while (false)

// QUARRY_ASSIGN(auto fd, Open(path)): declares or assigns from the value, or returns the error.
#define QUARRY_ASSIGN(lhs, expr) QUARRY_ASSIGN_INNER(QUARRY_CONCAT(quarry_result_, __LINE__), lhs, expr)
#define QUARRY_ASSIGN_INNER(name, lhs, expr) \
  auto name = (expr);                        \
  if (!name.has_value()) {                   \
    return std::move(name.error());          \
  }                                          \
  lhs = std::move(*name)
