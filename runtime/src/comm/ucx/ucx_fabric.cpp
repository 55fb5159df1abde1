// Frames as UCX's active messages, numbered, since UCX keeps no order among long and short ones. The library is loaded
// when it is first asked for, so that its constructors put no handlers on the signals of programs that do not use it,
// and told to leave signals and the allocator alone.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "comm/tcp/fabric.h"

#ifdef HYCRT_HAS_UCX
#include <dlfcn.h>
#include <ucp/api/ucp.h>
#endif

namespace hycrt {

#ifdef HYCRT_HAS_UCX

namespace {

constexpr char kLibrary[] = "libucp.so.0";
constexpr unsigned kFrames = 1;  // the active message that all frames are

// The functions of the library that are used, each by its own name.
#define HYCRT_UCX_FUNCTIONS(X)      \
  X(ucp_init_version)               \
  X(ucp_config_read)                \
  X(ucp_config_modify)              \
  X(ucp_config_release)             \
  X(ucp_cleanup)                    \
  X(ucp_worker_create)              \
  X(ucp_worker_destroy)             \
  X(ucp_worker_get_address)         \
  X(ucp_worker_release_address)     \
  X(ucp_worker_set_am_recv_handler) \
  X(ucp_worker_progress)            \
  X(ucp_worker_get_efd)             \
  X(ucp_worker_arm)                 \
  X(ucp_ep_create)                  \
  X(ucp_ep_close_nbx)               \
  X(ucp_worker_flush_nbx)           \
  X(ucp_am_send_nbx)                \
  X(ucp_am_recv_data_nbx)           \
  X(ucp_request_free)               \
  X(ucp_request_check_status)

struct Ucx {
#define HYCRT_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  HYCRT_UCX_FUNCTIONS(HYCRT_UCX_MEMBER)
#undef HYCRT_UCX_MEMBER

  bool load() {
    // Read as the library is loaded. What the user has said of it stands.
    setenv("UCX_HANDLE_ERRORS", "none", 0);
    setenv("UCX_MEM_EVENTS", "no", 0);
    setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 0);
    setenv("UCX_DEBUG_SIGNO", "0", 0);
    setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 0);
    setenv("UCX_LOG_LEVEL", "fatal", 0);
    void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
#define HYCRT_UCX_FIND(name)                                      \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name)); \
  if (!name) return false;
    HYCRT_UCX_FUNCTIONS(HYCRT_UCX_FIND)
#undef HYCRT_UCX_FIND
    return true;
  }
  // Null: it is not there.
  static const Ucx* ofProcess() {
    static Ucx ucx;
    static const bool isLoaded = ucx.load();
    return isLoaded ? &ucx : nullptr;
  }
};

struct Head {
  int32_t sender = 0;
  uint64_t number = 0;  // of what the sender sends to this rank
  FrameHead frame{FrameType::kSide};
};

constexpr uint64_t kMostAhead = 1 << 16;  // frames of a peer that come before another one

class UcxFabric : public Fabric {
 public:
  UcxFabric(const Ucx& ucx, int rank, int ranks, FrameTaker& taker)
      : ucx_(ucx), rank_(rank), taker_(taker), peers_(static_cast<size_t>(ranks)) {}

