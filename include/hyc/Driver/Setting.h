// Setting: a value of CompileOptions together with who decided it, so that the order of precedence is kept in one place
// and a message can name the flag or the line that is wrong.
//
//   flag  >  --plan  >  --config  >  derived  >  default
//
// A plan may not contradict a flag or a config (takePlan refuses that); it only fills in what they leave open.
#ifndef HYC_DRIVER_SETTING_H
#define HYC_DRIVER_SETTING_H

#include <string>
#include <utility>

namespace hyc {

enum class Origin { Default, Derived, Config, Plan, Flag };

template <typename T> class Setting {
public:
  Setting(T value) : value(std::move(value)) {}

  const T &get() const { return value; }
  const T &operator*() const { return value; }
  const T *operator->() const { return &value; }
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

#endif // HYC_DRIVER_SETTING_H
