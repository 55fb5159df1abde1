// PickleWriter: the pickle of tensors and their metadata, in protocol 2, which every Python reads. A value is what its
// calls write one after the other; containers are opened, filled and closed.
#ifndef HYCRT_SRC_CHECKPOINT_TORCH_PICKLE_WRITER_H_
#define HYCRT_SRC_CHECKPOINT_TORCH_PICKLE_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace hycrt {

class PickleWriter {
 public:
  void none() { bytes_ += 'N'; }
  void boolean(bool value) { bytes_ += value ? '\x88' : '\x89'; }
  void integer(int64_t value);
  void text(std::string_view value);
  void name(std::string_view module, std::string_view name);

  void openDict() { bytes_ += "}("; }
  void closeDict() { bytes_ += 'u'; }
  void openList() { bytes_ += "]("; }
  void closeList() { bytes_ += 'e'; }
  void openTuple() { bytes_ += '('; }
  void closeTuple() { bytes_ += 't'; }

  // What was written before: a name and a tuple.
  void call() { bytes_ += 'R'; }
  // An object of a class; its attributes follow, as in a dict.
  void openObject(std::string_view module, std::string_view name);
  void closeObject() { bytes_ += "ub"; }
  // A name and no arguments, whose state is what is written then.
  void makeObject(std::string_view module, std::string_view name);
  void setState() { bytes_ += 'b'; }
  void persistent() { bytes_ += 'Q'; }

  std::string finish() { return std::move(bytes_) + '.'; }

 private:
  std::string bytes_ = std::string("\x80\x02", 2);
};

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_TORCH_PICKLE_WRITER_H_
