// CompileListener: who wants to hear of a compilation while it goes on. Nothing in the driver prints.
#ifndef HYC_DRIVER_COMPILELISTENER_H
#define HYC_DRIVER_COMPILELISTENER_H

#include <functional>
#include <string>

namespace hyc {

/// What is wrong with a model, or may be; notes follow what they belong to.
struct CompileDiagnostic {
  enum Severity { Error, Warning, Note } severity = Error;
  std::string location; ///< file:line:column of a text, the name of a node in a graph; never empty
  std::string message;

  /// `LOCATION: error: MESSAGE`
  std::string str() const;
};

/// Functions that are empty are not called. All calls come from the thread that compiles.
struct CompileListener {
  std::function<void(const CompileDiagnostic &)> diagnosed;
  /// How far a step is that takes longer than a second, once a second; an empty text where such a step ends.
  std::function<void(const std::string &)> progressed;

  void tellProgress(const std::string &text) const {
    if (progressed)
      progressed(text);
  }
};

} // namespace hyc

#endif // HYC_DRIVER_COMPILELISTENER_H
