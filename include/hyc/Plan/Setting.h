// Setting: a value of the plan together with who decided it, so that the order of precedence is kept in one place and a
// message can name the flag or the line that is wrong.
//
//   flag  >  --plan  >  --config  >  derived  >  default
//
// A plan may not contradict a flag or a config (takePlan refuses that); it only fills in what they leave open.
#ifndef HYC_PLAN_SETTING_H
#define HYC_PLAN_SETTING_H

#include <string>
#include <type_traits>
#include <utility>

namespace hyc {

enum class Origin { Default, Derived, Config, Plan, Flag };
/// Whether a file says it, so that a wrong value is wrong data and no wrong usage.
constexpr bool isOfFile(Origin origin) { return origin == Origin::Config || origin == Origin::Plan; }

template <typename T> class Setting {
public:
  /// From whatever T is made of: what code writes into a plan has no origin that a message could name.
  template <typename U,
            std::enable_if_t<std::is_convertible_v<U, T> && !std::is_same_v<std::decay_t<U>, Setting>, int> = 0>
  Setting(U &&value) : value(std::forward<U>(value)) {}

  const T &get() const { return value; }
  const T &operator*() const { return value; }
  const T *operator->() const { return &value; }
  operator const T &() const { return value; }
  Origin getOrigin() const { return origin; }
  /// Whether the user said it: in a flag, a config or a plan.
  bool isGiven() const { return origin >= Origin::Config; }
  /// What messages call it: `--tp`, `ds.json:3:5: train_batch_size`; empty for a default.
  const std::string &getSource() const { return source; }

  /// Takes `offered` unless somebody of higher rank has decided already.
  void offer(T offered, Origin by, std::string from) {
    if (by < origin)
      return;
    value = std::move(offered);
    origin = by;
    source = std::move(from);
  }

private:
  T value;
  Origin origin = Origin::Default;
  std::string source;
};

} // namespace hyc

#endif // HYC_PLAN_SETTING_H
