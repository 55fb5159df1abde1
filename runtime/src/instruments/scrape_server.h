// ScrapeServer: answers GET /metrics, by HTTP, one client after the other. Anybody who reaches the address may ask, so
// that it is this host's loopback where nothing else is said; nothing but the metrics is ever sent, and what a client
// sends is read up to a limit and for a second at most.
#ifndef HYCRT_SRC_INSTRUMENTS_SCRAPE_SERVER_H_
#define HYCRT_SRC_INSTRUMENTS_SCRAPE_SERVER_H_

#include <functional>
#include <string>

#include "base/file.h"

namespace hycrt {

// "9400", "0.0.0.0:9400" or "[::1]:9400".
struct ListenAddress {
  std::string host;  // a name, or an address without brackets
  int port = 0;      // 0: any that is free
};
Result<ListenAddress> parseListenAddress(const std::string& text);

class ScrapeServer {
 public:
  static Result<ScrapeServer> open(const std::string& address);

  // Where it is asked: http://127.0.0.1:9400/metrics
  const std::string& url() const { return url_; }
  int fd() const { return listener_.get(); }
  // The next client, of which poll has told, gets what `text` gives.
  void answer(const std::function<std::string()>& text) const;

 private:
  FileDescriptor listener_;
  std::string url_;
};

// The whole answer to a request, of which the end may be missing where it is too long.
std::string answerTo(const std::string& request, const std::function<std::string()>& text);

}  // namespace hycrt

#endif  // HYCRT_SRC_INSTRUMENTS_SCRAPE_SERVER_H_
