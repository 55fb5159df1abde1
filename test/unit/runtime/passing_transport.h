// PassingTransport: a transport behind another one that does as it is asked. Tests derive from it what changes a thing
// or two on the way; what a transport need not have stays as Transport has it.
#ifndef HYC_TEST_RUNTIME_PASSING_TRANSPORT_H_
#define HYC_TEST_RUNTIME_PASSING_TRANSPORT_H_

#include <memory>
#include <string>
#include <utility>

#include "comm/transport.h"

class PassingTransport : public hycrt::Transport {
 public:
  explicit PassingTransport(std::unique_ptr<hycrt::Transport> inner) : inner_(std::move(inner)) {}

  hycrt::ChannelSide* side(int channel, int member) override { return inner_->side(channel, member); }
  void tell(int channel) override { inner_->tell(channel); }
  void publish(int channel) override { inner_->publish(channel); }
  Bytes find(int rank, int arena, int64_t offset, int64_t bytes) const override {
    return inner_->find(rank, arena, offset, bytes);
  }
  hycrt::Status pull(int rank, int arena, int64_t offset, int64_t bytes, std::byte* to,
                     hycrt::FunctionRef<hycrt::Status()> look) override {
    return inner_->pull(rank, arena, offset, bytes, to, look);
  }
  const char* lossOf(int rank, bool thoroughly) const override { return inner_->lossOf(rank, thoroughly); }
  void leave(hycrt::RankState state) override { inner_->leave(state); }
  hycrt::RankSigns& signs(int rank) override { return inner_->signs(rank); }
  hycrt::ProcessLook look(int rank) const override { return inner_->look(rank); }
  uint32_t listen() override { return inner_->listen(); }
  void sleep(uint32_t heard, int milliseconds, hycrt::Awaited whom) override {
    inner_->sleep(heard, milliseconds, whom);
  }
  void stopListening() override { inner_->stopListening(); }
  void wakeSelf() override { inner_->wakeSelf(); }
  const char* nameOf(int rank, int index) const override { return inner_->nameOf(rank, index); }
  std::string programOf(int rank) const override { return inner_->programOf(rank); }
  std::string catalogOf(int rank) const override { return inner_->catalogOf(rank); }

 protected:
  const std::unique_ptr<hycrt::Transport> inner_;
};

#endif  // HYC_TEST_RUNTIME_PASSING_TRANSPORT_H_