  ~UcxFabric() override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    isClosing_ = true;
    ucp_request_param_t force{};
    force.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    force.flags = UCP_EP_CLOSE_FLAG_FORCE;
    for (Peer& peer : peers_) {
      if (peer.endpoint) release(ucx_.ucp_ep_close_nbx(peer.endpoint, &force));
    }
    if (worker_) ucx_.ucp_worker_destroy(worker_);
    if (context_) ucx_.ucp_cleanup(context_);
  }

  Status open();
  const std::string& address() const override { return address_; }
  Status connect(int rank, const std::string& address) override;
  void send(int rank, FrameHead head, std::string_view bytes) override;
  void sendLong(int rank, FrameHead head, const std::byte* bytes, int64_t count, std::atomic<uint64_t>* sent) override;
  bool progress() override;
  int descriptor() const override { return descriptor_; }
  bool arm() override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    return ucx_.ucp_worker_arm(worker_) == UCS_OK;
  }
  bool hasFailed(int rank) const override {
    return peers_[static_cast<size_t>(rank)].hasFailed.load(std::memory_order_acquire);
  }
  bool hasSentAll() override;
  int64_t bufferBytes() const override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    int64_t bytes = 0;
    for (const Outgoing& one : outgoing_) bytes += static_cast<int64_t>(sizeof one + one.body.capacity());
    return bytes;
  }

 private:
  // A frame that is being sent; they are used again.
  struct Outgoing {
    UcxFabric* fabric = nullptr;
    int rank = 0;
    Head head;
    std::vector<std::byte> body;
    std::atomic<uint64_t>* sent = nullptr;
  };
  // A frame that has come, is coming or will come: of one peer they are placed and taken in order.
  struct Incoming {
    UcxFabric* fabric = nullptr;
    int rank = 0;
    FrameHead head{FrameType::kSide};
    bool hasCome = false, isWhole = false;
    std::byte* place = nullptr;  // null: it is collected in `body`
    std::vector<char> body;
  };
  struct Peer {
    ucp_ep_h endpoint = nullptr;
    uint64_t sent = 0, taken = 0, placed = 0;  // frames
    std::deque<Incoming> incoming;             // from the first one on that has not been taken
    std::atomic<bool> hasFailed{false};
  };

  Outgoing& claim(int rank, const FrameHead& head, std::atomic<uint64_t>* sent);
  void start(Outgoing& one, const void* bytes, size_t count);
  void finish(Outgoing& one, bool hasGone);
  ucs_status_t receive(const void* header, size_t headerBytes, void* data, size_t bytes,
                       const ucp_am_recv_param_t* how);
  Incoming* nextOf(Peer& peer);
  bool place(Peer& peer, Incoming& one);
  void takeWhole(int rank);
  void fail(int rank) { peers_[static_cast<size_t>(rank)].hasFailed.store(true, std::memory_order_release); }
  void release(ucs_status_ptr_t request) {
    if (UCS_PTR_IS_PTR(request)) ucx_.ucp_request_free(request);
  }

  const Ucx& ucx_;
  const int rank_;
  FrameTaker& taker_;
  mutable std::recursive_mutex mutex_;  // of the worker: what comes may be answered at once
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::string address_;
  int descriptor_ = -1;
  std::vector<Peer> peers_;  // by rank
  std::deque<Outgoing> outgoing_;
  std::vector<Outgoing*> idle_;
  ucs_status_ptr_t flushing_ = nullptr;
  bool isClosing_ = false;
};

Status UcxFabric::open() {
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  ucp_config_t* config = nullptr;
  if (ucx_.ucp_config_read(nullptr, nullptr, &config) != UCS_OK) return unavailableError("UCX has no configuration");
  const ucs_status_t made = ucx_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  ucx_.ucp_config_release(config);
  if (made != UCS_OK) {
    context_ = nullptr;
    return unavailableError("UCX finds no network; UCX_TLS and UCX_NET_DEVICES say which it may use");
  }
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if (ucx_.ucp_worker_create(context_, &worker, &worker_) != UCS_OK) {
    worker_ = nullptr;
    return unavailableError("UCX cannot open the network; UCX_TLS and UCX_NET_DEVICES say which it may use");
  }
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG |
                       UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = kFrames;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.arg = this;
  handler.cb = [](void* fabric, const void* header, size_t headerBytes, void* data, size_t bytes,
                  const ucp_am_recv_param_t* how) {
    return static_cast<UcxFabric*>(fabric)->receive(header, headerBytes, data, bytes, how);
  };
  ucp_address_t* address = nullptr;
  size_t addressBytes = 0;
  if (ucx_.ucp_worker_set_am_recv_handler(worker_, &handler) != UCS_OK ||
      ucx_.ucp_worker_get_efd(worker_, &descriptor_) != UCS_OK ||
      ucx_.ucp_worker_get_address(worker_, &address, &addressBytes) != UCS_OK) {
    return unavailableError("UCX cannot be waited for over this network; UCX_TLS says which it may use");
  }
  address_.assign(reinterpret_cast<const char*>(address), addressBytes);
  ucx_.ucp_worker_release_address(worker_, address);
  return {};
}

