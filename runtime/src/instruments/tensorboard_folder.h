// TensorBoardFolder: the metrics of a run as a file of events for TensorBoard, an event a step. Each process that tells
// of a run writes a file of its own, behind those that the folder has; what these say of steps that are done again is
// void from then on. Nothing is overwritten.
#ifndef HYCRT_SRC_INSTRUMENTS_TENSORBOARD_FOLDER_H_
#define HYCRT_SRC_INSTRUMENTS_TENSORBOARD_FOLDER_H_

#include <memory>
#include <string>

#include "base/file.h"
#include "instruments/event_message.h"
#include "instruments/sink.h"

namespace hycrt {

class TensorBoardFolder : public Sink {
 public:
  // Makes the folder where it is not there; its parent has to be.
  static Result<std::unique_ptr<TensorBoardFolder>> open(const std::string& folder);
  // A file without a step is gone.
  ~TensorBoardFolder() override;

  Status step(const StepRecord& record) override;

 private:
  TensorBoardFolder(std::string path, FileDescriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  Status write(EventMessage& message);

  const std::string path_;
  FileDescriptor file_;
  bool hasSteps_ = false;
  int64_t lastStep_ = 0;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_INSTRUMENTS_TENSORBOARD_FOLDER_H_
