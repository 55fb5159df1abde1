// StagedExchanger: exchanges of tensors that are on devices, by way of their images on the host: sources are copied
// there before others may read them, results are copied back when they are complete. The host waits for the device at
// each start, so nothing overlaps; what is gained is that ranks may share a device, and that sums have the CPU target's
// order.
#ifndef HYCRT_SRC_COMM_STAGED_EXCHANGER_H_
#define HYCRT_SRC_COMM_STAGED_EXCHANGER_H_

#include <string>
#include <vector>

#include "comm/exchanger.h"
#include "hycrt/accelerator.h"

namespace hycrt {

class StagedExchanger : public Exchanger {
 public:
  // All outlive the exchanger. `host` exchanges the images.
  StagedExchanger(const Program& program, int rank, Exchanger& host, Accelerator& device)
      : program_(program), rank_(rank), host_(host), device_(device) {}

  Result<Ticket> start(const CollectiveCall& call) override;
  Status wait(Ticket ticket) override;
  Status exchange(const TransferUse* uses, int count) override;
  Result<const uint64_t*> share(uint64_t own) override { return host_.share(own); }
  Status leave(bool finished) override { return host_.leave(finished); }
  int memberCount(int group) const override { return host_.memberCount(group); }
  std::string catalogOf(int rank) const override { return host_.catalogOf(rank); }
  ExchangeCounts counts() const override { return host_.counts(); }
  const Lateness* lateness() const override { return host_.lateness(); }
  const std::vector<ExchangeTime>* exchangeTimes() const override { return host_.exchangeTimes(); }

 private:
  struct Pending {
    Ticket ticket;
    CollectiveCall call;
  };
  template <typename Use>
  Status forSources(const CollectiveCall& call, Use use) const;
  template <typename Use>
  Status forResults(const CollectiveCall& call, Use use) const;
  BufferRef ownSlice(const CollectiveCall& call, const FlatPart& part, int64_t* bytes) const;

  const Program& program_;
  const int rank_;
  Exchanger& host_;
  Accelerator& device_;
  std::vector<Pending> pending_;  // started and not waited for
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_STAGED_EXCHANGER_H_