Status UcxFabric::connect(int rank, const std::string& address) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  Peer& peer = peers_[static_cast<size_t>(rank)];
  params.err_handler.arg = &peer;
  params.err_handler.cb = [](void* peer, ucp_ep_h, ucs_status_t) {
    static_cast<Peer*>(peer)->hasFailed.store(true, std::memory_order_release);
  };
  if (address.empty() || ucx_.ucp_ep_create(worker_, &params, &peer.endpoint) != UCS_OK) {
    peer.endpoint = nullptr;
    return unavailableError("UCX does not reach rank " + std::to_string(rank) +
                            "; do both hosts have the networks that UCX_TLS and UCX_NET_DEVICES name?");
  }
  return {};
}

UcxFabric::Outgoing& UcxFabric::claim(int rank, const FrameHead& head, std::atomic<uint64_t>* sent) {
  if (idle_.empty()) idle_.push_back(&outgoing_.emplace_back());
  Outgoing& one = *idle_.back();
  idle_.pop_back();
  one.fabric = this;
  one.rank = rank;
  one.head = {rank_, peers_[static_cast<size_t>(rank)].sent++, head};
  one.sent = sent;
  return one;
}

void UcxFabric::start(Outgoing& one, const void* bytes, size_t count) {
  Peer& peer = peers_[static_cast<size_t>(one.rank)];
  if (!peer.endpoint || hasFailed(one.rank)) return finish(one, false);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.user_data = &one;
  param.cb.send = [](void* request, ucs_status_t status, void* data) {
    Outgoing& one = *static_cast<Outgoing*>(data);
    UcxFabric& fabric = *one.fabric;
    fabric.finish(one, status == UCS_OK);
    fabric.ucx_.ucp_request_free(request);
  };
  const ucs_status_ptr_t request =
      ucx_.ucp_am_send_nbx(peer.endpoint, kFrames, &one.head, sizeof one.head, bytes, count, &param);
  if (request == nullptr) return finish(one, true);
  if (UCS_PTR_IS_ERR(request)) finish(one, false);
}

void UcxFabric::finish(Outgoing& one, bool hasGone) {
  if (!hasGone && !isClosing_) fail(one.rank);
  if (hasGone && one.sent) one.sent->fetch_add(1, std::memory_order_release);
  idle_.push_back(&one);
}

void UcxFabric::send(int rank, FrameHead head, std::string_view bytes) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  head.bytes = bytes.size();
  Outgoing& one = claim(rank, head, nullptr);
  const std::byte* const from = reinterpret_cast<const std::byte*>(bytes.data());
  one.body.assign(from, from + bytes.size());
  start(one, one.body.data(), one.body.size());
}

// Whole, however long: UCX cuts it up as the network wants it.
void UcxFabric::sendLong(int rank, FrameHead head, const std::byte* bytes, int64_t count, std::atomic<uint64_t>* sent) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  head.bytes = static_cast<uint64_t>(count);
  start(claim(rank, head, sent), bytes, static_cast<size_t>(count));
}

bool UcxFabric::progress() {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  bool any = false;
  while (ucx_.ucp_worker_progress(worker_) != 0) any = true;
  return any;
}

