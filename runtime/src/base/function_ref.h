// FunctionRef: a callable that somebody else owns, for arguments that are called before the call returns. Unlike
// std::function it never allocates, which a training step must not do.
#ifndef HYCRT_SRC_BASE_FUNCTION_REF_H_
#define HYCRT_SRC_BASE_FUNCTION_REF_H_

#include <type_traits>
#include <utility>

namespace hycrt {

template <typename Signature>
class FunctionRef;

template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, FunctionRef>>>
  FunctionRef(F&& function)  // NOLINT: implicit by design
      : object_(const_cast<void*>(static_cast<const void*>(&function))), call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_FUNCTION_REF_H_
