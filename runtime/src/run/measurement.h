// Measurement: what a run measures of its steps where it is asked to: --trace and --profile, which with --replan-after
// is over before the run is. All ranks have one, and write their parts of a file one after the other.
#ifndef HYCRT_SRC_RUN_MEASUREMENT_H_
#define HYCRT_SRC_RUN_MEASUREMENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/trace.h"
#include "comm/exchanger.h"
#include "hycrt/manifest.h"
#include "hycrt/options.h"
#include "profile/profile.h"
#include "profile/profile_file.h"

namespace hycrt {

class Measurement {
 public:
  // What can fail does so before anything runs. `options` and `manifest` outlive this.
  Status prepare(const RunOptions& options, const Manifest& manifest, int rank, bool onDevice);
  // Once ranks have met. All outlive this.
  void begin(const Program& program, const Exchanger& exchanger, Accelerator* device);

  // Of the run, from 0.
  void stepBegins(int64_t step);

  Trace* trace() const { return trace_.get(); }        // null: nobody asked for one
  Profile* profile() const { return profile_.get(); }  // the same
  // What it takes of memory beside the arenas.
  int64_t bytes() const { return (profile_ ? profile_->bytes() : 0) + (trace_ ? trace_->bytes() : 0); }

  // Whether the profile is to be written after this step of the run, from 0: --replan-after.
  bool isDueAfter(int64_t step) const { return profile_ && !isProfileWritten_ && step + 1 == options_->replanAfter; }

  // All ranks come to these together; nothing comes of what nobody asked for, or of what was written before. `run` is
  // the run's name, `note` takes lines for people.
  Status writeTrace(Exchanger& exchanger, int worldSize, const std::string& run);
  Status writeProfile(Exchanger& exchanger, int worldSize, const std::string& run, const ProfileFacts& facts,
                      const std::function<void(const std::string&)>& note);

 private:
  Status addLine(const std::string& partial) const;
  Status makeFile(const std::string& partial, int worldSize, const ProfileFacts& facts,
                  const std::function<void(const std::string&)>& note) const;

  const RunOptions* options_ = nullptr;
  const Manifest* manifest_ = nullptr;
  const Program* program_ = nullptr;
  int rank_ = 0;
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<Profile> profile_;
  bool isProfileWritten_ = false;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_MEASUREMENT_H_