ucs_status_t UcxFabric::receive(const void* header, size_t headerBytes, void* data, size_t bytes,
                                const ucp_am_recv_param_t* how) {
  Head head;
  if (headerBytes != sizeof head) return UCS_OK;
  std::memcpy(&head, header, sizeof head);
  const int rank = head.sender;
  if (rank < 0 || static_cast<size_t>(rank) >= peers_.size() || !peers_[static_cast<size_t>(rank)].endpoint)
    return UCS_OK;
  Peer& peer = peers_[static_cast<size_t>(rank)];
  const uint64_t ahead = head.number - peer.taken;  // what has been taken does not come again
  if (head.frame.bytes != bytes || ahead >= kMostAhead) {
    fail(rank);
    return UCS_OK;
  }
  while (peer.incoming.size() <= ahead) peer.incoming.emplace_back();
  Incoming& one = peer.incoming[ahead];
  if (one.hasCome) {
    fail(rank);
    return UCS_OK;
  }
  one.fabric = this;
  one.rank = rank;
  one.head = head.frame;
  one.hasCome = true;
  if (nextOf(peer) == &one && !place(peer, one)) return UCS_OK;
  std::byte* to = one.place;
  if (!to) {
    one.body.resize(bytes);
    to = reinterpret_cast<std::byte*>(one.body.data());
  }
  if (!(how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
    if (bytes > 0) std::memcpy(to, data, bytes);
    one.isWhole = true;
    takeWhole(rank);
    return UCS_OK;
  }
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.user_data = &one;
  param.cb.recv_am = [](void* request, ucs_status_t status, size_t, void* data) {
    Incoming& one = *static_cast<Incoming*>(data);
    UcxFabric& fabric = *one.fabric;
    const int rank = one.rank;
    fabric.ucx_.ucp_request_free(request);
    if (fabric.isClosing_) return;
    if (status != UCS_OK) return fabric.fail(rank);
    one.isWhole = true;
    fabric.takeWhole(rank);
  };
  const ucs_status_ptr_t request = ucx_.ucp_am_recv_data_nbx(worker_, data, to, bytes, &param);
  if (UCS_PTR_IS_ERR(request)) fail(rank);
  return UCS_INPROGRESS;
}

// The first frame that nobody has said the place of; null: it has not come.
UcxFabric::Incoming* UcxFabric::nextOf(Peer& peer) {
  const uint64_t index = peer.placed - peer.taken;
  return index < peer.incoming.size() && peer.incoming[index].hasCome ? &peer.incoming[index] : nullptr;
}

// Asks where the next frame belongs. What has come before its turn, whole or in part, is collected.
bool UcxFabric::place(Peer& peer, Incoming& one) {
  ++peer.placed;
  bool refuses = false;
  if (one.head.bytes > 0) one.place = taker_.placeFor(one.rank, one.head, &refuses);
  if (refuses) fail(one.rank);
  return !refuses;
}

// Those in front that are whole.
void UcxFabric::takeWhole(int rank) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  for (Incoming* next = nextOf(peer); next; next = nextOf(peer)) {
    if (!place(peer, *next)) return;
  }
  while (!peer.incoming.empty() && peer.incoming.front().isWhole && !hasFailed(rank)) {
    Incoming& one = peer.incoming.front();
    if (peer.placed == peer.taken) return;
    if (one.place && !one.body.empty()) {
      std::memcpy(one.place, one.body.data(), one.body.size());
      one.body.clear();
    }
    const std::string_view bytes(one.body.data(), one.body.size());
    if (!taker_.take(rank, one.head, bytes)) fail(rank);
    peer.incoming.pop_front();
    ++peer.taken;
  }
}

bool UcxFabric::hasSentAll() {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  if (!flushing_) {
    const ucp_request_param_t none{};
    flushing_ = ucx_.ucp_worker_flush_nbx(worker_, &none);
    if (!UCS_PTR_IS_PTR(flushing_)) {
      flushing_ = nullptr;
      return true;
    }
  }
  if (ucx_.ucp_request_check_status(flushing_) == UCS_INPROGRESS) return false;
  release(flushing_);
  flushing_ = nullptr;
  return true;
}

}  // namespace

bool canUseUcx() { return Ucx::ofProcess() != nullptr; }

Result<std::unique_ptr<Fabric>> openUcx(int rank, int ranks, FrameTaker& taker) {
  const Ucx* const ucx = Ucx::ofProcess();
  if (!ucx) {
    return unavailableError(std::string("UCX cannot be loaded (") + kLibrary + "); install libucx0 on every host");
  }
  auto fabric = std::make_unique<UcxFabric>(*ucx, rank, ranks, taker);
  HYCRT_RETURN_IF_ERROR(fabric->open());
  return std::unique_ptr<Fabric>(std::move(fabric));
}

#else

bool canUseUcx() { return false; }

Result<std::unique_ptr<Fabric>> openUcx(int, int, FrameTaker&) {
  return unavailableError("this runtime was built without UCX; build it where libucx-dev is installed");
}

#endif

}  // namespace hycrt
