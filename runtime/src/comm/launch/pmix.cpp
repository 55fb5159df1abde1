// PMIx, by the library of whoever has it: what is built here knows its header alone.
#include "comm/launch/board.h"

#ifdef HYCRT_HAS_PMIX
#include <dlfcn.h>
#include <pmix.h>

#include <cstring>
#endif

namespace hycrt {

#ifdef HYCRT_HAS_PMIX
namespace {

constexpr char kLibrary[] = "libpmix.so.2";

// Its functions, by name.
struct Library {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Fence) fence = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Error_string) describe = nullptr;

  Status open() {
    void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      return unavailableError(std::string("the launcher tells by PMIx where rank 0 is, and there is no ") + kLibrary +
                              " on this host (libpmix2); install it, or set MASTER_ADDR to the host of rank 0 and "
                              "MASTER_PORT to a port that is free there");
    }
    const auto find = [&](const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
      return *function != nullptr;
    };
    const bool hasAll = find("PMIx_Init", &init) && find("PMIx_Finalize", &finalize) && find("PMIx_Put", &put) &&
                        find("PMIx_Commit", &commit) && find("PMIx_Fence", &fence) && find("PMIx_Get", &get) &&
                        find("PMIx_Error_string", &describe);
    return hasAll ? Status() : unavailableError(std::string(kLibrary) + " lacks functions of PMIx; is it another?");
  }
};

class Pmix : public Board {
 public:
  explicit Pmix(int64_t timeoutMs) : timeoutSeconds_(static_cast<int>(timeoutMs / 1000)) {}
  ~Pmix() override {
    if (isOpen_) (void)library_.finalize(nullptr, 0);
  }

  Status open() {
    HYCRT_RETURN_IF_ERROR(library_.open());
    const pmix_status_t status = library_.init(&self_, nullptr, 0);
    isOpen_ = status == PMIX_SUCCESS;
    return check(status, "beginning");
  }

  Status put(const std::string& key, const std::string& value) override {
    pmix_value_t holder{};
    holder.type = PMIX_STRING;
    holder.data.string = const_cast<char*>(value.c_str());
    HYCRT_RETURN_IF_ERROR(check(library_.put(PMIX_GLOBAL, key.c_str(), &holder), "leaving a word"));
    return check(library_.commit(), "leaving a word");
  }

  Status fence() override {
    pmix_info_t infos[2] = {};
    std::strncpy(infos[0].key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN);
    infos[0].value.type = PMIX_BOOL;
    infos[0].value.data.flag = true;
    std::strncpy(infos[1].key, PMIX_TIMEOUT, PMIX_MAX_KEYLEN);
    infos[1].value.type = PMIX_INT;
    infos[1].value.data.integer = timeoutSeconds_;
    return check(library_.fence(nullptr, 0, infos, 2), "waiting for all ranks");
  }

  Result<std::string> get(int rank, const std::string& key) override {
    pmix_proc_t other = self_;
    other.rank = static_cast<pmix_rank_t>(rank);
    pmix_value_t* found = nullptr;  // the library's, for the process' life
    HYCRT_RETURN_IF_ERROR(check(library_.get(&other, key.c_str(), nullptr, 0, &found), "reading a word"));
    if (!found || found->type != PMIX_STRING || !found->data.string) return unavailableError("PMIx: no word is there");
    return std::string(found->data.string);
  }

 private:
  Status check(pmix_status_t status, const std::string& what) const {
    if (status == PMIX_SUCCESS) return {};
    const char* const why = library_.describe(status);
    return unavailableError("PMIx: " + what + " failed: " + (why ? why : std::to_string(status)));
  }

  const int timeoutSeconds_;
  Library library_;
  pmix_proc_t self_{};
  bool isOpen_ = false;
};

}  // namespace

Result<std::unique_ptr<Board>> openPmix(int64_t timeoutMs) {
  auto pmix = std::make_unique<Pmix>(timeoutMs);
  HYCRT_RETURN_IF_ERROR(pmix->open());
  return std::unique_ptr<Board>(std::move(pmix));
}

#else

Result<std::unique_ptr<Board>> openPmix(int64_t) {
  return unavailableError(
      "the launcher tells by PMIx where rank 0 is, and this runtime was built without it; build it where libpmix-dev "
      "is "
      "installed, or set MASTER_ADDR to the host of rank 0 and MASTER_PORT to a port that is free there");
}

#endif

}  // namespace hycrt
